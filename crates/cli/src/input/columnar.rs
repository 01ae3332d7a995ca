//! Parquet files, and Arrow IPC files and streams.

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
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::TableSchema;
use bedload_times::{WrittenCount, unit_name};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::bytes::Counting;
use super::compressed::{Checked, check_file};
use super::guard::guarded;
use super::int96::{Unreachable, first_unreachable};
use super::{Place, Progress, Reject, Rejects, Rows, Wanted, batch_of};
use crate::exit::{Failure, Result, interruption};
use crate::interrupt;
use crate::schema::{in_known_zone, same_type, type_name};
use crate::seconds;

/// The wanted columns of a file.
struct Columns {
    /// Their places in it.
    places: Vec<usize>,
    /// The types under which they are stored.
    schema: SchemaRef,
    /// The unit of the time column, if that has integers.
    count_unit: Option<TimeUnit>,
    /// The same unit, if it is that of the table because nothing else names it.
    assumed_unit: Option<TimeUnit>,
}

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
    /// The place of the time column in `schema`.
    time: Option<usize>,
    rows_read: u64,
    /// Rows before the last batch.
    rows_before: u64,
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
        let columns = columns(&name, builder.schema(), wanted)?;
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
            time,
            rows_read: 0,
            rows_before: 0,
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
        let keep = keep.map(BooleanArray::from);

        self.rows_read += rows as u64;
        if let (Some(total), true) = (self.progress.total(), self.rows_total > 0) {
            let read = u128::from(total) * u128::from(self.rows_read) / u128::from(self.rows_total);
            self.progress.set(u64::try_from(read).unwrap_or(total));
        }

        batch_of(&self.schema, columns, rows, keep.as_ref())
            .map(Some)
            .map_err(|error| self.failure(&error))
    }

    fn assumed_unit(&self) -> Option<TimeUnit> {
        self.assumed_unit
    }

    fn batch_place(&self) -> String {
        format!("row {}", self.rows_before + 1)
    }
}

impl ColumnarRows {
    fn cast(&self, array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
        if array.data_type() == field.data_type() {
            return Ok(Arc::clone(array));
        }
        if let Some(row) = seconds::first_fraction(array.as_ref(), field.data_type()) {
            let (file, row) = (&self.name, self.rows_read + row as u64 + 1);
            return Err(Failure::input(format!(
                "{file}: row {row}: the time in column {} has a fraction of a second, and the column is marked as \
                 one of whole seconds",
                field.name()
            )));
        }
        let is_time = self
            .time
            .is_some_and(|time| self.schema.field(time).name() == field.name());
        if let (Some(from), DataType::Timestamp(to, _)) =
            (self.count_unit.filter(|_| is_time), field.data_type())
            && from != *to
        {
            return self.converted(array, (from, *to), field);
        }
        self.cast_to(array, field.data_type(), field)
    }

    fn cast_to(&self, array: &ArrayRef, data_type: &DataType, field: &Field) -> Result<ArrayRef> {
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
        let counts = self.cast_to(counts, &DataType::Int64, field)?;
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
        self.cast_to(&ticks, field.data_type(), field)
    }
}

