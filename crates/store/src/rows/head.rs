//! The head of a table: its newest rows, in memory and in order.
//!
//! The index here is the standard library's B-tree behind a lock, until the concurrent head of `bedload-memory` takes
//! its place: what the rest of the store knows of it is this file.

use std::collections::BTreeMap;
use std::ops::{Bound, Range, RangeInclusive};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::{BooleanBufferBuilder, MutableBuffer};
use parking_lot::{Mutex, RwLock};

use super::batch_builder::{FixedColumn, RowSource};
use super::deletion::Stretch;
use super::{Deletion, Deletions, Place, RowBlock, TableSchema};
use crate::sparse::BlockRef;

/// Bytes of memory the index takes for a row, beside the row: measured on ascending and scrambled times.
const INDEX_BYTES_PER_ROW: usize = 48;

/// Rows appended since some moment, and deletions made since. Rows and deletions are only ever added, so whoever
/// reads up to a sequence number always finds the same.
#[derive(Debug, Default)]
pub(crate) struct Head {
    inner: RwLock<Inner>,
    /// The first deletions as one, and how many they are.
    merged: Mutex<(usize, Arc<Deletions>)>,
}

#[derive(Debug, Default)]
struct Inner {
    blocks: Vec<Arc<RowBlock>>,
    /// (time, sequence) to block and row.
    index: BTreeMap<Place, (u32, u32)>,
    /// In the order of their sequence numbers.
    deletions: Vec<Deletion>,
    /// Blocks of a sparse table that commits have written, each with the sequence number it counts as, ascending.
    written: BTreeMap<i64, Vec<(u64, BlockRef)>>,
}

/// A row of a head.
#[derive(Debug, Clone)]
pub(crate) struct HeadRow {
    pub(crate) time: i64,
    pub(crate) sequence: u64,
    pub(crate) block: Arc<RowBlock>,
    pub(crate) row: usize,
}

impl HeadRow {
    pub(crate) fn place(&self) -> Place {
        (self.time, self.sequence)
    }
}

/// The rows of a sealed head, by time and sequence number.
#[derive(Debug)]
pub(crate) struct RowsInOrder {
    blocks: Vec<Arc<RowBlock>>,
    order: Vec<(u32, u32)>,
}

impl RowsInOrder {
    /// The block and the place in it of the row at a position.
    pub(crate) fn get(&self, position: usize) -> Option<(&RowBlock, usize)> {
        let &(block, row) = self.order.get(position)?;
        Some((&self.blocks[block as usize], row as usize))
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The first row for whose place `is_before` does not hold, which holds for none behind it.
    pub(crate) fn partition_point(&self, is_before: impl Fn(Place) -> bool) -> usize {
        self.order
            .partition_point(|&(block, row)| is_before(self.place_of(block, row)))
    }

    /// The rows that deletions leave.
    pub(crate) fn without(mut self, deletions: &Deletions) -> Self {
        if deletions.is_empty() {
            return self;
        }
        let mut order = std::mem::take(&mut self.order);
        let mut stretch: Option<Stretch> = None;
        order.retain(|&(block, row)| {
            let (time, sequence) = self.place_of(block, row);
            // Rows of one stretch stand together.
            let known = stretch.filter(|stretch| stretch.contains(time));
            let of_time = known.unwrap_or_else(|| deletions.stretch(time));
            stretch = Some(of_time);
            !deletions.covers_in(of_time, time, sequence)
        });
        self.order = order;
        self
    }

    /// Above the sequence number of each row.
    pub(crate) fn end_sequence(&self) -> u64 {
        let ends = self
            .order
            .iter()
            .map(|&(block, row)| self.place_of(block, row).1 + 1);
        ends.max().unwrap_or(0)
    }

    fn place_of(&self, block: u32, row: u32) -> Place {
        let block = &self.blocks[block as usize];
        (block.times()[row as usize], block.first_sequence + u64::from(row))
    }

    /// The blocks and places in them of some rows.
    fn rows(&self, rows: Range<usize>) -> impl Iterator<Item = (&RowBlock, usize)> {
        self.order[rows]
            .iter()
            .map(|&(block, row)| (&*self.blocks[block as usize], row as usize))
    }

    /// The times of all rows, in the order in which they arrived.
    pub(crate) fn arrivals(&self) -> impl Iterator<Item = &[i64]> {
        self.blocks.iter().map(|block| block.times())
    }
}

impl RowSource for RowsInOrder {
    fn place(&self, row: usize) -> Place {
        let (block, row) = self.order[row];
        self.place_of(block, row)
    }

