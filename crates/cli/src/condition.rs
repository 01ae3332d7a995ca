//! Conditions on columns, as `--where` takes them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Date32Array, Int64Array, StringArray};
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_schema::{DataType, TimeUnit};
use bedload::{Operator, Predicate, Scan, Table};
use bedload_times::{Clock, parse_duration, unit_name};

use crate::exit::{Failure, Result};
use crate::input::parse_values;
use crate::quoted::quoted;

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
    /// Reads `COLUMN OPERATOR VALUE`, `COLUMN in VALUE,VALUE`, `COLUMN in (VALUE,VALUE)`,
    /// `COLUMN is null` or `COLUMN is not null`.
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
    let made = if let Some(list) = list_of(text) {
        Predicate::is_in(&literals(kind, &listed(list)?)?)
    } else {
        let known = OPERATORS
            .iter()
            .find_map(|&(sign, operator)| Some((operator, text.strip_prefix(sign)?)));
        let Some((operator, value)) = known else {
            return Err(
                "the column is followed by one of = != < <= > >=, in, is null, is not null".to_owned(),
            );
        };
        let (value, _) = value_before(value, &[])?;
        Predicate::compare(operator, &literals(kind, &[value])?)
    };
    made.map_err(|error| error.to_string())
}

/// The values of `in VALUE,VALUE` or `in (VALUE,VALUE)`.
fn list_of(text: &str) -> Option<&str> {
    let (word, list) = text.split_at_checked(2)?;
    let is_list = list.starts_with(|c: char| c.is_whitespace() || c == '(');
    (word.eq_ignore_ascii_case("in") && is_list).then_some(list)
}

/// Splits a list at the commas that are not within quotes.
fn listed(list: &str) -> Result<Vec<String>, String> {
    let list = list.trim();
    let within = list.strip_prefix('(');
    let ends: &[char] = if within.is_some() { &[',', ')'] } else { &[','] };
    let mut values = Vec::new();
    let mut rest = within.unwrap_or(list);
    if rest.trim_start().trim_start_matches(')').is_empty() {
        return Err("the list is empty".to_owned());
    }
    loop {
        let (value, after) = value_before(rest, ends)?;
        let mut after = after.chars();
        let end = after.next();
        rest = after.as_str();
        values.push(value);
        match (end, within) {
            (Some(','), _) => {}
            (Some(_), _) if rest.is_empty() => return Ok(values),
            (Some(_), _) => {
                return Err(format!(
                    "`{rest}` follows the closing parenthesis: quote a value that has a parenthesis in it"
                ));
            }
            (None, Some(_)) => return Err("the parenthesis is not closed".to_owned()),
            (None, None) => return Ok(values),
        }
    }
}

