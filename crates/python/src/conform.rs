//! Columns as they come, made into those of a table: found by name, and of the table's types
//! without loss.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_schema::{DataType, TimeUnit};
use bedload::TableSchema;
use bedload_times::{Zone, nanos_per_tick};
use pyo3::prelude::*;

use crate::error::schema as refuse;

/// The rows of a batch with the columns of `table`, in its order. A column that comes in another
/// type is cast, and refused where the cast would lose anything. One that is missing is refused
/// unless `allow_missing`; then it is null, if it may be and is none of the key.
pub(crate) fn conform(
    batch: &RecordBatch,
    table: &TableSchema,
    allow_missing: bool,
) -> PyResult<RecordBatch> {
    let (given, schema) = (batch.schema(), table.arrow());
    let key = table.key().unwrap_or_default();
    if let Some(other) = given
        .fields()
        .iter()
        .find(|field| schema.index_of(field.name()).is_err())
    {
        return Err(refuse(format!("the table has no column {:?}", other.name())));
    }
    let mut columns = Vec::with_capacity(schema.fields().len());
    let mut found = 0;
    for (number, field) in schema.fields().iter().enumerate() {
        if let Some(column) = batch.column_by_name(field.name()) {
            columns.push(conform_column(column, field.data_type(), field.name())?);
            found += 1;
            continue;
        }
        let lacks = format!("the rows have no column {:?}", field.name());
        match field.is_nullable() && !key.contains(&number) {
            true if allow_missing => columns.push(new_null_array(field.data_type(), batch.num_rows())),
            true => {
                return Err(refuse(format!(
                    "{lacks}; with allow_missing=True it is null in these rows"
                )));
            }
            false => return Err(refuse(lacks)),
        }
    }
    // Each name is one of the table's, so more than were found are repeated ones.
    if given.fields().len() > found {
        let mut seen = HashSet::new();
        let repeated = given.fields().iter().find(|field| !seen.insert(field.name()));
        let name = repeated.map_or("", |field| field.name());
        return Err(refuse(format!("two columns are named {name:?}")));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let named = arrow_schema::Schema::new(
        schema
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_nullable(true))
            .collect::<Vec<_>>(),
    );
    RecordBatch::try_new_with_options(Arc::new(named), columns, &options)
        .map_err(|error| refuse(error.to_string()))
}

fn conform_column(column: &ArrayRef, to: &DataType, name: &str) -> PyResult<ArrayRef> {
    let from = column.data_type();
    if from == to {
        return Ok(column.clone());
    }
    let lossy = || {
        refuse(format!(
            "column {name:?} is {from} and the table's is {to}: values would change"
        ))
    };
    match (from, to) {
        (DataType::Timestamp(given, zone), DataType::Timestamp(unit, kept)) => {
            if zone.is_some() && kept.is_none() {
                return Err(refuse(format!(
                    "column {name:?} has times of the zone {:?} and the table's times have no zone: convert them first",
                    zone.as_deref().unwrap_or_default()
                )));
            }
            check_ticks(column, *given, *unit, name)?;
            if let (None, Some(kept)) = (zone, kept) {
                let strict = CastOptions {
                    safe: false,
                    ..CastOptions::default()
                };
                let ticks = cast_with_options(column, &DataType::Timestamp(*unit, None), &strict)
                    .map_err(|_| lossy())?;
                return in_utc(&ticks, *unit, kept, name);
            }
        }
        (DataType::Date32 | DataType::Date64, DataType::Timestamp(..)) => {
            // Days in milliseconds need not be whole ones, so they are checked as times are.
            let unit = match from {
                DataType::Date64 => TimeUnit::Millisecond,
                _ => TimeUnit::Second,
            };
            let days = cast(column, &DataType::Timestamp(unit, None)).map_err(|_| lossy())?;
            return conform_column(&days, to, name);
        }
        (DataType::Utf8View | DataType::LargeUtf8, DataType::Utf8) => {}
        (DataType::Dictionary(_, values), DataType::Utf8) if values.is_string() => {}
        (DataType::Null, _) => {}
        (DataType::Dictionary(..), _) => {
            let plain = match from {
                DataType::Dictionary(_, values) => values.as_ref(),
                other => other,
            };
            let plain = cast(column, plain).map_err(|_| lossy())?;
            return conform_column(&plain, to, name);
        }
        (DataType::Date64, DataType::Date32) => return exact(column, to, name),
        // pandas and NumPy know no dates: midnights are days.
        (DataType::Timestamp(unit, None), DataType::Date32) => {
            check_ticks(column, *unit, TimeUnit::Second, name)?;
            return exact(column, to, name);
        }
        // Arrow has no such cast.
        (DataType::BinaryView, DataType::FixedSizeBinary(_)) => {
            let plain = cast(column, &DataType::Binary).map_err(|_| lossy())?;
            return conform_column(&plain, to, name);
        }
        (
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_),
            DataType::FixedSizeBinary(_) | DataType::Binary,
        ) => {}
        (DataType::Time32(_) | DataType::Time64(_), DataType::Time32(_) | DataType::Time64(_))
        | (DataType::Duration(_), DataType::Duration(_)) => return exact(column, to, name),
        _ if from.is_numeric() && to.is_numeric() => return exact(column, to, name),
        _ => {
            return Err(refuse(format!("column {name:?} is {from}; the table's is {to}")));
        }
    }
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(column, to, &strict).map_err(|error| {
        refuse(format!(
            "column {name:?}, which is {from}, does not become {to}: {error}"
        ))
    })
}

