//! Parquet files, and Arrow IPC files and streams.

mod columns;
mod compressed;
mod guard;
mod int96;
#[cfg(test)]
mod tests;
mod zones;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef, TimeUnit};
use bedload_casts::{Error, cast};
use bedload_times::{WrittenCount, Zone, unit_name};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use self::columns::{Columns, columns};
use self::compressed::{Checked, check_file};
use self::guard::guarded;
use self::int96::{Unreachable, first_unreachable};
use crate::exit::{Failure, Result, interruption};
use crate::input::bytes::Counting;
use crate::input::{Place, Progress, Reject, Rejects, Rows, Wanted, batch_of};
use crate::interrupt;
use crate::schema::type_name;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// The rows of a file that keeps them in columns.
pub(super) struct ColumnarRows {
    name: String,
    batches: Batches,
    /// The rest of a batch that has more rows than are wanted at once.
    rest: Option<RecordBatch>,
    batch_rows: usize,
    /// For each column of `schema`, its place in the batches read.
    places: Vec<usize>,
    schema: SchemaRef,
    count_unit: Option<TimeUnit>,
    assumed_unit: Option<TimeUnit>,
    /// The zone on whose clocks times without a zone were read.
    clock: Option<Zone>,
    /// The place of the time column in `schema`.
    time: Option<usize>,
    rows_read: u64,
    /// Rows before the last batch.
    rows_before: u64,
    /// Which rows of the file the last batch has; all if there is none.
    keep: Option<BooleanArray>,
    /// Rows of the file, if its progress is measured by them.
    rows_total: u64,
    progress: Progress,
}

impl ColumnarRows {
    pub(super) fn open_parquet(
        name: String,
        file: File,
        wanted: &Wanted,
        progress: &Progress,
    ) -> Result<Self> {
        let unreadable = |error: &dyn Display| unreadable(&name, "Parquet file", error);
        let again = file
            .try_clone()
            .map_err(|error| Failure::io(Path::new(&name), &error))?;
        let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file))
            .and_then(|opened| opened.map_err(|error| error.to_string()))
            .map_err(|error| unreadable(&error))?;
        let offered = zones::restored(builder.schema(), builder.metadata().file_metadata());
        let columns = columns(&name, &offered, wanted)?;
        let places = &columns.places;
        let beyond = guarded(|| first_unreachable(builder.metadata(), again, places))
            .and_then(|searched| searched.map_err(|error| error.to_string()))
            .map_err(|error| unreadable(&error))?;
        interrupt::check()?;
        if let Some(Unreachable { column, row }) = beyond {
            return Err(Failure::input(format!(
                "{name}: row {row}: the time in column {column} is of type INT96 and not within 1677 to 2262: \
                 write the column in microseconds, or leave it out with --columns"
            )));
        }
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
        let columns = Columns { places, ..columns };
        let mut rows = Self::new(name, Box::new(batches), columns, wanted, progress);
        rows.rows_total = rows_total;
        Ok(rows)
    }

    pub(super) fn open_arrow(
        name: String,
        file: Counting<File>,
        wanted: &Wanted,
        progress: &Progress,
    ) -> Result<Self> {
        check_file(file.get_ref()).map_err(|error| unreadable(&name, "Arrow file", &error))?;
        let opened = guarded(|| FileReader::try_new(BufReader::new(file), None));
        let reader = opened_as(opened, &name, "Arrow file")?;
        let columns = columns(&name, &reader.schema(), wanted)?;
        Ok(Self::new(name, Box::new(reader), columns, wanted, progress))
    }

    pub(super) fn open_arrow_stream(
        name: String,
        stream: Box<dyn BufRead>,
        wanted: &Wanted,
        progress: &Progress,
    ) -> Result<Self> {
        let opened = guarded(|| StreamReader::try_new(Checked::new(stream), None));
        let reader = opened_as(opened, &name, "Arrow stream")?;
        let columns = columns(&name, &reader.schema(), wanted)?;
        Ok(Self::new(name, Box::new(reader), columns, wanted, progress))
    }

    fn new(name: String, batches: Batches, columns: Columns, wanted: &Wanted, progress: &Progress) -> Self {
        let Columns {
            places,
            schema,
            count_unit,
            assumed_unit,
        } = columns;
        let time = schema
            .fields()
            .iter()
            .position(|field| wanted.is_time(field.name()));
        Self {
            name,
            batches,
            rest: None,
            batch_rows: wanted.batch_rows,
            places,
            schema,
            count_unit,
            assumed_unit,
            clock: wanted.clock.clone(),
            time,
            rows_read: 0,
            rows_before: 0,
            keep: None,
            rows_total: 0,
            progress: progress.clone(),
        }
    }

    /// The next rows of the file, as many as are wanted at once.
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match guarded(|| self.batches.next()) {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(batch))) => batch,
                Ok(Some(Err(ArrowError::IoError(_, error)))) if is_of_system(&error) => {
                    return Err(Failure::io(Path::new(&self.name), &error));
                }
                Ok(Some(Err(error))) => return Err(self.failure(&error)),
                Err(panic) => return Err(self.failure(&panic)),
            },
        };
        if batch.num_rows() <= self.batch_rows {
            return Ok(Some(batch));
        }
        self.rest = Some(batch.slice(self.batch_rows, batch.num_rows() - self.batch_rows));
        Ok(Some(batch.slice(0, self.batch_rows)))
    }

    fn failure(&self, error: &dyn Display) -> Failure {
        let row = self.rows_read;
        Failure::input(format!(
            "{}: cut off or damaged after row {row}: {error}",
            self.name
        ))
    }
}

