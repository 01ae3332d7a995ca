//! Parquet: row groups are encoded on threads of their own, beside the scan, and written in order.

use std::collections::VecDeque;
use std::io::Write;
use std::num::NonZero;
use std::thread::{self, JoinHandle};
use std::{mem, panic};

use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use crate::schema::type_name;
use crate::seconds;

/// The most rows of a row group.
const GROUP_ROWS: usize = 128 << 10;

/// A row group ends with the batch that brings its rows to so many bytes in memory.
const GROUP_BYTES: usize = 64 << 20;

/// The most row groups that are encoded at once: each is held in memory, and more threads would
/// wait for the scan.
const MAX_THREADS: usize = 4;

/// A column whose distinct values take more is written plain from there on: a dictionary saves
/// nothing where most values differ, as times do.
const DICTIONARY_BYTES: usize = 256 << 10;

type Encoding = JoinHandle<Result<Vec<ArrowColumnChunk>, ParquetError>>;

/// Writes rows as row groups. It holds those of `threads` row groups and of the one that grows.
pub(super) struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    /// The rows of the next row group.
    group: Vec<RecordBatch>,
    group_rows: usize,
    group_bytes: usize,
    /// Row groups that are not written yet, in order.
    encoding: VecDeque<Encoding>,
    groups: usize,
    threads: usize,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(super) fn begin(target: W, schema: &SchemaRef) -> Result<Self, ParquetError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_dictionary_page_size_limit(DICTIONARY_BYTES)
            .build();
        check_scales(schema)?;
        let schema = seconds::written_schema(schema);
        let writer = ArrowWriter::try_new(target, SchemaRef::clone(&schema), Some(properties))?;
        let (file, columns) = writer.into_serialized_writer()?;
        Ok(Self {
            file,
            columns,
            schema,
            group: Vec::new(),
            group_rows: 0,
            group_bytes: 0,
            encoding: VecDeque::new(),
            groups: 0,
            threads: thread::available_parallelism()
                .map_or(1, NonZero::get)
                .min(MAX_THREADS),
        })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let mut rest = seconds::written_batch(batch, &self.schema)?;
        while rest.num_rows() > 0 {
            let rows = rest.num_rows().min(GROUP_ROWS - self.group_rows);
            let part = rest.slice(0, rows);
            rest = rest.slice(rows, rest.num_rows() - rows);
            self.group_rows += rows;
            for column in part.columns() {
                self.group_bytes += column.to_data().get_slice_memory_size()?;
            }
            self.group.push(part);
            if self.group_rows == GROUP_ROWS || self.group_bytes >= GROUP_BYTES {
                self.end_group()?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<W, ArrowError> {
        if self.group_rows > 0 {
            self.end_group()?;
        }
        while let Some(oldest) = self.encoding.pop_front() {
            self.write_group(oldest)?;
        }
        Ok(self.file.into_inner()?)
    }

    /// Encodes the rows of the next row group on a thread, once one is free.
    fn end_group(&mut self) -> Result<(), ArrowError> {
        if self.encoding.len() == self.threads
            && let Some(oldest) = self.encoding.pop_front()
        {
            self.write_group(oldest)?;
        }
        let columns = self.columns.create_column_writers(self.groups)?;
        let group = mem::take(&mut self.group);
        let thread = thread::Builder::new().spawn(move || encode(columns, &group));
        self.encoding.push_back(thread?);
        (self.group_rows, self.group_bytes) = (0, 0);
        self.groups += 1;
        Ok(())
    }

    fn write_group(&mut self, encoding: Encoding) -> Result<(), ParquetError> {
        let chunks = encoding
            .join()
            .unwrap_or_else(|panicked| panic::resume_unwind(panicked))?;
        let mut group = self.file.next_row_group()?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut group)?;
        }
        group.close()?;
        Ok(())
    }
}

