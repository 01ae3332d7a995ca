//! Scans as Arrow's readers of record batches.

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};

use crate::scan::Scan;

/// A scan as an Arrow [`RecordBatchReader`], which writers of Parquet and IPC files, the Arrow C
/// stream interface and query engines take. Made by [`Scan::into_reader`].
///
/// An [`Error`](crate::Error) of the store is the source of an [`ArrowError::ExternalError`].
#[derive(Debug)]
#[must_use = "a reader reads nothing until it is iterated"]
pub struct ScanReader {
    scan: Scan,
}

impl Scan {
    /// The scan as an Arrow [`RecordBatchReader`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use bedload::arrow::array::{RecordBatch, RecordBatchReader, TimestampSecondArray};
    /// # use bedload::arrow::schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let columns = Arc::new(Schema::new(vec![
    /// #     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
    /// # ]));
    /// # let table = store.create_table("t", bedload::TableSchema::new(columns.clone(), "at")?)?;
    /// # table.append(&RecordBatch::try_new(columns, vec![Arc::new(TimestampSecondArray::from(vec![1, 2]))])?)?;
    /// fn count(reader: impl RecordBatchReader) -> Result<usize, Box<dyn std::error::Error>> {
    ///     assert_eq!(reader.schema().field(0).name(), "at");
    ///     reader.map(|batch| Ok(batch?.num_rows())).sum()
    /// }
    /// assert_eq!(count(table.range(..)?.into_reader())?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_reader(self) -> ScanReader {
        ScanReader { scan: self }
    }
}

impl Iterator for ScanReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.scan.next()?;
        Some(batch.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl std::iter::FusedIterator for ScanReader {}

impl RecordBatchReader for ScanReader {
    fn schema(&self) -> SchemaRef {
        self.scan.schema().clone()
    }
}
