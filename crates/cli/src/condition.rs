//! Conditions on columns, as `--where` takes them.

use std::sync::Arc;
use std::time::SystemTime;

use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, TimeUnit};
use bedload::{Operator, Predicate, Scan, Table};
use bedload_times::Clock;

use crate::exit::{Failure, Result};
use crate::input::parse_values;

/// The operators, the longer of two that begin alike first.
const OPERATORS: [(&str, Operator); 8] = [
    ("<=", Operator::LtEq),
    (">=", Operator::GtEq),
    ("!=", Operator::NotEq),
    ("<>", Operator::NotEq),
    ("==", Operator::Eq),
    ("<", Operator::Lt),
    (">", Operator::Gt),
    ("=", Operator::Eq),
];

/// A condition on one column of a table.
#[derive(Debug)]
pub(crate) struct Condition {
    column: String,
    predicate: Predicate,
}

impl Condition {
    /// Reads `COLUMN OPERATOR VALUE`, `COLUMN in VALUE,VALUE`, `COLUMN is null` or
    /// `COLUMN is not null`.
    pub(crate) fn read(table: &Table, text: &str) -> Result<Self> {
        let refused = |reason: String| Failure::input(format!("--where {text:?}: {reason}"));
        let schema = table.schema().arrow();
        let mut names: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        // A name may be the beginning of another.
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        let named = names.iter().find_map(|name| {
            let rest = text.trim_start().strip_prefix(name)?;
            let begins_other = |c: char| c.is_whitespace() || "<>=!".contains(c);
            rest.starts_with(begins_other).then(|| (*name, rest.trim()))
        });
        let Some((column, rest)) = named else {
            let table = table.name();
            return Err(refused(format!(
                "it does not begin with a column of table {table}; there are: {}",
                table_columns(schema)
            )));
        };
        let kind = schema
            .field_with_name(column)
            .map_err(|error| refused(error.to_string()))?
            .data_type();
        let predicate = predicate(kind, rest).map_err(refused)?;
        Ok(Self {
            column: column.to_owned(),
            predicate,
        })
    }

    /// The scan of the rows that meet the condition.
    pub(crate) fn apply(&self, scan: Scan) -> bedload::Result<Scan> {
        scan.filter(&self.column, self.predicate.clone())
    }
}

fn table_columns(schema: &arrow_schema::Schema) -> String {
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    names.join(", ")
}

fn predicate(kind: &DataType, text: &str) -> Result<Predicate, String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["is", "null"] => return Ok(Predicate::is_null()),
        ["is", "not", "null"] => return Ok(Predicate::is_not_null()),
        _ => {}
    }
    let made = if words.first() == Some(&"in") && words.len() > 1 {
        let values: Vec<&str> = text.trim_start()[2..].split(',').map(unquoted).collect();
        Predicate::is_in(&literals(kind, &values)?)
    } else {
        let known = OPERATORS
            .iter()
            .find_map(|&(sign, operator)| Some((operator, text.strip_prefix(sign)?)));
        let Some((operator, value)) = known else {
            return Err(
                "the column is followed by one of = != < <= > >=, in, is null, is not null".to_owned(),
            );
        };
        Predicate::compare(operator, &literals(kind, &[unquoted(value)])?)
    };
    made.map_err(|error| error.to_string())
}

/// A value without the quotes that may stand around it.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let within = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    within('\'').or_else(|| within('"')).unwrap_or(value)
}

/// Values of the type of a column. One that the column cannot hold as it is written is refused: a
/// rounded one would meet other rows.
fn literals(kind: &DataType, values: &[&str]) -> Result<ArrayRef, String> {
    let texts = StringArray::from_iter_values(values);
    match kind {
        DataType::Utf8 => Ok(Arc::new(texts)),
        DataType::Timestamp(unit, zone) => times(values, *unit, zone.as_deref(), kind),
        DataType::FixedSizeBinary(_) | DataType::Binary => {
            Err("columns of bytes cannot be compared here".to_owned())
        }
        _ => {
            let array = parse_values(&texts, kind);
            // The day of a time of day is no such value.
            let is_date = |text: &&str| *kind != DataType::Date32 || !text.contains([' ', 'T', 't', ':']);
            if array.null_count() == 0 && values.iter().all(is_date) {
                return Ok(array);
            }
            let wanted = crate::schema::type_name(kind);
            Err(format!("`{}` is not of type {wanted}", values.join(", ")))
        }
    }
}

/// Times as `--from` takes them, but for those between two ticks.
fn times(values: &[&str], unit: TimeUnit, zone: Option<&str>, kind: &DataType) -> Result<ArrayRef, String> {
    let clock = Clock::new(unit, zone).map_err(|error| error.to_string())?;
    let now = SystemTime::now();
    let ticks = values.iter().map(|text| clock.tick(text, now));
    let ticks: Vec<i64> = ticks
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    cast_with_options(&Int64Array::from(ticks), kind, &CastOptions::default())
        .map_err(|error| error.to_string())
}