/// Fails if a column has decimals of a negative scale, which the format lacks.
fn check_scales(schema: &SchemaRef) -> Result<(), ParquetError> {
    let is_negative = |kind: &DataType| match kind {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => *scale < 0,
        _ => false,
    };
    let mut fields = schema.fields().iter();
    match fields.find(|field| is_negative(field.data_type())) {
        Some(field) => Err(ParquetError::General(format!(
            "column {} is of type {}, and decimals of Parquet have no negative scale: write it as CSV, JSON or \
             Arrow, or leave it out with --columns",
            field.name(),
            type_name(field.data_type()),
        ))),
        None => Ok(()),
    }
}

fn encode(
    mut columns: Vec<ArrowColumnWriter>,
    group: &[RecordBatch],
) -> Result<Vec<ArrowColumnChunk>, ParquetError> {
    for batch in group {
        let fields = batch.schema_ref().fields().iter().zip(batch.columns());
        let mut leaves = columns.iter_mut();
        for (field, column) in fields {
            for (leaf, writer) in compute_leaves(field, column)?.iter().zip(&mut leaves) {
                writer.write(leaf)?;
            }
        }
    }
    columns.into_iter().map(ArrowColumnWriter::close).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::basic::Encoding;
    use parquet::file::metadata::ParquetMetaData;

    use super::*;

    fn batch(name: &str, column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([(name, column)]).unwrap()
    }

    /// Writes batches; returns what describes the file, and its rows.
    fn written(batches: &[RecordBatch]) -> (Arc<ParquetMetaData>, Vec<RecordBatch>) {
        let mut writer =
            ParquetWriter::begin(tempfile::tempfile().unwrap(), batches[0].schema_ref()).unwrap();
        for batch in batches {
            writer.write(batch).unwrap();
            assert!(writer.encoding.len() <= writer.threads);
        }
        let file = writer.finish().unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let metadata = Arc::clone(reader.metadata());
        (metadata, reader.build().unwrap().map(Result::unwrap).collect())
    }

    fn group_rows(metadata: &ParquetMetaData) -> Vec<i64> {
        metadata
            .row_groups()
            .iter()
            .map(|group| group.num_rows())
            .collect()
    }

    #[test]
    fn more_groups_than_threads_stay_in_order() {
        let rows = (2 * MAX_THREADS * GROUP_ROWS + 1).cast_signed() as i64;
        // Batches that end at no end of a row group, and one that spans several.
        let ends = [0, 100_000, 500_000, rows];
        let batches: Vec<RecordBatch> = ends
            .windows(2)
            .map(|ends| batch("t", Arc::new(Int64Array::from_iter_values(ends[0]..ends[1]))))
            .collect();
        let (metadata, read) = written(&batches);
        let mut expected = vec![GROUP_ROWS.cast_signed() as i64; 2 * MAX_THREADS];
        expected.push(1);
        assert_eq!(group_rows(&metadata), expected);
        let values = read.iter().flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .copied()
        });
        assert!(values.eq(0..rows));
        // Distinct values are plain but for the first of a group.
        let column = metadata.row_group(0).column(0);
        assert!(column.encodings().any(|encoding| encoding == Encoding::PLAIN));
        let plain_bytes = 8 * GROUP_ROWS.cast_signed() as i64;
        assert!(column.uncompressed_size() < plain_bytes + plain_bytes / 10);
    }

    #[test]
    fn long_values_end_a_group_early() {
        let text = "x".repeat(1 << 20);
        let one = batch("text", Arc::new(StringArray::from(vec![text])));
        let whole_groups = 2 * (GROUP_BYTES >> 20);
        let (metadata, read) = written(&vec![one; whole_groups + 1]);
        let half = (whole_groups / 2).cast_signed() as i64;
        assert_eq!(group_rows(&metadata), [half, half, 1]);
        assert_eq!(
            read.iter().map(RecordBatch::num_rows).sum::<usize>(),
            whole_groups + 1
        );
    }
}
