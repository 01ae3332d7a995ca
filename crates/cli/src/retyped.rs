//! Columns in other types, for `convert --type`.
//!
//! Beyond what [`bedload_casts`] casts, numbers become the texts that queries print, and texts the
//! numbers that an ingest reads in them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field};
use bedload_casts::{Error, cast};
use bedload_times::Zone;

use crate::exit::{Failure, Result};
use crate::input::{keeps_digits, parse_values};
use crate::schema::type_name;

/// Why a column does not become one of another type.
pub(crate) enum Refused {
    Cast(Error),
    /// The text of a row is no number of the type, or has digits that one would lose.
    Text {
        row: usize,
        text: String,
        is_number: bool,
    },
}

/// Fails if values of one type have no meaning as the type of `field`.
pub(crate) fn check(from: &DataType, field: &Field) -> Result<()> {
    let to = field.data_type();
    if is_printed(from, to) || is_printed(to, from) {
        return Ok(());
    }
    let (name, to_name) = (field.name(), type_name(to));
    bedload_casts::check(from, to, clock(field).as_ref()).map_err(|error| {
        Failure::input(match error {
            Error::ZoneLost { zone, .. } => {
                format!("--type {name}: its times are of the zone {zone}, and {to_name} has none")
            }
            _ => format!(
                "--type {name}: values of type {} have no meaning as {to_name}",
                type_name(from)
            ),
        })
    })
}

/// A column as one of the type of `field`.
pub(crate) fn column(column: &ArrayRef, field: &Field) -> Result<ArrayRef, Refused> {
    let (from, to) = (column.data_type(), field.data_type());
    if is_printed(from, to) {
        return texts(column);
    }
    if is_printed(to, from) {
        return numbers(column, field);
    }
    cast(column, to, clock(field).as_ref()).map_err(Refused::Cast)
}

/// Whether the types are those of a number and its text.
fn is_printed(number: &DataType, text: &DataType) -> bool {
    number.is_numeric() && *text == DataType::Utf8
}

/// Whether values of one type that differ may become one of another: `01` and `1` as numbers, NaNs
/// of other bits as texts.
pub(crate) fn merges(from: &DataType, to: &DataType) -> bool {
    is_printed(to, from) || (is_printed(from, to) && from.is_floating())
}

fn texts(column: &ArrayRef) -> Result<ArrayRef, Refused> {
    let failed = |error: arrow_schema::ArrowError| {
        Refused::Cast(Error::Arrow {
            from: column.data_type().clone(),
            to: DataType::Utf8,
            reason: error.to_string(),
        })
    };
    let options = FormatOptions::new();
    let formatter = ArrayFormatter::try_new(column, &options).map_err(failed)?;
    let text = |row| {
        let text = column.is_valid(row).then(|| formatter.value(row).try_to_string());
        text.transpose()
    };
    let texts = (0..column.len()).map(text).collect::<Result<StringArray, _>>();
    Ok(Arc::new(texts.map_err(failed)?))
}

/// An empty text is no value, as in CSV; a text whose number would be rounded, or that has leading
/// zeros, is refused.
fn numbers(column: &ArrayRef, field: &Field) -> Result<ArrayRef, Refused> {
    let texts = column.as_string::<i32>();
    let numbers = parse_values(texts, field.data_type());
    let is_null = |row: usize| texts.is_null(row) || (texts.value(row).is_empty() && field.is_nullable());
    let is_kept = |row: usize| numbers.is_valid(row) && keeps_digits(texts.value(row), field.data_type());
    match (0..texts.len()).find(|&row| !is_null(row) && !is_kept(row)) {
        Some(row) => Err(Refused::Text {
            row,
            text: texts.value(row).to_owned(),
            is_number: numbers.is_valid(row),
        }),
        None => Ok(numbers),
    }
}

/// The clock on which times without a zone were read that get the zone of a column: one of that
/// zone.
fn clock(field: &Field) -> Option<Zone> {
    match field.data_type() {
        DataType::Timestamp(_, Some(zone)) => Zone::parse(zone).ok(),
        _ => None,
    }
}
