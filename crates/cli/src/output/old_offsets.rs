//! Columns with times that are written in UTC, as a text cannot have the [offset](has_seconds) that
//! the clocks of their zone had.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use bedload_times::Zone;

use crate::times::has_seconds;

/// The same rows, with texts in the columns that have such times.
pub(super) fn in_utc(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let mut fields = batch.schema_ref().fields().to_vec();
    let mut columns = batch.columns().to_vec();
    for (field, column) in fields.iter_mut().zip(&mut columns) {
        if let Some(texts) = texts(column)? {
            *field = Arc::new(Field::new(field.name(), DataType::Utf8, true));
            *column = Arc::new(texts);
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

/// The texts of a column that has such times.
fn texts(column: &ArrayRef) -> Result<Option<StringArray>, ArrowError> {
    let DataType::Timestamp(unit, Some(zone)) = column.data_type() else {
        return Ok(None);
    };
    // The formatter reports an unknown zone.
    let Ok(zone) = Zone::parse(zone) else {
        return Ok(None);
    };
    let ticks = cast(column, &DataType::Int64)?;
    let ticks = ticks.as_primitive::<Int64Type>();
    let has_seconds = |row: usize| has_seconds(&zone, ticks.value(row), *unit);
    let mut valid = (0..column.len()).filter(|&row| column.is_valid(row));
    if !valid.any(has_seconds) {
        return Ok(None);
    }
    let in_utc = cast(column, &DataType::Timestamp(*unit, Some("UTC".into())))?;
    let options = FormatOptions::default();
    let local = ArrayFormatter::try_new(column.as_ref(), &options)?;
    let in_utc = ArrayFormatter::try_new(in_utc.as_ref(), &options)?;
    let text = |row: usize| {
        let formatter = if has_seconds(row) { &in_utc } else { &local };
        let text = column.is_valid(row).then(|| formatter.value(row).try_to_string());
        text.transpose()
    };
    (0..column.len()).map(text).collect::<Result<_, _>>().map(Some)
}
