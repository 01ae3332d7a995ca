//! Rows of a long batch as the log has them: leaves of compressed columns, as tables keep them.
//! Format: docs/format.md, "Packed rows".
//!
//! A batch is packed by the thread that commits it. It takes a fraction of its memory, in the log
//! and in the head, and is unpacked for readers and for the flush.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_select::concat::concat;
use bedload_columns::{EncodeOptions, EncodedLeaf, LeafReader, encode};

use super::encoded_rows::len32;
use super::sorted_rows::SortedBatch;
use super::{ColumnPlace, TableSchema, variable::Variable};
use crate::codec::Reader;

/// A batch of fewer rows is logged as it is: it is little beside the sync that it waits for, and
/// readers have it without unpacking.
const ROWS_MIN: usize = if cfg!(any(test, fuzzing)) { 40 } else { 1 << 12 };

/// Rows and bytes of a leaf.
const LEAF_ROWS: usize = if cfg!(any(test, fuzzing)) { 64 } else { 1 << 14 };
const LEAF_BYTES: usize = 2 << 20;

/// Bytes that the rows of a record have in memory at most.
pub(crate) const UNPACKED_BYTES_MAX: usize = 1 << 30;

/// Bytes before the leaves, and before each of them.
const HEADER_BYTES: usize = 8;
const LEN_BYTES: usize = 4;

/// Whether a batch of so many rows is packed.
pub(crate) fn are_many(rows: usize) -> bool {
    rows >= ROWS_MIN
}

/// The bytes of a leaf, shared with all leaves of its batch. Arrow's own buffers are `AsRef<[u8]>`
/// only since version 60.
#[derive(Debug, Clone)]
struct LeafBytes(Buffer);

impl AsRef<[u8]> for LeafBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The rows of a batch, sorted by time and compressed.
#[derive(Debug, Clone)]
pub(crate) struct PackedRows {
    rows: usize,
    /// Each has the columns of the table, and then where the rows stood in the batch.
    leaves: Arc<[LeafReader<LeafBytes>]>,
    /// All leaves, as the log has them.
    bytes: Buffer,
}

impl PackedRows {
    /// Packs the columns of rows in the order of their times, which take `bytes` bytes of memory
    /// and had these ranks in their batch. `None` if they do not fit leaves.
    pub(super) fn pack(columns: &[ArrayRef], bytes: usize, ranks: impl Iterator<Item = u64>) -> Option<Self> {
        let rows = columns.first()?.len();
        let ranks: ArrayRef = Arc::new(UInt64Array::from_iter_values(ranks));
        let row_bytes = bytes.div_ceil(rows.max(1)).max(1);
        let most = (LEAF_BYTES / row_bytes).clamp(1, LEAF_ROWS);
        // All leaves get about as many rows.
        let leaf_rows = rows.div_ceil(rows.div_ceil(most).max(1)).max(1);
        let options = EncodeOptions::default();
        let leaf_of = |begin: usize| {
            let leaf_rows = leaf_rows.min(rows - begin);
            let columns = columns.iter().chain([&ranks]);
            let columns: Vec<ArrayRef> = columns.map(|column| column.slice(begin, leaf_rows)).collect();
            encode(&columns, &options).ok()
        };
        let leaves: Vec<EncodedLeaf> = (0..rows).step_by(leaf_rows).map(leaf_of).collect::<Option<_>>()?;
        let len = leaves
            .iter()
            .map(|leaf| LEN_BYTES + leaf.bytes.len())
            .sum::<usize>();
        // No more than is needed: it may be kept.
        let mut memory = MutableBuffer::with_capacity(HEADER_BYTES + len);
        memory.push(len32(rows));
        memory.push(len32(leaves.len()));
        for leaf in leaves {
            memory.push(len32(leaf.bytes.len()));
            memory.extend_from_slice(&leaf.bytes);
        }
        Self::of_buffer(memory.into()).ok()
    }

