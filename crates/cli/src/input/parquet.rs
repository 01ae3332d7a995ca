//! Parquet files.

use std::fs::File;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::guard::guarded;
use super::{Place, Progress, Reason, Reject, Rejects, Rows, Wanted, batch_of};
use crate::exit::{Failure, Result};
use crate::schema::{same_type, type_name};
use crate::seconds;

/// A Parquet file's rows.
pub(super) struct ParquetRows {
    name: String,
    batches: ParquetRecordBatchReader,
    /// For each column of `schema`, its place in the batches read.
    places: Vec<usize>,
    schema: SchemaRef,
    /// The place of the time column in `schema`.
    time: Option<usize>,
    rows_read: u64,
    /// Rows before the last batch.
    rows_before: u64,
    rows_total: u64,
    progress: Progress,
}

impl ParquetRows {
    pub(super) fn open(name: String, file: File, wanted: &Wanted, progress: &Progress) -> Result<Self> {
        let unreadable = |error: &dyn std::fmt::Display| {
            Failure::input(format!(
                "{name}: not a whole Parquet file, cut off or damaged: {error}"
            ))
        };
        let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file))
            .and_then(|opened| opened.map_err(|error| error.to_string()))
            .map_err(|error| unreadable(&error))?;
        let offered: Vec<String> = builder
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect();
        let places = wanted.places(&name, &offered)?;
        let fields: Vec<Field> = places
            .iter()
            .map(|&place| column(&name, builder.schema().field(place), wanted))
            .collect::<Result<_>>()?;
        let time = fields.iter().position(|field| wanted.is_time(field.name()));

        let rows_total = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let mask = ProjectionMask::roots(builder.parquet_schema(), places.iter().copied());
        let batches = guarded(|| {
            builder
                .with_projection(mask)
                .with_batch_size(wanted.batch_rows)
                .build()
        })
        .and_then(|built| built.map_err(|error| error.to_string()))
        .map_err(|error| unreadable(&error))?;
        // The projection keeps the order of the file.
        let mut in_file_order = places.clone();
        in_file_order.sort_unstable();
        let places = places
            .iter()
            .map(|place| in_file_order.partition_point(|other| other < place))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        Ok(Self {
            name,
            batches,
            places,
            schema,
            time,
            rows_read: 0,
            rows_before: 0,
            rows_total,
            progress: progress.clone(),
        })
    }

    fn failure(&self, error: &dyn std::fmt::Display) -> Failure {
        let row = self.rows_read + 1;
        Failure::input(format!(
            "{}: cut off or damaged after row {row}: {error}",
            self.name
        ))
    }
}

impl Rows for ParquetRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn next_batch(&mut self, rejects: &mut Rejects) -> Result<Option<RecordBatch>> {
        let batch = match guarded(|| self.batches.next()) {
            Ok(None) => return Ok(None),
            Ok(Some(Ok(batch))) => batch,
            Ok(Some(Err(error))) => return Err(self.failure(&error)),
            Err(panic) => return Err(self.failure(&panic)),
        };
        let first_row = self.rows_read;
        self.rows_before = first_row;
        let rows = batch.num_rows();

        let columns: Vec<ArrayRef> = self
            .places
            .iter()
            .zip(self.schema.fields())
            .map(|(&place, field)| self.cast(batch.column(place), field))
            .collect::<Result<_>>()?;
        let keep = self
            .time
            .map(|time| &columns[time])
            .filter(|times| times.null_count() > 0);
        if let (Some(times), Some(time)) = (keep, self.time) {
            let name = self.schema.field(time).name();
            for row in (0..rows).filter(|&row| times.is_null(row)) {
                let place = Place::Row(first_row + row as u64 + 1);
                let detail = format!("no time in column {name}");
                let remedy = Some("--on-error skip leaves such rows out".to_owned());
                rejects.reject(
                    &self.name,
                    Reject {
                        place,
                        reason: Reason::NoTime,
                        detail,
                        remedy,
                    },
                )?;
            }
        }
        let keep = keep
            .and_then(|times| times.nulls())
            .map(|valid| BooleanArray::new(valid.inner().clone(), None));

        self.rows_read += rows as u64;
        if let (Some(total), true) = (self.progress.total(), self.rows_total > 0) {
            let read = u128::from(total) * u128::from(self.rows_read) / u128::from(self.rows_total);
            self.progress.set(u64::try_from(read).unwrap_or(total));
        }

        batch_of(&self.schema, columns, rows, keep.as_ref())
            .map(Some)
            .map_err(|error| self.failure(&error))
    }

    fn batch_place(&self) -> String {
        format!("row {}", self.rows_before + 1)
    }
}

