//! Columns as they come, made into those of a table: found by name, and of the table's types
//! without loss.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType, Field, TimeUnit};
use bedload::TableSchema;
use bedload_casts::{Error, cast};
use bedload_times::{Zone, nanos_per_tick};
use pyo3::prelude::*;

use crate::error::schema as refuse;

/// The rows of a batch with the columns of `table`, in its order. A column that comes in another
/// type is cast, and refused where the cast would lose anything. One that is missing is refused
/// unless `allow_missing`; then it is null, if it may be and is none of the key. Errors count rows
/// from `rows_before`, the rows of earlier batches.
pub(crate) fn conform(
    batch: &RecordBatch,
    table: &TableSchema,
    allow_missing: bool,
    rows_before: usize,
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
            columns.push(conform_column(column, field, rows_before)?);
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

fn conform_column(column: &ArrayRef, field: &Field, rows_before: usize) -> PyResult<ArrayRef> {
    let to = field.data_type();
    if column.data_type() == to {
        return Ok(column.clone());
    }
    // Readings without a zone are of the column's own, by the rule that queries have.
    let clock = match to {
        DataType::Timestamp(_, Some(zone)) => {
            Some(Zone::parse(zone).map_err(|error| refuse(error.to_string()))?)
        }
        _ => None,
    };
    cast(column, to, clock.as_ref()).map_err(|error| refused(&error, column.data_type(), field, rows_before))
}

/// Why a column is not of the table's type.
fn refused(error: &Error, from: &DataType, field: &Field, rows_before: usize) -> PyErr {
    let (to, name) = (field.data_type(), field.name());
    let place = |row: &usize| format!("row {} of column {name:?}", rows_before + row);
    refuse(match error {
        Error::Value { row, value, .. } => match (time_unit(from), to) {
            (Some(given), DataType::Timestamp(unit, _)) if nanos_per_tick(given) < nanos_per_tick(*unit) => {
                format!(
                    "{}: {value} is not a whole {}: round the times first, or use a table of a finer unit",
                    place(row),
                    name_of(*unit)
                )
            }
            _ => format!("{}: {value} is no {to}: values would change", place(row)),
        },
        Error::Reading { row, reason } => format!("{}: {reason}", place(row)),
        Error::ZoneLost { zone, .. } => format!(
            "column {name:?} has times of the zone {zone:?} and the table's times have no zone: convert them first"
        ),
        Error::Types { from, to } => format!("column {name:?} is {from}; the table's is {to}"),
        other => format!("column {name:?}: {other}"),
    })
}

fn time_unit(from: &DataType) -> Option<TimeUnit> {
    match from {
        DataType::Timestamp(unit, _) => Some(*unit),
        DataType::Date64 => Some(TimeUnit::Millisecond),
        _ => None,
    }
}

fn name_of(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "second",
        TimeUnit::Millisecond => "millisecond",
        TimeUnit::Microsecond => "microsecond",
        TimeUnit::Nanosecond => "nanosecond",
    }
}