    /// Packed rows that take all of some bytes, or what is wrong with them. Columns are looked at
    /// by [`decode`](Self::decode), which knows their types.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        Self::of_buffer(Buffer::from_slice_ref(bytes))
    }

    fn of_buffer(bytes: Buffer) -> Result<Self, &'static str> {
        let mut fields = Reader::new(&bytes);
        let (rows, count) = fields.u32().zip(fields.u32()).ok_or(CUT_SHORT)?;
        let mut leaves = Vec::new();
        for _ in 0..count {
            let len = fields.u32().ok_or(CUT_SHORT)? as usize;
            let begin = bytes.len() - fields.rest_len();
            fields.bytes(len).ok_or(CUT_SHORT)?;
            let leaf = LeafReader::open_unchecked(LeafBytes(bytes.slice_with_length(begin, len)));
            let leaf = leaf.map_err(|_| "a leaf of its rows is damaged")?;
            if leaf.directory().leaf_bytes() != len || leaf.rows() == 0 {
                return Err("a leaf of its rows is not as long as it says");
            }
            leaves.push(leaf);
        }
        if !fields.is_empty() {
            return Err("its rows are followed by something else");
        }
        if leaves.is_empty() || leaves.iter().map(LeafReader::rows).sum::<usize>() != rows as usize {
            return Err("its leaves do not have its rows");
        }
        Ok(Self {
            rows: rows as usize,
            leaves: leaves.into(),
            bytes,
        })
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Returns the bytes for the log.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many columns of the table they have.
    pub(super) fn columns(&self) -> usize {
        let of_leaf = self.leaves.first().map(|leaf| leaf.directory().columns().len());
        of_leaf.map_or(0, |columns| columns.saturating_sub(1))
    }

    /// A column of some rows that this process has packed.
    pub(super) fn column(&self, column: usize, rows: Range<usize>) -> ArrayRef {
        let parts: Result<Vec<ArrayRef>, _> = self.parts(column, rows).collect();
        let array = parts.and_then(|parts| match (&parts[..], self.leaves.first()) {
            // There is no array that would have the type.
            ([], Some(leaf)) => leaf.decode(column, 0..0).map_err(|_| DAMAGED),
            _ => join(&parts),
        });
        array.expect("rows are unpacked as they were packed")
    }

    /// A column of some rows, leaf by leaf.
    fn parts(
        &self,
        column: usize,
        rows: Range<usize>,
    ) -> impl Iterator<Item = Result<ArrayRef, &'static str>> {
        let mut begin = 0;
        self.leaves.iter().filter_map(move |leaf| {
            let end = begin + leaf.rows();
            let of_leaf = rows.start.max(begin)..rows.end.min(end);
            let part = (of_leaf.start < of_leaf.end)
                .then(|| leaf.decode(column, of_leaf.start - begin..of_leaf.end - begin));
            begin = end;
            part.map(|part| part.map_err(|_| DAMAGED))
        })
    }

    /// The rows as those of a table with this schema, or what is wrong with them. Columns that
    /// were added to the table later are null.
    pub(crate) fn decode(&self, schema: &TableSchema) -> Result<SortedBatch, &'static str> {
        self.decode_within(schema, UNPACKED_BYTES_MAX)
    }

    fn decode_within(&self, schema: &TableSchema, bytes_max: usize) -> Result<SortedBatch, &'static str> {
        let fields = schema.arrow().fields();
        let count = self.columns();
        let is_as_its_table = |leaf: &LeafReader<LeafBytes>| {
            let columns = leaf.directory().columns();
            count <= fields.len()
                && columns.len() == count + 1
                && fields.iter().zip(&columns[..count]).all(|(field, column)| {
                    field.data_type() == column.data_type()
                        && (field.is_nullable() || column.null_count() == 0)
                })
        };
        if !self.leaves.iter().all(is_as_its_table) {
            return Err("its rows do not have the columns of their table");
        }
        // Before they are unpacked, as a few bytes may stand for any number of rows. Columns that
        // the table has got since do not count: the batch was admitted without them.
        let widths = schema.places()[..count].iter().map(|column| match column.place {
            ColumnPlace::Fixed { width, .. } => width,
            _ => 0,
        });
        let row_bytes = size_of::<u64>() + widths.sum::<usize>();
        let mut bytes = self.rows.saturating_mul(row_bytes);
        let mut within_bounds = |more: usize| {
            bytes = bytes.saturating_add(more);
            let is_within = bytes <= bytes_max;
            is_within
                .then_some(())
                .ok_or("its rows are longer than those of any batch")
        };
        within_bounds(0)?;
        let mut columns = Vec::with_capacity(fields.len());
        for column in 0..count {
            let mut parts = Vec::with_capacity(self.leaves.len());
            for part in self.parts(column, 0..self.rows) {
                let part = part?;
                within_bounds(Variable::of(&*part).map_or(0, |part| part.bytes()))?;
                parts.push(part);
            }
            columns.push(join(&parts)?);
        }
        let ranks: Vec<ArrayRef> = self.parts(count, 0..self.rows).collect::<Result<_, _>>()?;
        let ranks = join(&ranks)?;
        let ranks = ranks
            .as_primitive_opt::<UInt64Type>()
            .filter(|ranks| ranks.null_count() == 0);
        let ranks = ranks.ok_or("its rows do not say in which order they came")?;
        let columns = schema.fill_up(columns, self.rows)?;
        SortedBatch::of_sorted(schema, columns, ranks.values()).ok_or("its rows are not in order")
    }
}

