//! Times in whole seconds, and times of day in whole seconds, in Parquet: the format knows neither,
//! so they are written as milliseconds, and marked.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

/// The key of a field's metadata that says of which unit its milliseconds are whole numbers.
const UNIT_KEY: &str = "bedload.unit";
const SECONDS: &str = "s";

/// The schema under which rows are written.
pub(crate) fn written_schema(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let milliseconds = match field.data_type() {
            DataType::Timestamp(TimeUnit::Second, zone) => {
                DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
            }
            DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
            _ => return Arc::clone(field),
        };
        let mark = HashMap::from([(UNIT_KEY.to_owned(), SECONDS.to_owned())]);
        Arc::new(Field::new(field.name(), milliseconds, field.is_nullable()).with_metadata(mark))
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Rows under the schema under which they are written.
///
/// # Errors
///
/// A number of seconds is beyond the range of milliseconds.
pub(crate) fn written_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            if column.data_type() == field.data_type() {
                return Ok(Arc::clone(column));
            }
            cast_with_options(column, field.data_type(), &strict)
        });
    RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<Vec<ArrayRef>, _>>()?)
}

/// The type that a column of a Parquet file had before it was written.
pub(crate) fn restored(field: &Field, stored: DataType) -> DataType {
    if field.metadata().get(UNIT_KEY).map(String::as_str) != Some(SECONDS) {
        return stored;
    }
    match stored {
        DataType::Timestamp(TimeUnit::Millisecond, zone) => DataType::Timestamp(TimeUnit::Second, zone),
        DataType::Time32(TimeUnit::Millisecond) => DataType::Time32(TimeUnit::Second),
        stored => stored,
    }
}
