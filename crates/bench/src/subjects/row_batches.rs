//! The row of the XStore paper: a second, and eight columns of 32 bytes computed from it.

use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch, TimestampSecondArray};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use parking_lot::Mutex;

/// Columns of a row besides its time.
pub const COLUMNS: usize = 8;
/// Bytes of a column.
pub(super) const VALUE_BYTES: usize = 32;
/// Bytes of a row without its time.
pub const ROW_BYTES: usize = COLUMNS * VALUE_BYTES;

/// Rows as stores take them: as an Arrow batch, and as bytes, row by row.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Their times.
    pub times: Vec<i64>,
    /// The concatenated values of the rows.
    pub bytes: Vec<u8>,
    /// The same rows as a batch.
    pub batch: RecordBatch,
}

/// The columns of the batch.
#[must_use]
pub(super) fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(make_schema);
    SCHEMA.clone()
}

fn make_schema() -> SchemaRef {
    let time = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    let value = |column| Field::new(format!("c{column}"), DataType::FixedSizeBinary(32), false);
    let fields: Vec<Field> = std::iter::once(time).chain((0..COLUMNS).map(value)).collect();
    Arc::new(Schema::new(fields))
}

/// Returns the values of the row of a time. (SplitMix64, so that generating them is cheap.)
#[must_use]
pub fn row_of(time: i64) -> [u8; ROW_BYTES] {
    let mut state = time.cast_unsigned().wrapping_mul(0x2545_F491_4F6C_DD1D);
    let mut row = [0; ROW_BYTES];
    for word in row.chunks_exact_mut(8) {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    row
}

/// Combines all bytes of a row into one number.
#[must_use]
pub fn fold<'v>(values: impl Iterator<Item = &'v [u8]>) -> u64 {
    let words = values.flat_map(|value| value.as_chunks::<8>().0.iter());
    words.fold(0, |sum, word| sum.rotate_left(5) ^ u64::from_le_bytes(*word))
}

/// Returns a batch of columns.
#[must_use]
pub(super) fn batch_of(times: Vec<i64>, columns: Vec<Vec<u8>>) -> RecordBatch {
    let width = i32::try_from(VALUE_BYTES).expect("small");
    let value = |bytes| -> ArrayRef { Arc::new(FixedSizeBinaryArray::new(width, buffer_of(bytes), None)) };
    let time: ArrayRef = Arc::new(TimestampSecondArray::from(times));
    let arrays = std::iter::once(time)
        .chain(columns.into_iter().map(value))
        .collect();
    RecordBatch::try_new(schema(), arrays).expect("columns of one length")
}

/// Memory of dropped batches for reuse, as in our store: new memory from the system takes as long
/// as filling it.
static KEPT: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
/// The most buffers kept, and the least length worth keeping.
const KEPT_COLUMNS: usize = 4 * COLUMNS;
const KEPT_BYTES: usize = 16 << 10;

/// Returns an empty column with room for this many bytes.
fn column_of(bytes: usize) -> Vec<u8> {
    let fits = |kept: &Vec<u8>| (bytes..=4 * bytes).contains(&kept.capacity());
    let mut kept = KEPT.lock();
    let at = kept.iter().rposition(fits).filter(|_| bytes >= KEPT_BYTES);
    at.map_or_else(|| Vec::with_capacity(bytes), |at| kept.remove(at))
}

/// Returns a column's buffer, whose memory is kept when it is dropped.
fn buffer_of(bytes: Vec<u8>) -> Buffer {
    if bytes.capacity() < KEPT_BYTES {
        return Buffer::from_vec(bytes);
    }
    Bytes::from_owner(Lent(bytes)).into()
}

struct Lent(Vec<u8>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut kept = KEPT.lock();
        if kept.len() < KEPT_COLUMNS {
            let mut bytes = std::mem::take(&mut self.0);
            bytes.clear();
            kept.push(bytes);
        }
    }
}

impl Rows {
    /// Creates the rows of these times.
    #[must_use]
    pub fn of_times(times: Vec<i64>) -> Self {
        let bytes: Vec<u8> = times.iter().flat_map(|&time| row_of(time)).collect();
        let column = |column: usize| {
            let rows = bytes.chunks_exact(ROW_BYTES);
            rows.flat_map(|row| &row[column * VALUE_BYTES..][..VALUE_BYTES])
                .copied()
                .collect()
        };
        let batch = batch_of(times.clone(), (0..COLUMNS).map(column).collect());
        Self { times, bytes, batch }
    }
}

/// A builder of columns, for stores that return rows.
#[derive(Debug)]
pub(super) struct RowColumns {
    times: Vec<i64>,
    values: Vec<Vec<u8>>,
    /// The expected number of rows of a batch.
    rows: usize,
}

impl RowColumns {
    /// Rows of a batch, about as many as in our store.
    pub(super) const ROWS: usize = 2048;

    /// Creates a builder for the rows from one second to before another.
    pub(super) fn between(from: i64, to: i64) -> Self {
        let seconds = usize::try_from(to.saturating_sub(from)).unwrap_or_default();
        Self {
            times: Vec::new(),
            values: Vec::new(),
            rows: seconds.min(Self::ROWS),
        }
    }

    /// Adds a row; returns a full batch.
    pub(super) fn push<'v>(
        &mut self,
        time: i64,
        values: impl Iterator<Item = &'v [u8]>,
    ) -> Option<RecordBatch> {
        if self.values.is_empty() {
            self.values = (0..COLUMNS).map(|_| column_of(self.rows * VALUE_BYTES)).collect();
            self.times.reserve(self.rows);
        }
        self.times.push(time);
        for (column, value) in self.values.iter_mut().zip(values) {
            column.extend_from_slice(value);
        }
        (self.times.len() == Self::ROWS).then(|| self.finish()).flatten()
    }

    /// Returns the rows since the last batch, if any.
    pub(super) fn finish(&mut self) -> Option<RecordBatch> {
        let values = std::mem::take(&mut self.values);
        (!values.is_empty()).then(|| batch_of(std::mem::take(&mut self.times), values))
    }
}
