//! One JSON object a line.

use std::io::Write;

use arrow_array::{Array, RecordBatch, downcast_temporal_array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_json::writer::{LineDelimited, Writer, WriterBuilder};
use arrow_schema::ArrowError;

/// Writes rows as objects, each column in each.
pub(super) struct JsonWriter<W: Write> {
    objects: Writer<W, LineDelimited>,
}

impl<W: Write> JsonWriter<W> {
    pub(super) fn new(target: W) -> Self {
        Self {
            objects: WriterBuilder::new().with_explicit_nulls(true).build(target),
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        // The writer makes texts of errors.
        batch
            .columns()
            .iter()
            .try_for_each(|column| refuse_beyond_calendar(column.as_ref()))?;
        self.objects.write(batch)
    }

    pub(super) fn flush(&mut self) -> Result<(), ArrowError> {
        Ok(self.objects.get_mut().flush()?)
    }

    pub(super) fn finish(mut self) -> Result<W, ArrowError> {
        self.objects.finish()?;
        Ok(self.objects.into_inner())
    }
}

/// Fails if a time or date cannot be written. The calendar is one range, so the least and the
/// greatest tell of all.
fn refuse_beyond_calendar(column: &dyn Array) -> Result<(), ArrowError> {
    let rows = || (0..column.len()).filter(|&row| column.is_valid(row));
    let extremes = downcast_temporal_array!(
        column => {
            let value_of = |row: &usize| column.value(*row);
            [rows().min_by_key(value_of), rows().max_by_key(value_of)]
        }
        _ => [None, None]
    );
    let texts = ArrayFormatter::try_new(column, &FormatOptions::default())?;
    extremes
        .into_iter()
        .flatten()
        .try_for_each(|row| texts.value(row).try_to_string().map(drop))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Date32Array, Time32SecondArray, TimestampSecondArray};

    use super::*;

    fn written(column: ArrayRef) -> Result<String, ArrowError> {
        let mut writer = JsonWriter::new(Vec::new());
        writer.write(&RecordBatch::try_from_iter([("t", column)])?)?;
        writer.finish().map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn times_beyond_the_calendar_are_errors() {
        let times = |last| TimestampSecondArray::from(vec![Some(0), None, Some(last), Some(1)]);
        assert_eq!(
            written(Arc::new(times(2))).unwrap(),
            "{\"t\":\"1970-01-01T00:00:00\"}\n{\"t\":null}\n{\"t\":\"1970-01-01T00:00:02\"}\n\
             {\"t\":\"1970-01-01T00:00:01\"}\n"
        );
        for beyond in [i64::MAX, i64::MIN] {
            assert!(written(Arc::new(times(beyond))).is_err());
            assert!(written(Arc::new(times(beyond).with_timezone("+01:00"))).is_err());
        }
        assert!(written(Arc::new(Date32Array::from(vec![0, i32::MAX]))).is_err());
        assert!(written(Arc::new(Time32SecondArray::from(vec![-1, 0]))).is_err());
        // A value under a null may be anything.
        assert!(written(Arc::new(TimestampSecondArray::from(vec![None::<i64>]))).is_ok());
    }
}