/// Reads a value that one of `ends` or the end of the text follows, and returns what begins there.
/// Within quotes `ends` are part of the value, and a doubled quote stands for one.
fn value_before<'a>(text: &'a str, ends: &[char]) -> Result<(String, &'a str), String> {
    let text = text.trim();
    let Some((value, after)) = quoted(text, "'\"")? else {
        let (value, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
        // `in Oslo,Rome (NY)` is a list; `in Oslo,Rome)` lacks a parenthesis.
        if !ends.is_empty() && value.matches('(').count() != value.matches(')').count() {
            return Err(format!(
                "a parenthesis of `{value}` has no counterpart: quote the value"
            ));
        }
        let value = value.trim_end();
        refuse_sql(value)?;
        return Ok((value.to_owned(), rest));
    };
    let rest = after.trim_start();
    if rest.is_empty() || rest.starts_with(ends) {
        Ok((value, rest))
    } else {
        Err(format!(
            "`{rest}` follows the closing quote of `{value}`: write a quote within quotes twice"
        ))
    }
}

/// Fails if an unquoted value is evidently meant as more than a value. As a text it would meet no
/// row.
fn refuse_sql(value: &str) -> Result<(), String> {
    let lower = value.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let inner = words.get(1..words.len().saturating_sub(1)).unwrap_or_default();
    if words.is_empty() {
        Err("the value is missing: write '' for an empty text, `is null` for a missing value".to_owned())
    } else if words == ["null"] {
        Err(format!(
            "nothing equals null: write `is null` or `is not null`, or '{value}' for the text"
        ))
    } else if inner.contains(&"and") {
        Err(format!(
            "`{value}` is one value: give --where once for each condition, or quote a text with `and` in it"
        ))
    } else if inner.contains(&"or") {
        Err(format!(
            "`{value}` is one value: write `in (a, b)` for one of several, or quote a text with `or` in it"
        ))
    } else {
        Ok(())
    }
}

/// Values of the type of a column. One that the column cannot hold as it is written is refused: a
/// rounded one would meet other rows.
fn literals(kind: &DataType, values: &[String]) -> Result<ArrayRef, String> {
    let texts = StringArray::from_iter_values(values);
    match kind {
        DataType::Utf8 => Ok(Arc::new(texts)),
        DataType::Timestamp(unit, zone) => times(values, *unit, zone.as_deref(), kind),
        DataType::Date32 => dates(values, &parse_values(&texts, kind)).ok_or_else(|| not_of(kind, values)),
        DataType::Duration(unit) => {
            let array = parse_values(&texts, kind);
            match (0..array.len()).find(|&value| array.is_null(value)) {
                None => Ok(array),
                Some(value) => Err(format!(
                    "`{}` is no duration of whole {}: write 5s, 90min, -1d or PT1.5S",
                    values[value],
                    unit_name(*unit)
                )),
            }
        }
        DataType::FixedSizeBinary(_) | DataType::Binary => {
            Err("columns of bytes cannot be compared here".to_owned())
        }
        _ => {
            let array = parse_values(&texts, kind);
            if array.null_count() > 0 {
                return Err(not_of(kind, values));
            }
            if kind.is_floating() {
                check_integers(values, &array)?;
            }
            Ok(array)
        }
    }
}

/// Fails if one of the values is an integer, and the float that it became is another.
fn check_integers(values: &[String], floats: &ArrayRef) -> Result<(), String> {
    let doubles = cast(floats, &DataType::Float64).map_err(|error| error.to_string())?;
    for (text, double) in values.iter().zip(doubles.as_primitive::<Float64Type>()) {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_integer =
            whole.bytes().all(|byte| byte.is_ascii_digit()) && fraction.bytes().all(|byte| byte == b'0');
        // The digits of a float are all written, as many as there are.
        let held = format!("{:.0}", double.unwrap_or_default().abs());
        if is_integer && whole.trim_start_matches('0') != held.trim_start_matches('0') {
            let kind = crate::schema::type_name(floats.data_type());
            return Err(format!("`{text}` is between two values of type {kind}"));
        }
    }
    Ok(())
}

fn not_of(kind: &DataType, values: &[String]) -> String {
    let wanted = crate::schema::type_name(kind);
    format!("`{}` is not of type {wanted}", values.join(", "))
}

/// Dates, as parsed, or as durations before today in UTC. The day of a time of day is no such
/// value.
fn dates(values: &[String], parsed: &ArrayRef) -> Option<ArrayRef> {
    const DAY: i128 = 24 * 3600 * 1_000_000_000;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let today = i128::try_from(since_1970.as_nanos()).ok()?.div_euclid(DAY);
    let days = values.iter().zip(parsed.as_primitive::<Date32Type>());
    let days = days.map(|(text, day)| match text.strip_prefix('-').map(parse_duration) {
        Some(Ok(before)) if before % DAY == 0 => i32::try_from(today - before / DAY).ok(),
        Some(Ok(_)) => None,
        _ => day.filter(|_| !text.contains([' ', 'T', 't', ':'])),
    });
    Some(Arc::new(Date32Array::from(days.collect::<Option<Vec<_>>>()?)))
}

/// Times as `--from` takes them, but for those between two ticks.
fn times(values: &[String], unit: TimeUnit, zone: Option<&str>, kind: &DataType) -> Result<ArrayRef, String> {
    let clock = Clock::new(unit, zone).map_err(|error| error.to_string())?;
    let now = SystemTime::now();
    let ticks = values.iter().map(|text| clock.tick(text, now));
    let ticks: Vec<i64> = ticks
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    cast_with_options(&Int64Array::from(ticks), kind, &CastOptions::default())
        .map_err(|error| error.to_string())
}
