//! Items of a node: entries given by a caller, pivots, and entries staged in order.

use std::ops::Range;

use super::shape::Shape;
use crate::entry::{Entry, Row, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::Point;
use bedload_pages::PageId;

/// An entry on its way into a node.
pub(super) trait Item {
    fn prefix(&self) -> u64;

    fn tie(&self) -> u64;

    /// The fixed columns, end to end.
    fn fixed(&self) -> &[u8];

    /// The bytes behind the slot of the given slot column: the key's, if keys are kept, then those
    /// of the variable columns.
    fn string(&self, column: usize) -> &[u8];

    /// Bytes outside the columns.
    fn heap_len<L: RowLayout>(&self, shape: &Shape<L>) -> usize {
        (0..shape.slot_columns())
            .map(|column| self.string(column).len())
            .sum()
    }
}

/// An entry that somebody else owns.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryItem<'a> {
    point: Point<'a>,
    row: Row<'a>,
    keeps_key: bool,
}

impl<'a> EntryItem<'a> {
    pub(super) fn new(order: &impl KeyOrder, entry: Entry<'a>) -> Self {
        Self {
            point: Point {
                prefix: order.prefix(entry.key),
                tie: entry.tie,
                key: entry.key,
            },
            row: entry.row,
            keeps_key: !order.prefix_is_exact(),
        }
    }

    /// A pivot: everything from `point` on is below the child whose page id `child` holds.
    pub(super) fn pivot(order: &impl KeyOrder, point: Point<'a>, child: &'a [u8; 4]) -> Self {
        Self {
            point,
            row: Row {
                fixed: child,
                variable: &[],
            },
            keeps_key: !order.prefix_is_exact(),
        }
    }

    pub(super) fn point(&self) -> Point<'a> {
        self.point
    }
}

impl Item for EntryItem<'_> {
    fn prefix(&self) -> u64 {
        self.point.prefix
    }

    fn tie(&self) -> u64 {
        self.point.tie
    }

    fn fixed(&self) -> &[u8] {
        self.row.fixed
    }

    fn string(&self, column: usize) -> &[u8] {
        match (self.keeps_key, column) {
            (true, 0) => self.point.key,
            (true, _) => self.row.variable[column - 1],
            (false, _) => self.row.variable[column],
        }
    }
}

/// The bytes in which a branch keeps a child.
pub(super) fn child_bytes(child: PageId) -> [u8; 4] {
    child.get().to_le_bytes()
}

/// Entries in ascending order, copied out of a source that lends them one at a time.
#[derive(Debug, Default)]
pub(super) struct Staging {
    prefixes: Vec<u64>,
    ties: Vec<u64>,
    fixed: Vec<u8>,
    fixed_len: usize,
    /// Where each string ends in `heap`, entry by entry.
    string_ends: Vec<usize>,
    strings_each: usize,
    heap: Vec<u8>,
}

impl Staging {
    pub(super) fn new<L: RowLayout>(shape: &Shape<L>) -> Self {
        Self {
            fixed_len: shape.layout.fixed_len(),
            strings_each: shape.slot_columns(),
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.prefixes.len()
    }

    pub(super) fn push(&mut self, item: &impl Item) {
        self.prefixes.push(item.prefix());
        self.ties.push(item.tie());
        self.fixed.extend_from_slice(item.fixed());
        for column in 0..self.strings_each {
            self.heap.extend_from_slice(item.string(column));
            self.string_ends.push(self.heap.len());
        }
    }

    /// Bytes that the entries from `start` on take in leaves.
    pub(super) fn bytes_from<L: RowLayout>(&self, start: usize, shape: &Shape<L>) -> usize {
        (self.len() - start) * shape.entry_len + self.heap.len() - self.heap_len_before(start)
    }

    /// How many of the entries of `range` fill a node to no more than `percent`; at least one.
    pub(super) fn len_within<L: RowLayout>(
        &self,
        range: Range<usize>,
        shape: &Shape<L>,
        percent: u8,
    ) -> usize {
        let before = self.heap_len_before(range.start);
        let most = range.len().min(shape.max_entries);
        (2..=most)
            .find(|&len| {
                let heap_len = self.heap_len_before(range.start + len) - before;
                !shape.fits_within(len, heap_len, percent)
            })
            .map_or(most, |len| len - 1)
            .max(1)
    }

    /// The first entry from `start` on for which `is_below` does not hold; it holds for all before
    /// it.
    pub(super) fn rank(&self, start: usize, is_below: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (start, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if is_below(middle) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }

    /// Forgets the first `count` entries.
    pub(super) fn drop_front(&mut self, count: usize) {
        self.prefixes.drain(..count);
        self.ties.drain(..count);
        self.fixed.drain(..count * self.fixed_len);
        let heap_len = self.heap_len_before(count);
        self.heap.drain(..heap_len);
        self.string_ends.drain(..count * self.strings_each);
        for end in &mut self.string_ends {
            *end -= heap_len;
        }
    }

    /// Bytes outside the columns of the first `count` entries: where their strings end.
    pub(super) fn heap_len_before(&self, count: usize) -> usize {
        match count * self.strings_each {
            0 => 0,
            strings => self.string_ends[strings - 1],
        }
    }

    pub(super) fn prefixes(&self, range: Range<usize>) -> &[u64] {
        &self.prefixes[range]
    }

    pub(super) fn ties(&self, range: Range<usize>) -> &[u64] {
        &self.ties[range]
    }

    /// The fixed columns of entries, row by row.
    pub(super) fn rows(&self, range: Range<usize>) -> &[u8] {
        &self.fixed[range.start * self.fixed_len..range.end * self.fixed_len]
    }

    pub(super) fn item(&self, index: usize) -> StagedItem<'_> {
        StagedItem { staging: self, index }
    }

    /// The point of an entry; `keys` tells whether key bytes are kept.
    pub(super) fn point(&self, index: usize, keys: bool) -> Point<'_> {
        let item = self.item(index);
        Point {
            prefix: item.prefix(),
            tie: item.tie(),
            key: if keys { item.string_of_staging(0) } else { &[] },
        }
    }

    /// Bytes outside the columns of one entry.
    pub(super) fn heap_len_of(&self, index: usize) -> usize {
        self.heap_len_before(index + 1) - self.heap_len_before(index)
    }
}

/// An entry of a [`Staging`].
#[derive(Debug, Clone, Copy)]
pub(super) struct StagedItem<'a> {
    staging: &'a Staging,
    index: usize,
}

impl<'a> StagedItem<'a> {
    fn string_of_staging(&self, column: usize) -> &'a [u8] {
        let string = self.index * self.staging.strings_each + column;
        let start = match string {
            0 => 0,
            _ => self.staging.string_ends[string - 1],
        };
        &self.staging.heap[start..self.staging.string_ends[string]]
    }
}

impl Item for StagedItem<'_> {
    fn prefix(&self) -> u64 {
        self.staging.prefixes[self.index]
    }

    fn tie(&self) -> u64 {
        self.staging.ties[self.index]
    }

    fn fixed(&self) -> &[u8] {
        let len = self.staging.fixed_len;
        &self.staging.fixed[self.index * len..(self.index + 1) * len]
    }

    fn string(&self, column: usize) -> &[u8] {
        self.string_of_staging(column)
    }
}