/// Readings of a zone's clocks as times of that zone, by the rule that queries have.
fn in_utc(readings: &ArrayRef, unit: TimeUnit, name_of_zone: &Arc<str>, column: &str) -> PyResult<ArrayRef> {
    let zone = Zone::parse(name_of_zone).map_err(|error| refuse(error.to_string()))?;
    let ticks = cast(readings, &DataType::Int64).map_err(|error| refuse(error.to_string()))?;
    let ticks = ticks.as_primitive::<Int64Type>();
    let mut utc = Vec::with_capacity(ticks.len());
    for (row, &reading) in ticks.values().iter().enumerate() {
        // A value under a null may be anything.
        utc.push(if ticks.is_valid(row) {
            zone.utc_ticks(reading, unit)
                .map_err(|error| refuse(format!("row {row} of column {column:?}: {error}")))?
        } else {
            0
        });
    }
    let utc: ArrayRef = Arc::new(Int64Array::new(utc.into(), ticks.nulls().cloned()));
    cast(&utc, &DataType::Timestamp(unit, Some(name_of_zone.clone())))
        .map_err(|error| refuse(error.to_string()))
}

/// The column in another type, if casting it back gives what it was.
fn exact(column: &ArrayRef, to: &DataType, name: &str) -> PyResult<ArrayRef> {
    let from = column.data_type();
    let there = cast(column, to).map_err(|error| refuse(error.to_string()))?;
    let back = cast(&there, from).map_err(|error| refuse(error.to_string()))?;
    if back.to_data() == column.to_data() || same_values(&back, column) {
        Ok(there)
    } else {
        Err(refuse(format!(
            "column {name:?} is {from} and the table's is {to}: some values would change"
        )))
    }
}

/// Whether two columns are equal, each NaN to each other NaN.
fn same_values(one: &ArrayRef, other: &ArrayRef) -> bool {
    let equal = arrow_ord::cmp::not_distinct(one, other);
    equal.is_ok_and(|equal| equal.true_count() == equal.len())
}

/// Refuses times that a coarser unit would round.
fn check_ticks(column: &ArrayRef, from: TimeUnit, to: TimeUnit, name: &str) -> PyResult<()> {
    let per_tick = nanos_per_tick(from);
    if nanos_per_tick(to) <= per_tick {
        return Ok(());
    }
    let divisor = nanos_per_tick(to) / per_tick;
    let ticks = cast(column, &DataType::Int64).map_err(|error| refuse(error.to_string()))?;
    let ticks = ticks.as_primitive::<Int64Type>();
    match (0..ticks.len()).find(|&row| ticks.is_valid(row) && ticks.value(row) % divisor != 0) {
        None => Ok(()),
        Some(row) => Err(refuse(format!(
            "row {row} of column {name:?} is not a whole {}: round the times first, or use a table of a finer unit",
            match to {
                TimeUnit::Second => "second",
                TimeUnit::Millisecond => "millisecond",
                TimeUnit::Microsecond => "microsecond",
                TimeUnit::Nanosecond => "nanosecond",
            }
        ))),
    }
}