impl ParquetRows {
    fn cast(&self, array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
        if array.data_type() == field.data_type() {
            return Ok(Arc::clone(array));
        }
        let strict = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        cast_with_options(array, field.data_type(), &strict).map_err(|error| {
            let (name, to) = (field.name(), type_name(field.data_type()));
            Failure::input(format!(
                "{}: column {name} cannot be stored as {to}: {error}",
                self.name
            ))
        })
    }
}

/// The type under which a column of a Parquet file is stored.
fn column(file: &str, field: &Field, wanted: &Wanted) -> Result<Field> {
    let name = field.name();
    let is_time = wanted.is_time(name);
    let stored = match (
        stored_type(field.data_type()).map(|stored| seconds::restored(field, stored)),
        wanted.tick_unit(name).filter(|_| is_time),
    ) {
        (Some(DataType::Int64), Some(unit)) => match wanted.known_type(name) {
            Some(known @ DataType::Timestamp(of, _)) if *of == unit => Some(known.clone()),
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
    let stored = wanted.known_type(name).cloned().unwrap_or(stored);
    match (&stored, is_time) {
        (DataType::Timestamp(..), _) | (_, false) => {}
        (DataType::Int64, true) => {
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
    Ok(Field::new(name, stored, !is_time))
}

/// The type of a table's column that holds all values of a type of Arrow's.
fn stored_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => DataType::Utf8,
        DataType::Dictionary(_, values) => return stored_type(values),
        DataType::Float16 => DataType::Float32,
        DataType::Date64 => DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::Timestamp(..)
        | DataType::Date32 => data_type.clone(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;

    use arrow_array::{Float64Array, StringArray, TimestampMillisecondArray};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Encoding;
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::input::{Input, OnError};

    const ROWS: i64 = 300;

    /// A small file with the encodings whose readers check least.
    fn sound_file() -> Vec<u8> {
        let texts = (0..ROWS).map(|row| format!("sensor {} at {row}", row % 7));
        let columns: [(&str, ArrayRef); 3] = [
            (
                "t",
                Arc::new((0..ROWS).map(Some).collect::<TimestampMillisecondArray>()),
            ),
            ("text", Arc::new(texts.map(Some).collect::<StringArray>())),
            (
                "share",
                Arc::new(
                    (0..ROWS)
                        .map(|row| Some(row as f64 / 3.0))
                        .collect::<Float64Array>(),
                ),
            ),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_column_encoding("t".into(), Encoding::DELTA_BINARY_PACKED)
            .set_column_encoding("text".into(), Encoding::DELTA_BYTE_ARRAY)
            .set_column_encoding("share".into(), Encoding::BYTE_STREAM_SPLIT)
            .build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    /// Reads a file to its end; returns the rows.
    fn read(path: &Path) -> Result<usize> {
        let wanted = Wanted {
            time: Some("t".to_owned()),
            columns: None,
            given: Vec::new(),
            table: None,
            time_unit: None,
            nulls: Vec::new(),
            delimiter: b',',
            batch_rows: 64,
        };
        let mut input = Input::open(path, &wanted)?;
        let mut rejects = Rejects::new(OnError::Skip);
        let mut rows = 0;
        while let Some(batch) = input.next_batch(&mut rejects)? {
            rows += batch.num_rows();
        }
        Ok(rows)
    }

    #[test]
    fn a_damaged_file_is_an_error_or_rows_and_never_a_panic() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mutant.parquet");
        let sound = sound_file();
        std::fs::write(&path, &sound).unwrap();
        assert_eq!(read(&path).unwrap(), 300);
        let (mut errors, mut panics) = (0, 0);
        for at in 0..sound.len() {
            for flipped in [0x80, 0xff] {
                let mut mutant = sound.clone();
                mutant[at] ^= flipped;
                std::fs::write(&path, &mutant).unwrap();
                let outcome = catch_unwind(AssertUnwindSafe(|| read(&path)));
                match outcome.unwrap_or_else(|_| panic!("byte {at} ^ {flipped:#x}")) {
                    Ok(_) => {}
                    Err(failure) => {
                        errors += 1;
                        let message = failure.to_string();
                        assert_eq!(failure.status(), crate::exit::Status::Input, "{message}");
                        panics += usize::from(message.contains("its reader cannot go on"));
                    }
                }
            }
        }
        // Without the guard those would have been panics of the command.
        assert!(
            errors > 1000 && panics > 0,
            "{errors} errors, {panics} of them panics"
        );
    }
}
