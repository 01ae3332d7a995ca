//! Readings: a time, a sensor, three numbers of two decimals, a state.
//!
//! A row is computed from its time and its number in order of arrival, so checksums of any rows can
//! be computed without storing them.

use std::fmt;
use std::io;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, TimestampMicrosecondType};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::filter::filter_record_batch;

/// A day in ticks of the time column, which are microseconds.
const DAY: i64 = 86_400_000_000;
/// Sensors that readings come from.
const SENSORS: u64 = 100;
/// Columns of numbers.
const NUMBERS: usize = 3;
/// Bytes of a row before its state, in stores of rows.
const FIXED_BYTES: usize = 4 + NUMBERS * 8;
/// The most rows of a batch that is read, as in our store.
const BATCH_ROWS: usize = 8192;
/// Rows for which a range allocates memory at first.
const SHORT_RANGE_ROWS: usize = 128;

/// A row's position in the order of time: its time, and its number in order of arrival; unique. In
/// a table with a key, the sensor is in the place of that number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowId {
    pub(crate) time: i64,
    pub(crate) arrival: u32,
}

/// A row of a table whose key is time and sensor: a row of another version takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyedRow {
    pub(crate) time: i64,
    pub(crate) sensor: u32,
    pub(crate) version: u32,
}

impl KeyedRow {
    /// Returns its position.
    pub(crate) fn id(self) -> RowId {
        RowId {
            time: self.time,
            arrival: self.sensor,
        }
    }

    /// Returns the checksum of the row.
    pub(crate) fn checksum(self) -> u64 {
        self.reading().checksum()
    }

    fn reading(self) -> Reading<'static> {
        let of_version = RowId {
            time: self.time,
            arrival: self.version,
        };
        Reading {
            sensor: self.sensor.cast_signed(),
            ..Reading::of(of_version)
        }
    }
}

/// The number of rows, and the sum of their checksums in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Checksum {
    pub(crate) rows: u64,
    pub(crate) sum: u64,
}

impl Checksum {
    /// Returns the times of a batch.
    pub(crate) fn times(batch: &RecordBatch) -> &[i64] {
        ReadingColumns::of(batch).times
    }

    /// Adds the rows of a batch.
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        let columns = ReadingColumns::of(batch);
        for row in 0..batch.num_rows() {
            self.sum = self.sum.wrapping_add(columns.reading(row).checksum());
        }
        self.rows += batch.num_rows() as u64;
    }
}

/// Returns the rows of a batch that have at most this temperature.
pub(super) fn cold_rows(batch: &RecordBatch, celsius: f64) -> RecordBatch {
    let [temperatures, ..] = ReadingColumns::of(batch).numbers;
    let is_cold = BooleanArray::from_iter(temperatures.iter().map(|&number| Some(number <= celsius)));
    filter_record_batch(batch, &is_cold).expect("a mask of the rows")
}

/// Returns the temperature of an id's row.
pub(crate) fn row_celsius(id: RowId) -> f64 {
    Reading::of(id).numbers[0]
}

/// A row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading<'r> {
    pub(super) time: i64,
    pub(super) sensor: i32,
    pub(super) numbers: [f64; NUMBERS],
    pub(super) state: &'r str,
}

impl Reading<'static> {
    /// Computes the row of an id.
    pub(super) fn of(id: RowId) -> Self {
        let random = mix(u64::from(id.arrival).wrapping_add(1) ^ 0x5851_F42D_4C95_7F2D);
        let part = |shift: u32, end: u64| (((random >> shift) & 0xffff) * end) >> 16;
        let small = |part: u64| i32::try_from(part).expect("below 2^31");
        let decimal = |hundredths: i32| f64::from(hundredths) / 100.0;
        // It rises by 40 degrees in half a day and falls in the other half, with errors of up to a
        // tenth.
        let of_day = id.time.rem_euclid(DAY);
        let from_noon = (of_day - DAY / 2).abs();
        let warmth = small((from_noon / (DAY / 2 / 4000)).cast_unsigned());
        const STATES: [&str; 8] = ["ok", "ok", "ok", "ok", "ok", "ok", "warn", "error"];
        Self {
            time: id.time,
            sensor: small(part(0, SENSORS)),
            numbers: [
                decimal(3000 - warmth + small(part(16, 21)) - 10),
                decimal(90_000 + small(part(32, 20_000))),
                decimal(small(part(48, 10_001))),
            ],
            state: STATES[usize::try_from(mix(random) >> 61).expect("below 8")],
        }
    }
}