impl Rows for ColumnarRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn next_batch(&mut self, rejects: &mut Rejects) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.read()? else {
            return Ok(None);
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
        let fields = self.schema.fields();
        let lacking: Vec<usize> = (0..columns.len())
            .filter(|&column| !fields[column].is_nullable() && columns[column].null_count() > 0)
            .collect();
        let mut keep = (!lacking.is_empty()).then(|| vec![true; rows]);
        for (row, is_kept) in keep.iter_mut().flatten().enumerate() {
            if let Some(&column) = lacking.iter().find(|&&column| columns[column].is_null(row)) {
                *is_kept = false;
                let place = Place::Row(first_row + row as u64 + 1);
                let is_time = self.time == Some(column);
                rejects.reject(&self.name, Reject::missing(place, fields[column].name(), is_time))?;
            }
        }
        self.keep = keep.map(BooleanArray::from);

        self.rows_read += rows as u64;
        if let (Some(total), true) = (self.progress.total(), self.rows_total > 0) {
            let read = u128::from(total) * u128::from(self.rows_read) / u128::from(self.rows_total);
            self.progress.set(u64::try_from(read).unwrap_or(total));
        }

        batch_of(&self.schema, columns, rows, self.keep.as_ref())
            .map(Some)
            .map_err(|error| self.failure(&error))
    }

    fn assumed_unit(&self) -> Option<TimeUnit> {
        self.assumed_unit
    }

    fn batch_place(&self) -> String {
        format!("row {}", self.rows_before + 1)
    }

    fn place(&self, row: usize) -> Place {
        let kept = self.keep.as_ref();
        let row = kept.map_or(Some(row), |kept| kept.values().set_indices().nth(row));
        Place::Row(self.rows_before + row.unwrap_or(0) as u64 + 1)
    }
}

impl ColumnarRows {
    fn cast(&self, array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
        let is_time = self
            .time
            .is_some_and(|time| self.schema.field(time).name() == field.name());
        if let (Some(from), DataType::Timestamp(to, _)) =
            (self.count_unit.filter(|_| is_time), field.data_type())
        {
            return match from == *to {
                true => self.cast_counts(array, field.data_type(), field),
                false => self.converted(array, (from, *to), field),
            };
        }
        cast(array, field.data_type(), self.clock.as_ref()).map_err(|error| self.refused(&error, field))
    }

    /// Why a column of the file is not cast.
    fn refused(&self, error: &Error, field: &Field) -> Failure {
        let (file, name, to) = (&self.name, field.name(), type_name(field.data_type()));
        let number = |row: usize| self.rows_read + row as u64 + 1;
        Failure::input(match error {
            Error::Value { row, value, .. } => format!(
                "{file}: row {}: {value} in column {name} is no {to}: it would be rounded, or is out of range",
                number(*row)
            ),
            Error::Reading { row, reason } => {
                format!("{file}: row {}: column {name}: {reason}", number(*row))
            }
            other => format!("{file}: column {name} cannot be stored as {to}: {other}"),
        })
    }

    fn cast_counts(&self, array: &ArrayRef, data_type: &DataType, field: &Field) -> Result<ArrayRef> {
        let strict = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        cast_with_options(array, data_type, &strict).map_err(|error| {
            let (name, to) = (field.name(), type_name(field.data_type()));
            Failure::input(format!(
                "{}: column {name} cannot be stored as {to}: {error}",
                self.name
            ))
        })
    }

    /// Counts of one unit as times of another, without loss.
    fn converted(
        &self,
        counts: &ArrayRef,
        (from, to): (TimeUnit, TimeUnit),
        field: &Field,
    ) -> Result<ArrayRef> {
        let counts = self.cast_counts(counts, &DataType::Int64, field)?;
        let tick = |(row, count): (usize, Option<i64>)| {
            let Some(count) = count else {
                return Ok(None);
            };
            if let Some((tick, false)) = WrittenCount::whole(count).ticks(from, to) {
                return Ok(Some(tick));
            }
            let (file, row) = (&self.name, self.rows_read + row as u64 + 1);
            let (name, from, to) = (field.name(), unit_name(from), type_name(field.data_type()));
            Err(Failure::input(format!(
                "{file}: row {row}: {count} {from} in column {name} is no {to}: it is out of range, or finer"
            )))
        };
        let ticks = counts.as_primitive::<Int64Type>().iter().enumerate().map(tick);
        let ticks: Int64Array = ticks.collect::<Result<_>>()?;
        let ticks: ArrayRef = Arc::new(ticks);
        self.cast_counts(&ticks, field.data_type(), field)
    }
}

/// A reader of Arrow IPC, or why it cannot be opened.
fn opened_as<T>(opened: Result<Result<T, ArrowError>, String>, file: &str, kind: &str) -> Result<T> {
    match opened {
        Ok(Ok(reader)) => Ok(reader),
        // A signal may have ended the wait for the first bytes.
        Ok(Err(ArrowError::IoError(_, error))) if is_of_system(&error) => {
            Err(Failure::io(Path::new(file), &error))
        }
        Ok(Err(error)) => Err(unreadable(file, kind, &error)),
        Err(panic) => Err(unreadable(file, kind, &panic)),
    }
}

/// Whether reading failed by itself, and not because a damaged file sends its reader to where
/// nothing is, or cannot be decompressed.
fn is_of_system(error: &io::Error) -> bool {
    let is_astray = matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData
    );
    !is_astray && (error.raw_os_error().is_some() || interruption(error).is_some())
}

fn unreadable(file: &str, kind: &str, error: &dyn Display) -> Failure {
    Failure::input(format!("{file}: not a whole {kind}, cut off or damaged: {error}"))
}