/// Rows of one leaf after those of another.
fn join(parts: &[ArrayRef]) -> Result<ArrayRef, &'static str> {
    if let [only] = parts {
        return Ok(only.clone());
    }
    let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
    concat(&parts).map_err(|_| "its text is too long")
}

const DAMAGED: &str = "a column of its rows is damaged";
const CUT_SHORT: &str = "its rows are cut short";

#[cfg(test)]
mod tests {
    use arrow_array::{RecordBatch, StringArray, TimestampSecondArray, UInt32Array};
    use arrow_schema::{DataType, Field, Schema};
    use arrow_select::take::take_record_batch;
    use bedload_columns::times;
    use bedload_testkit::Rng;

    use super::super::encoded_rows::tests::batch;
    use super::*;
    use crate::rows::SortedRows;

    /// The rows of a batch of each type in an order of arrival that a seed draws.
    fn shuffled(numbers: Range<u8>, seed: u64) -> RecordBatch {
        let whole = batch(numbers);
        let mut rng = Rng::new(seed);
        let mut order: Vec<u32> = (0..).take(whole.num_rows()).collect();
        for row in (1..order.len()).rev() {
            order.swap(row, rng.index(row + 1));
        }
        take_record_batch(&whole, &UInt32Array::from(order)).expect("rows of it")
    }

    fn sorted(schema: &TableSchema, batch: &RecordBatch) -> SortedBatch {
        SortedBatch::new(schema, batch.columns().to_vec()).expect("short text")
    }

    fn assert_same(found: &SortedRows, expected: &SortedRows) {
        assert_eq!(found.columns(), expected.columns());
        assert_eq!(found.places().times(), expected.places().times());
        assert_eq!(found.places().sequences(), expected.places().sequences());
        assert_eq!(found.arrivals(), expected.arrivals());
        assert_eq!(found.sequences(), expected.sequences());
        assert_eq!(found.row_bytes_max(), expected.row_bytes_max());
        assert_eq!(found.bytes(), expected.bytes());
    }

    #[test]
    fn rows_of_each_type_come_back_in_their_order() {
        for seed in 0..12 {
            // Up to four leaves.
            let rows = [1, 40, 64, 65, 128, 200][(seed % 6) as usize];
            let batch = if seed < 6 {
                batch(0..rows)
            } else {
                shuffled(0..rows, seed)
            };
            let schema = TableSchema::new(batch.schema(), "at").expect("storable");
            let expected = sorted(&schema, &batch).numbered(7);
            let mut kept = sorted(&schema, &batch);
            let packed = kept.pack(&schema).expect("rows that fit leaves");
            assert_eq!(packed.len(), batch.num_rows());
            let parsed = PackedRows::parse(packed.bytes()).expect("as it was packed");
            let read = parsed.decode(&schema).expect("as it was packed").numbered(7);
            assert_same(&read, &expected);
            let kept = kept.numbered(7);
            let all = usize::from(rows);
            for some in [0..all, 0..1, all - 1..all, all / 3..all - all / 4, 0..0, all..all] {
                let (begin, len) = (some.start, some.len());
                let slices = expected.columns().iter().map(|column| column.slice(begin, len));
                assert_eq!(kept.columns_of(some), slices.collect::<Vec<_>>());
            }
            assert_same(&kept, &expected);
        }
    }

