//! Which columns of a file are wanted, and under which types they are stored.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::TableSchema;

use crate::exit::{Failure, Result};
use crate::input::Wanted;
use crate::schema::{in_known_zone, same_type, type_name};
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
    let stored = match (
        stored_type(field.data_type()).map(|stored| seconds::restored(field, stored)),
        wanted.tick_unit(name).filter(|_| is_time),
    ) {
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
    if let Some(given) = wanted.known_type(name)
        && !same_type(given, &stored)
    {
        let (stored, given) = (type_name(&stored), type_name(given));
        return Err(Failure::input(format!(
            "{file}: column {name} is of type {stored}, not {given}"
        )));
    }
    let stored = match wanted.known_type(name) {
        Some(known) => known.clone(),
        None => in_known_zone(stored).map_err(|error| {
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

/// The type of a table's column that holds all values of a type of Arrow's.
fn stored_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Null => Some(DataType::Utf8),
        DataType::Dictionary(_, values) => stored_type(values),
        DataType::Date64 => Some(DataType::Timestamp(TimeUnit::Millisecond, None)),
        other => TableSchema::stored_type(other),
    }
}