impl Reading<'_> {
    /// Returns a checksum of the complete row.
    pub(super) fn checksum(&self) -> u64 {
        let numbers = self.numbers.iter().map(|number| number.to_bits());
        let words = [self.time.cast_unsigned(), u64::from(self.sensor.cast_unsigned())];
        let fixed = words.into_iter().chain(numbers);
        let all = fixed.chain(self.state.bytes().map(u64::from));
        mix(all.fold(0, |sum: u64, word| {
            (sum.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        }))
    }
}

/// Returns the checksum of an id's row.
pub(crate) fn row_checksum(id: RowId) -> u64 {
    Reading::of(id).checksum()
}

/// The last step of SplitMix64.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 30)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Returns the columns of the table.
#[must_use]
pub(super) fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        Arc::new(Schema::new(vec![
            Field::new("at", time, false),
            Field::new("sensor", DataType::Int32, false),
            Field::new("celsius", DataType::Float64, false),
            Field::new("pressure", DataType::Float64, false),
            Field::new("humidity", DataType::Float64, false),
            Field::new("state", DataType::Utf8, false),
        ]))
    });
    SCHEMA.clone()
}

/// Rows to append together: as an Arrow batch for column stores, and as bytes for row stores. Both
/// are made before the clock runs.
#[derive(Debug)]
pub(crate) struct Readings {
    ids: Vec<RowId>,
    batch: RecordBatch,
    /// The concatenated rows without their times.
    bytes: Vec<u8>,
    /// The end offset of each row.
    ends: Vec<usize>,
}

impl Readings {
    /// Creates the rows of these times, numbered in order of arrival from `first`.
    ///
    /// # Panics
    ///
    /// If a number exceeds 2^32.
    pub(crate) fn new(first: usize, times: &[i64]) -> Self {
        let first = u32::try_from(first).expect("fewer than 2^32 rows");
        let ids = times.iter().zip(first..);
        let ids = ids.map(|(&time, arrival)| RowId { time, arrival });
        Self::of_rows(ids.map(|id| (id, Reading::of(id))))
    }

    /// Creates rows of a table with a key.
    pub(crate) fn keyed(rows: &[KeyedRow]) -> Self {
        Self::of_rows(rows.iter().map(|row| (row.id(), row.reading())))
    }

    fn of_rows(rows: impl Iterator<Item = (RowId, Reading<'static>)>) -> Self {
        let (len, _) = rows.size_hint();
        let mut ids = Vec::with_capacity(len);
        let mut building = Building::with_capacity(len);
        let (mut bytes, mut ends) = (Vec::with_capacity(len * 32), Vec::with_capacity(len));
        for (id, reading) in rows {
            ids.push(id);
            building.push(&reading);
            bytes.extend_from_slice(&reading.sensor.to_le_bytes());
            for number in reading.numbers {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(reading.state.as_bytes());
            ends.push(bytes.len());
        }
        Self {
            batch: building.finish(),
            ids,
            bytes,
            ends,
        }
    }

    /// Writes the rows as lines of CSV, with times as `show` formats them.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub(crate) fn write_csv<T: fmt::Display>(&self, file: &mut impl io::Write, show: impl Fn(i64) -> T) {
        for (_, reading) in self.readings() {
            let [celsius, pressure, humidity] = reading.numbers;
            let (time, sensor, state) = (show(reading.time), reading.sensor, reading.state);
            writeln!(file, "{time},{sensor},{celsius},{pressure},{humidity},{state}").expect("writes");
        }
    }

    /// Returns the rows as a batch.
    pub(crate) fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Yields the ids of the rows in order of arrival.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RowId> {
        self.ids.iter().copied()
    }

    /// Yields the rows in order of arrival.
    pub(super) fn readings(&self) -> impl Iterator<Item = (RowId, Reading<'_>)> {
        let columns = ReadingColumns::of(&self.batch);
        let readings = (0..).map(move |row| columns.reading(row));
        self.ids.iter().copied().zip(readings)
    }

    /// Yields the rows as bytes in order of arrival.
    pub(super) fn encoded(&self) -> impl Iterator<Item = (RowId, &[u8])> {
        let from = std::iter::once(0).chain(self.ends.iter().copied());
        let rows = from.zip(&self.ends).map(|(from, &to)| &self.bytes[from..to]);
        self.ids.iter().copied().zip(rows)
    }

    /// Returns the rows as bytes in order of time, which B-trees insert faster, sorting included.
    pub(super) fn encoded_by_time(&self) -> Vec<(RowId, &[u8])> {
        let mut rows: Vec<_> = self.encoded().collect();
        if !self.ids.is_sorted() {
            rows.sort_unstable_by_key(|(id, _)| *id);
        }
        rows
    }
}

/// Decodes a row.
pub(super) fn decode(time: i64, bytes: &[u8]) -> Reading<'_> {
    let (fixed, state) = bytes.split_at(FIXED_BYTES);
    let (sensor, numbers) = fixed.split_at(4);
    let numbers = numbers.as_chunks::<8>().0;
    Reading {
        time,
        sensor: i32::from_le_bytes(*sensor.first_chunk().expect("4 bytes")),
        numbers: std::array::from_fn(|column| f64::from_le_bytes(numbers[column])),
        state: std::str::from_utf8(state).expect("text was written"),
    }
}