/// Finds the wanted columns in a file.
fn columns(file: &str, found: &Schema, wanted: &Wanted) -> Result<Columns> {
    let offered: Vec<String> = found.fields().iter().map(|field| field.name().clone()).collect();
    let places = wanted.places(file, &offered)?;
    let fields: Vec<Field> = places
        .iter()
        .map(|&place| column(file, found.field(place), wanted))
        .collect::<Result<_>>()?;
    let mut integers = places
        .iter()
        .map(|&place| found.field(place))
        .filter(|field| stored_type(field.data_type()).is_some_and(|stored| stored.is_integer()));
    let counts = integers.find(|field| wanted.is_time(field.name()));
    Ok(Columns {
        schema: Arc::new(Schema::new(fields)),
        count_unit: counts.and_then(|field| wanted.tick_unit(field.name())),
        assumed_unit: counts.and_then(|field| wanted.assumed_unit(field.name())),
        places,
    })
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

/// The type under which a column of a file is stored.
fn column(file: &str, field: &Field, wanted: &Wanted) -> Result<Field> {
    let name = field.name();
    let is_time = wanted.is_time(name);
    let stored = match (
        stored_type(field.data_type()).map(|stored| seconds::restored(field, stored)),
        wanted.tick_unit(name).filter(|_| is_time),
    ) {
        (Some(count), Some(unit)) if count.is_integer() => match wanted.known_type(name) {
            Some(known @ DataType::Timestamp(..)) => Some(known.clone()),
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
    let stored = match wanted.known_type(name) {
        Some(known) => known.clone(),
        None => in_known_zone(stored).map_err(|error| {
            Failure::input(format!(
                "{file}: column {name}: {error}, so its times could not be shown; leave it out with --columns"
            ))
        })?,
    };
    match (&stored, is_time) {
        (DataType::Timestamp(..), _) | (_, false) => {}
        (count, true) if count.is_integer() => {
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
    Ok(Field::new(name, stored, !is_time && wanted.is_nullable(name)))
}

/// The type of a table's column that holds all values of a type of Arrow's.
fn stored_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Null => Some(DataType::Utf8),
        DataType::Dictionary(_, values) => stored_type(values),
        DataType::Date64 => Some(DataType::Timestamp(TimeUnit::Millisecond, None)),
        other => TableSchema::stored_type(other),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;

    use arrow_array::{Float64Array, StringArray, TimestampMillisecondArray};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Encoding;
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::input::{Input, OnError};

    const ROWS: i64 = 300;

    fn batch() -> RecordBatch {
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
        RecordBatch::try_from_iter(columns).unwrap()
    }

    /// A small file with the encodings whose readers check least.
    fn sound_parquet() -> Vec<u8> {
        let batch = batch();
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

    /// An Arrow file and an Arrow stream.
    fn sound_arrow(codec: Option<CompressionType>) -> [Vec<u8>; 2] {
        arrow_of(&[batch()], codec)
    }

    fn arrow_of(batches: &[RecordBatch], codec: Option<CompressionType>) -> [Vec<u8>; 2] {
        let (schema, options) = (batches[0].schema(), IpcWriteOptions::default());
        let options = options.try_with_compression(codec).unwrap();
        let mut file = FileWriter::try_new_with_options(Vec::new(), &schema, options.clone()).unwrap();
        let mut stream = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
        for batch in batches {
            file.write(batch).unwrap();
            stream.write(batch).unwrap();
        }
        [file.into_inner().unwrap(), stream.into_inner().unwrap()]
    }

    /// Both compressions, and how the data of each begin.
    const CODECS: [(CompressionType, [u8; 4]); 2] = [
        (CompressionType::LZ4_FRAME, [0x04, 0x22, 0x4d, 0x18]),
        (CompressionType::ZSTD, [0x28, 0xb5, 0x2f, 0xfd]),
    ];

    /// Reads a file to its end; returns the rows.
    fn read(path: &Path) -> Result<usize> {
        let mut input = Input::open(path, &Wanted::of_test(None))?;
        let mut rejects = Rejects::new(OnError::Skip);
        let mut rows = 0;
        while let Some(batch) = input.next_batch(&mut rejects)? {
            rows += batch.num_rows();
        }
        Ok(rows)
    }

    /// Flips bits of each `step`th byte of a file; returns how many of the mutants were errors, and
    /// panics of a reader.
    fn errors_of_mutants(sound: &[u8], step: usize) -> (u32, u32) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mutant");
        std::fs::write(&path, sound).unwrap();
        assert_eq!(read(&path).unwrap(), 300);
        let (mut errors, mut panics) = (0, 0);
        for at in (0..sound.len()).step_by(step) {
            for flipped in [0x80, 0xff] {
                let mut mutant = sound.to_vec();
                mutant[at] ^= flipped;
                std::fs::write(&path, &mutant).unwrap();
                let outcome = catch_unwind(AssertUnwindSafe(|| read(&path)));
                match outcome.unwrap_or_else(|_| panic!("byte {at} ^ {flipped:#x}")) {
                    Ok(_) => {}
                    Err(failure) => {
                        errors += 1;
                        let message = failure.to_string();
                        assert_eq!(failure.status(), crate::exit::Status::Input, "{message}");
                        panics += u32::from(message.contains("its reader cannot go on"));
                    }
                }
            }
        }
        (errors, panics)
    }

    #[test]
    fn a_damaged_parquet_file_is_an_error_or_rows_and_never_a_panic() {
        let (errors, panics) = errors_of_mutants(&sound_parquet(), 1);
        // Without the guard those would have been panics of the command.
        assert!(
            errors > 1000 && panics > 0,
            "{errors} errors, {panics} of them panics"
        );
    }

    #[test]
    fn times_marked_as_whole_seconds_have_no_fraction() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("marked.parquet");
        let written = |times: Vec<Option<i64>>| {
            let kind = DataType::Timestamp(TimeUnit::Second, None);
            let schema = Arc::new(Schema::new(vec![Field::new("t", kind, true)]));
            let marked = seconds::written_schema(&schema);
            let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(times));
            let batch = RecordBatch::try_new(Arc::clone(&marked), vec![times]).unwrap();
            let mut writer = ArrowWriter::try_new(Vec::new(), marked, None).unwrap();
            writer.write(&batch).unwrap();
            std::fs::write(&path, writer.into_inner().unwrap()).unwrap();
        };
        written(vec![Some(1000), None, Some(-2000)]);
        assert_eq!(read(&path).unwrap(), 2);
        written(vec![Some(1000), None, Some(-1500)]);
        let message = read(&path).unwrap_err().to_string();
        assert!(
            message.contains("row 3: the time in column t has a fraction"),
            "{message}"
        );
    }

    #[test]
    fn zones_are_stored_by_names_that_can_be_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zoned");
        for (zone, stored) in [
            ("Z", Some("UTC")),
            ("Asia/Tokyo", Some("Asia/Tokyo")),
            ("Mars", None),
        ] {
            let times = TimestampMillisecondArray::from(vec![1]).with_timezone(zone);
            let batch = RecordBatch::try_from_iter([("t", Arc::new(times) as ArrayRef)]).unwrap();
            for file in arrow_of(&[batch], None) {
                std::fs::write(&path, file).unwrap();
                match (Input::open(&path, &Wanted::of_test(None)), stored) {
                    (Ok(input), Some(stored)) => {
                        let expected = DataType::Timestamp(TimeUnit::Millisecond, Some(stored.into()));
                        assert_eq!(input.schema().field(0).data_type(), &expected);
                        assert_eq!(read(&path).unwrap(), 1);
                    }
                    (Err(failure), None) => {
                        let message = failure.to_string();
                        assert!(message.contains("there is no time zone \"Mars\""), "{message}");
                    }
                    (input, _) => panic!("{zone}: {:?}", input.map(|input| input.schema().clone())),
                }
            }
        }
    }

    #[test]
    fn damaged_arrow_is_an_error_or_rows_and_never_a_panic() {
        for codec in [None, Some(CODECS[0].0), Some(CODECS[1].0)] {
            for sound in sound_arrow(codec) {
                let (errors, _) = errors_of_mutants(&sound, 11);
                assert!(errors > 10, "{errors} errors");
            }
        }
    }

    /// The bytes where such a buffer lies are those of the next message.
    #[test]
    fn compressed_batches_may_end_with_an_empty_buffer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sound");
        let columns: [(&str, ArrayRef); 2] = [
            (
                "t",
                Arc::new((0..2).map(Some).collect::<TimestampMillisecondArray>()),
            ),
            ("text", Arc::new(StringArray::from(vec![None, Some("")]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        for (codec, _) in CODECS {
            for sound in arrow_of(&[batch.clone(), batch.clone()], Some(codec)) {
                std::fs::write(&path, sound).unwrap();
                assert_eq!(read(&path).unwrap(), 4);
            }
        }
    }

    /// The reader would allocate that much, and the process be aborted.
    #[test]
    fn a_compressed_buffer_that_no_memory_holds_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("damaged");
        for (codec, magic) in CODECS {
            for mut damaged in sound_arrow(Some(codec)) {
                // The column of times.
                let length = [&(8 * ROWS).to_le_bytes()[..], &magic].concat();
                let at = damaged
                    .windows(length.len())
                    .position(|bytes| bytes == length)
                    .unwrap();
                damaged[at..at + 8].copy_from_slice(&(1_i64 << 62).to_le_bytes());
                std::fs::write(&path, &damaged).unwrap();
                let failure = read(&path).unwrap_err();
                assert_eq!(failure.status(), crate::exit::Status::Input, "{failure}");
                let message = failure.to_string();
                assert!(
                    message.contains("a compressed buffer says that it is 4611686018427387904 bytes long"),
                    "{message}"
                );
            }
        }
    }
}
