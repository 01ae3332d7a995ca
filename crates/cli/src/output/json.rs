//! One JSON object a line.

use std::io::Write;

use arrow_array::RecordBatch;
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