    fn bits(&self, _flags: FixedColumn, bit: usize, rows: Range<usize>, out: &mut BooleanBufferBuilder) {
        for (block, row) in self.rows(rows) {
            out.append(block.fixed(row)[bit / 8] >> (bit % 8) & 1 == 1);
        }
    }

    fn fixed(&self, column: FixedColumn, rows: Range<usize>, out: &mut MutableBuffer) {
        for (block, row) in self.rows(rows) {
            out.extend_from_slice(&block.fixed(row)[column.offset..column.offset + column.width]);
        }
    }

    fn variable(&self, column: usize, row: usize) -> &[u8] {
        let (block, row) = self.order[row];
        self.blocks[block as usize].variable(row as usize, column)
    }
}

impl Head {
    /// Bytes of memory that the rows of a batch would take.
    pub(crate) fn memory_of(schema: &TableSchema, batch: &RecordBatch) -> usize {
        RowBlock::memory_of(schema, batch) + batch.num_rows() * INDEX_BYTES_PER_ROW
    }

    /// Adds rows and returns the bytes of memory they take.
    pub(crate) fn append(&self, block: Arc<RowBlock>) -> usize {
        let mut inner = self.inner.write();
        let number =
            u32::try_from(inner.blocks.len()).expect("a head is sealed long before it has so many blocks");
        let sequences = block.first_sequence..;
        for ((&time, sequence), row) in block.times().iter().zip(sequences).zip(0..) {
            inner.index.insert((time, sequence), (number, row));
        }
        let bytes = block.memory_bytes() + block.len() * INDEX_BYTES_PER_ROW;
        inner.blocks.push(block);
        bytes
    }

    /// Adds a deletion, which covers rows of this head and of everything older.
    pub(crate) fn delete(&self, deletion: Deletion) {
        self.inner.write().deletions.push(deletion);
    }

    /// The deletions made before sequence number `before`.
    pub(crate) fn deletions(&self, before: u64) -> Vec<Deletion> {
        self.inner
            .read()
            .deletions
            .iter()
            .filter(|deletion| deletion.at < before)
            .cloned()
            .collect()
    }

    /// The deletions made before sequence number `before`, as one; none if there are none.
    pub(crate) fn merged_deletions(&self, before: u64) -> Option<Arc<Deletions>> {
        let inner = self.inner.read();
        let count = inner.deletions.partition_point(|deletion| deletion.at < before);
        if count == 0 {
            return None;
        }
        let mut merged = self.merged.lock();
        let (known, deletions) = &mut *merged;
        if count < *known {
            // An earlier state than that of the last reader.
            let mut earlier = Deletions::default();
            inner.deletions[..count]
                .iter()
                .for_each(|deletion| earlier.put(deletion));
            return Some(Arc::new(earlier));
        }
        if count > *known {
            let deletions = Arc::make_mut(deletions);
            inner.deletions[*known..count]
                .iter()
                .for_each(|deletion| deletions.put(deletion));
            *known = count;
        }
        Some(deletions.clone())
    }

    /// Whether there is, or was, a row with a time in a range.
    pub(crate) fn has_rows(&self, times: RangeInclusive<i64>) -> bool {
        let places = (*times.start(), 0)..=(*times.end(), u64::MAX);
        self.inner.read().index.range(places).next().is_some()
    }