    #[test]
    fn arrays_take_the_place_of_packed_rows() {
        let whole = batch(0..200);
        let schema = TableSchema::new(whole.schema(), "at").expect("storable");
        let mut kept = sorted(&schema, &whole);
        let packed = kept.pack(&schema).expect("rows that fit leaves");
        let kept = kept.numbered(0);
        assert_eq!(packed.bytes.capacity(), packed.bytes().len().next_multiple_of(64));
        let holders = || Arc::strong_count(&packed.leaves);
        let slice = kept.slice(50..150, false);
        assert_eq!(kept.columns_of(0..10), whole.slice(0, 10).columns());
        assert_eq!(slice.columns_of(20..30), whole.slice(70, 10).columns());
        assert_eq!(holders(), 3);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(kept.columns()[..], *whole.columns()));
            }
        });
        assert_eq!(holders(), 2);
        assert_eq!(slice.columns()[..], *whole.slice(50, 100).columns());
        assert_eq!(holders(), 1);
        assert_eq!(
            slice.slice(1..3, true).columns()[..],
            *whole.slice(51, 2).columns()
        );
        // Nor are times there twice.
        for (rows, first) in [(&kept, 0), (&slice, 50)] {
            let column = times(&rows.columns()[0]).expect("timestamps");
            assert_eq!(column.as_ptr(), rows.places().times().as_ptr(), "from {first}");
        }
    }

    #[test]
    fn a_few_rows_are_unpacked_alone_until_they_are_many() {
        let whole = batch(0..200);
        let schema = TableSchema::new(whole.schema(), "at").expect("storable");
        let mut kept = sorted(&schema, &whole);
        kept.pack(&schema).expect("rows that fit leaves");
        let kept = kept.numbered(0);
        assert!(kept.columns_of_few(0..51, &[0]).is_none(), "many at once");
        let kept = kept.slice(0..200, true);
        for begin in [0, 60, 190, 120, 70] {
            let few = kept.columns_of_few(begin..begin + 10, &[0, 29, 3]);
            let expected = [0, 29, 3].map(|column| whole.column(column).slice(begin, 10));
            assert_eq!(few.expect("few until now")[..], expected, "from {begin}");
        }
        assert!(kept.columns_of_few(0..1, &[0]).is_none());
        assert_eq!(kept.columns()[..], *whole.columns());
        let plain = sorted(&schema, &whole).numbered(0);
        assert!(plain.columns_of_few(0..1, &[0]).is_none(), "arrays are at hand");
    }

    #[test]
    fn rows_that_become_no_shorter_are_not_packed() {
        let mut rng = Rng::new(8);
        let mut pack = |bits: u32| {
            let rows = 0..200_i64;
            let at: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(rows.clone()));
            let numbers = rows.map(|_| rng.below(u64::MAX) >> (64 - bits));
            let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(numbers));
            let batch = RecordBatch::try_from_iter([("at", at), ("number", numbers)]).expect("of one length");
            let schema = TableSchema::new(batch.schema(), "at").expect("storable");
            let mut sorted = sorted(&schema, &batch);
            let packed = sorted.pack(&schema);
            assert_eq!(sorted.numbered(0).columns()[..], *batch.columns());
            packed.is_some()
        };
        assert!(pack(8));
        assert!(!pack(64));
    }

    #[test]
    fn no_more_is_unpacked_than_a_batch_may_have() {
        let rows = 0..200_i64;
        let at: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(rows.clone()));
        let text: ArrayRef = Arc::new(StringArray::from_iter_values(rows.map(|_| "x".repeat(1000))));
        let batch = RecordBatch::try_from_iter([("at", at), ("text", text)]).expect("of one length");
        let schema = TableSchema::new(batch.schema(), "at").expect("storable");
        let packed = sorted(&schema, &batch)
            .pack(&schema)
            .expect("rows that fit leaves");
        assert!(packed.bytes().len() < 8000);
        let unpacked_bytes = 200 * (8 + 1000);
        assert!(packed.decode_within(&schema, unpacked_bytes).is_ok());
        // Not the last leaf, and not one.
        for bytes_max in [unpacked_bytes - 1, unpacked_bytes / 2, 200 * 8, 0] {
            let error = packed.decode_within(&schema, bytes_max).expect_err("too long");
            assert!(error.contains("longer"), "{error}");
        }
        // Columns that the table gets later do not make the batch longer.
        let added = [Field::new("later", DataType::Float64, true).into()];
        let wider = schema.with_columns(&added).expect("nullable");
        assert!(packed.decode_within(&wider, unpacked_bytes).is_ok());
        // The most rows that can be claimed, in a record of a few bytes.
        for (rows, leaves) in [(u32::MAX, u32::MAX), (u32::MAX, 1), (0, u32::MAX), (0, 0)] {
            let mut bytes = packed.bytes().to_vec();
            bytes[..4].copy_from_slice(&rows.to_le_bytes());
            bytes[4..8].copy_from_slice(&leaves.to_le_bytes());
            assert!(
                PackedRows::parse(&bytes).is_err(),
                "{rows} rows in {leaves} leaves"
            );
        }
    }

    #[test]
    fn equal_times_keep_their_order_of_arrival() {
        let whole = batch(0..50);
        let order: UInt32Array = (0..150).map(|row| Some(row * 7 % 50)).collect();
        let twice = take_record_batch(&whole, &order).expect("rows of it");
        let schema = TableSchema::new(twice.schema(), "at").expect("storable");
        let packed = sorted(&schema, &twice)
            .pack(&schema)
            .expect("rows that fit leaves");
        let read = packed.decode(&schema).expect("as it was packed").numbered(100);
        assert_same(&read, &sorted(&schema, &twice).numbered(100));
    }

    #[test]
    fn damaged_rows_are_refused_or_are_other_rows() {
        let whole = shuffled(0..70, 3)
            .project(&[0, 1, 5, 12, 26, 29])
            .expect("it has them");
        let schema = TableSchema::new(whole.schema(), "at").expect("storable");
        let packed = sorted(&schema, &whole)
            .pack(&schema)
            .expect("rows that fit leaves");
        let bytes = packed.bytes();
        let read = |bytes: &[u8]| PackedRows::parse(bytes).and_then(|rows| rows.decode(&schema));
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "cut to {len} bytes");
        }
        let mut refused = 0;
        let mut damaged = bytes.to_vec();
        for at in 0..bytes.len() {
            for bit in [1, 0x10, 0x80] {
                damaged[at] ^= bit;
                match read(&damaged) {
                    Err(_) => refused += 1,
                    Ok(rows) => assert_eq!(rows.numbered(0).len(), 70),
                }
                damaged[at] ^= bit;
            }
        }
        assert!(refused > 300, "{refused} changes were noticed");
        damaged.push(0);
        assert!(read(&damaged).is_err(), "something follows");
        let fields = whole.schema_ref().fields().iter();
        let fields: Vec<_> = fields
            .map(|field| field.as_ref().clone().with_nullable(false))
            .collect();
        let strict = TableSchema::new(Arc::new(Schema::new(fields)), "at");
        assert!(packed.decode(&strict.expect("storable")).is_err(), "nulls");
        let other = TableSchema::new(whole.project(&[0, 1]).expect("it has them").schema(), "at");
        assert!(packed.decode(&other.expect("storable")).is_err());
    }

    #[test]
    fn rows_out_of_order_and_ranks_of_no_rows_are_refused() {
        let whole = batch(0..50).project(&[0, 3]).expect("it has them");
        let schema = TableSchema::new(whole.schema(), "at").expect("storable");
        let pack = |batch: &RecordBatch, ranks: Vec<u64>| {
            let packed = PackedRows::pack(batch.columns(), 1000, ranks.into_iter());
            packed
                .expect("rows that fit leaves")
                .decode(&schema)
                .map(|rows| rows.numbered(0).len())
        };
        assert_eq!(pack(&whole, (0..50).collect()), Ok(50));
        assert_eq!(pack(&whole, (0..50).rev().collect()), Ok(50));
        assert!(pack(&whole, (1..51).collect()).is_err(), "a rank beyond the rows");
        assert!(
            pack(&whole, (0..50).map(|rank| rank / 2).collect()).is_err(),
            "one rank twice"
        );
        assert!(
            pack(
                &shuffled(0..50, 1).project(&[0, 3]).expect("it has them"),
                (0..50).collect()
            )
            .is_err()
        );
    }
}
