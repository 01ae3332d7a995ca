//! Which columns of a file are wanted, and under which types they are stored.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::TableSchema;
use bedload_casts::{Error, check};

use crate::exit::{Failure, Result};
use crate::input::Wanted;
use crate::schema::{in_known_zone, type_name};
use crate::seconds;

/// The wanted columns of a file.
pub(super) struct Columns {
    /// Their places in it.
    pub(super) places: Vec<usize>,
    /// The types under which they are stored.
    pub(super) schema: SchemaRef,
    /// The unit of the time column, if that has integers.
    pub(super) count_unit: Option<TimeUnit>,
    /// The same unit, if it is that of the table because nothing else names it.
    pub(super) assumed_unit: Option<TimeUnit>,
}

/// Finds the wanted columns in a file.
pub(super) fn columns(file: &str, found: &Schema, wanted: &Wanted) -> Result<Columns> {
    let offered: Vec<String> = found.fields().iter().map(|field| field.name().clone()).collect();
    let places = wanted.places(file, &offered)?;
    let fields: Vec<Field> = places
        .iter()
        .map(|&place| column(file, found.field(place), wanted))
        .collect::<Result<_>>()?;
    let mut integers = places
        .iter()
        .map(|&place| found.field(place))
        .filter(|field| stored_type(field.data_type()).is_some_and(|stored| stored.is_integer()));
    let counts = integers.find(|field| wanted.is_time(field.name()));
    Ok(Columns {
        schema: Arc::new(Schema::new(fields)),
        count_unit: counts.and_then(|field| wanted.tick_unit(field.name())),
        assumed_unit: counts.and_then(|field| wanted.assumed_unit(field.name())),
        places,
    })
}

/// The type under which a column of a file is stored.
fn column(file: &str, field: &Field, wanted: &Wanted) -> Result<Field> {
    let name = field.name();
    let is_time = wanted.is_time(name);
    let found = stored_type(field.data_type()).map(|stored| seconds::restored(field, stored));
    let is_count = is_time && found.as_ref().is_some_and(DataType::is_integer);
    let stored = match (found, wanted.tick_unit(name).filter(|_| is_time)) {
        (Some(count), Some(unit)) if count.is_integer() => match wanted.known_type(name) {
            Some(known @ DataType::Timestamp(..)) => Some(known.clone()),
            _ => Some(DataType::Timestamp(unit, None)),
        },
        (Some(DataType::Date32), unit) if is_time => {
            Some(DataType::Timestamp(unit.unwrap_or(TimeUnit::Second), None))
        }
        (stored, _) => stored,
    };
    let Some(stored) = stored else {
        return Err(Failure::input(format!(
            "{file}: column {name} is of type {}, which cannot be stored; leave it out with --columns",
            field.data_type()
        )));
    };
    let stored = match wanted.known_type(name) {
        Some(known) => {
            // Counts become times by their unit.
            if !is_count && let Err(error) = check(field.data_type(), known, wanted.clock.as_ref()) {
                return Err(refusal(&format!("{file}: column {name}"), &stored, known, &error));
            }
            known.clone()
        }
        None => in_known_zone(wanted.on_clock(stored)).map_err(|error| {
            Failure::input(format!(
                "{file}: column {name}: {error}, so its times could not be shown; leave it out with --columns"
            ))
        })?,
    };
    match (&stored, is_time) {
        (DataType::Timestamp(..), _) | (_, false) => {}
        (count, true) if count.is_integer() => {
            return Err(Failure::input(format!(
                "{file}: column {name} holds integers: say what one unit is, with --time-unit s, ms, us or ns"
            )));
        }
        (other, true) => {
            let other = type_name(other);
            return Err(Failure::input(format!(
                "{file}: column {name} is of type {other}, which is no time"
            )));
        }
    }
    Ok(Field::new(name, stored, !is_time && wanted.is_nullable(name)))
}

/// Why no value of a column becomes one of the table's column.
fn refusal(column: &str, found: &DataType, wanted: &DataType, error: &Error) -> Failure {
    let (found, wanted) = (type_name(found), type_name(wanted));
    Failure::input(match error {
        Error::ZoneUnknown { .. } => format!(
            "{column} is of type {found}, not {wanted}: say on the clocks of which zone its times were read, \
             with --time-zone"
        ),
        _ => format!("{column} is of type {found}, not {wanted}"),
    })
}

/// The type of a table's column that holds all values of a type of Arrow's.
fn stored_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Null => Some(DataType::Utf8),
        DataType::Dictionary(_, values) => stored_type(values),
        DataType::Date64 => Some(DataType::Timestamp(TimeUnit::Millisecond, None)),
        other => TableSchema::stored_type(other),
    }
}