    /// Adds a block of a sparse table that is written.
    pub(crate) fn put_block(&self, block: i64, sequence: u64, written: BlockRef) {
        self.inner
            .write()
            .written
            .entry(block)
            .or_default()
            .push((sequence, written));
    }

    /// The newest of the writings of a block whose sequence number is below `before`.
    pub(crate) fn newest_block(&self, block: i64, before: u64) -> Option<(u64, BlockRef)> {
        let inner = self.inner.read();
        let written = inner.written.get(&block)?;
        written
            .iter()
            .rev()
            .find(|(sequence, _)| *sequence < before)
            .copied()
    }

    /// The first block in a range that was written before sequence number `before`; in reverse, the last.
    pub(crate) fn next_block(&self, range: RangeInclusive<i64>, before: u64, reverse: bool) -> Option<i64> {
        let inner = self.inner.read();
        let is_visible = |(_, written): &(&i64, &Vec<(u64, BlockRef)>)| written[0].0 < before;
        let mut blocks = inner
            .written
            .range(range)
            .filter(is_visible)
            .map(|(&block, _)| block);
        if reverse {
            blocks.next_back()
        } else {
            blocks.next()
        }
    }

    /// All writings of blocks before sequence number `before`.
    pub(crate) fn blocks(&self, before: u64) -> BTreeMap<i64, Vec<(u64, BlockRef)>> {
        let mut blocks = self.inner.read().written.clone();
        blocks.retain(|_, written| {
            written.retain(|(sequence, _)| *sequence < before);
            !written.is_empty()
        });
        blocks
    }

    /// Rows between two bounds whose sequence number is below `before`: the first `limit` of them, or, in reverse,
    /// the last, counted from the end.
    pub(crate) fn rows(
        &self,
        bounds: (Bound<Place>, Bound<Place>),
        before: u64,
        reverse: bool,
        limit: usize,
    ) -> Vec<HeadRow> {
        if is_empty(bounds) {
            return Vec::new();
        }
        let inner = self.inner.read();
        let range = inner
            .index
            .range(bounds)
            .filter(|((_, sequence), _)| *sequence < before);
        let row = |(&(time, sequence), &(block, row)): (&(i64, u64), &(u32, u32))| {
            let block = inner.blocks[block as usize].clone();
            HeadRow {
                time,
                sequence,
                block,
                row: row as usize,
            }
        };
        if reverse {
            range.rev().take(limit).map(row).collect()
        } else {
            range.take(limit).map(row).collect()
        }
    }

    /// How many rows between two bounds have a sequence number below `before`.
    pub(crate) fn count(&self, bounds: (Bound<Place>, Bound<Place>), before: u64) -> u64 {
        if is_empty(bounds) {
            return 0;
        }
        let inner = self.inner.read();
        let range = inner.index.range(bounds);
        range.filter(|((_, sequence), _)| *sequence < before).count() as u64
    }

    /// All rows, to be flushed; the head is sealed.
    pub(crate) fn in_order(&self) -> RowsInOrder {
        let inner = self.inner.read();
        RowsInOrder {
            blocks: inner.blocks.clone(),
            order: inner.index.values().copied().collect(),
        }
    }

    /// The rows whose sequence number is below `before`, in the order in which they arrived.
    pub(crate) fn arrived(&self, before: u64) -> Vec<Arc<RowBlock>> {
        let inner = self.inner.read();
        let is_visible = |block: &&Arc<RowBlock>| block.first_sequence < before;
        inner.blocks.iter().filter(is_visible).cloned().collect()
    }

    /// How many rows there are, deleted ones included.
    pub(crate) fn len(&self) -> usize {
        self.inner.read().index.len()
    }
}

/// Whether nothing lies between the bounds; the standard library's map panics when asked for such a range.
fn is_empty((from, to): (Bound<Place>, Bound<Place>)) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
        _ => false,
    }
}