/// The columns of a batch.
struct ReadingColumns<'b> {
    times: &'b [i64],
    sensors: &'b [i32],
    numbers: [&'b [f64]; NUMBERS],
    states: &'b StringArray,
}

impl<'b> ReadingColumns<'b> {
    fn of(batch: &'b RecordBatch) -> Self {
        let number =
            |column: usize| -> &'b [f64] { batch.column(2 + column).as_primitive::<Float64Type>().values() };
        Self {
            times: batch
                .column(0)
                .as_primitive::<TimestampMicrosecondType>()
                .values(),
            sensors: batch.column(1).as_primitive::<Int32Type>().values(),
            numbers: std::array::from_fn(number),
            states: batch.column(5).as_string(),
        }
    }

    fn reading(&self, row: usize) -> Reading<'b> {
        Reading {
            time: self.times[row],
            sensor: self.sensors[row],
            numbers: self.numbers.map(|column| column[row]),
            state: self.states.value(row),
        }
    }
}

/// A builder of batches, for stores that return rows.
#[derive(Debug)]
pub(super) struct Building {
    times: Vec<i64>,
    sensors: Vec<i32>,
    numbers: [Vec<f64>; NUMBERS],
    ends: Vec<i32>,
    text: Vec<u8>,
    capacity: usize,
}

impl Building {
    /// Creates a builder for this many rows, limited to a batch's maximum.
    pub(super) fn with_capacity(rows: usize) -> Self {
        Self {
            times: Vec::with_capacity(rows),
            sensors: Vec::with_capacity(rows),
            numbers: std::array::from_fn(|_| Vec::with_capacity(rows)),
            ends: Vec::with_capacity(rows + 1),
            text: Vec::with_capacity(rows * 4),
            capacity: rows,
        }
    }

    /// Adds a row.
    pub(super) fn push(&mut self, reading: &Reading<'_>) {
        self.times.push(reading.time);
        self.sensors.push(reading.sensor);
        for (column, number) in self.numbers.iter_mut().zip(reading.numbers) {
            column.push(number);
        }
        if self.ends.is_empty() {
            self.ends.push(0);
        }
        self.text.extend_from_slice(reading.state.as_bytes());
        self.ends
            .push(i32::try_from(self.text.len()).expect("a batch has less text than 2 GiB"));
    }

    /// Returns the rows so far as a batch.
    pub(super) fn finish(&mut self) -> RecordBatch {
        let next = Self::with_capacity(self.capacity);
        let done = std::mem::replace(self, next);
        let ends = if done.ends.is_empty() { vec![0] } else { done.ends };
        let states = StringArray::new(
            OffsetBuffer::new(ScalarBuffer::from(ends)),
            done.text.into(),
            None,
        );
        let number = |column| -> ArrayRef { Arc::new(Float64Array::from(column)) };
        let [first, second, third] = done.numbers.map(number);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampMicrosecondArray::from(done.times)),
            Arc::new(Int32Array::from(done.sensors)),
            first,
            second,
            third,
            Arc::new(states),
        ];
        RecordBatch::try_new(schema(), columns).expect("columns of one length")
    }
}

/// Passes rows on as batches.
pub(super) struct Shown<'s> {
    building: Building,
    show: &'s mut dyn FnMut(&RecordBatch),
}

impl<'s> Shown<'s> {
    pub(super) fn new(show: &'s mut dyn FnMut(&RecordBatch)) -> Self {
        Self {
            building: Building::with_capacity(SHORT_RANGE_ROWS),
            show,
        }
    }

    /// Adds a row.
    pub(super) fn push(&mut self, reading: &Reading<'_>) {
        self.building.push(reading);
        if self.building.times.len() == BATCH_ROWS {
            self.building.capacity = BATCH_ROWS;
            (self.show)(&self.building.finish());
        }
    }

    /// Passes on the remaining rows.
    pub(super) fn finish(mut self) {
        if !self.building.times.is_empty() {
            (self.show)(&self.building.finish());
        }
    }
}
