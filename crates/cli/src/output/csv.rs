//! Comma-separated values.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, SchemaRef};
use csv::ByteRecord;

/// Writes rows as records, after a header with the names of the columns.
pub(super) struct CsvWriter<W: Write> {
    records: csv::Writer<W>,
    /// The text that stands for no value.
    null: String,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the header.
    pub(super) fn begin(target: W, schema: &SchemaRef, null: &str) -> Result<Self, ArrowError> {
        let mut records = csv::Writer::from_writer(target);
        let names = schema.fields().iter().map(|field| field.name());
        records.write_record(names).map_err(of_csv)?;
        Ok(Self {
            records,
            null: null.to_owned(),
        })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let options = FormatOptions::default().with_null(&self.null);
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<_, _>>()?;
        let mut text = String::new();
        let mut record = ByteRecord::with_capacity(1024, columns.len());
        for row in 0..batch.num_rows() {
            record.clear();
            for column in &columns {
                text.clear();
                column.value(row).write(&mut text)?;
                record.push_field(text.as_bytes());
            }
            self.records.write_byte_record(&record).map_err(of_csv)?;
        }
        // The reader of a pipe has the rows at once, and an error is met where it occurs.
        self.records.flush()?;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<W, ArrowError> {
        self.records
            .into_inner()
            .map_err(|error| ArrowError::from(error.into_error()))
    }
}

/// The writer's own errors are of the system; the header and the records always have as many
/// fields.
fn of_csv(error: csv::Error) -> ArrowError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => ArrowError::from(error),
        other => ArrowError::CsvError(format!("{other:?}")),
    }
}
