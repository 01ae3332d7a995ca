//! Rows of a tree's leaves, in the direction of the scan.

use std::ops::{Bound, Range};

use arrow_buffer::{BooleanBufferBuilder, MutableBuffer};
use bedload_trees::bplus_tree::{BPlusTree, Cursor, LeafSlice};
use bedload_trees::{Columns, I64Order, Position};

use crate::error::Result;
use crate::pages::PageVersion;
use crate::rows::{FixedColumn, Place, RowSource};

/// The leaves of a tree between two places.
pub(super) struct TreeRows<'t> {
    cursor: Cursor<'t, I64Order, Columns, &'t PageVersion>,
    reverse: bool,
}

impl<'t> TreeRows<'t> {
    pub(super) fn new(
        tree: &'t BPlusTree<I64Order, Columns, &'t PageVersion>,
        (from, to): (Bound<Place>, Bound<Place>),
        reverse: bool,
    ) -> Result<Self> {
        let keys = (
            from.map(|(time, _)| I64Order::key(time)),
            to.map(|(time, _)| I64Order::key(time)),
        );
        let from = position(from, &keys.0);
        let to = position(to, &keys.1);
        let cursor = if reverse {
            tree.range_back(from, to)?
        } else {
            tree.range(from, to)?
        };
        Ok(Self { cursor, reverse })
    }

    /// The rows of the next leaf, in the direction of the scan.
    pub(super) fn next_leaf(&mut self) -> Result<Option<LeafRows<'_>>> {
        let reverse = self.reverse;
        Ok(self.cursor.next_leaf()?.map(|slice| LeafRows { slice, reverse }))
    }
}

fn position(place: Bound<Place>, key: &Bound<[u8; 8]>) -> Bound<Position<'_>> {
    let tie = match place {
        Bound::Included((_, sequence)) | Bound::Excluded((_, sequence)) => sequence,
        Bound::Unbounded => 0,
    };
    key.as_ref().map(|key| Position { key, tie })
}

/// Rows of a leaf, numbered in the direction of the scan.
pub(super) struct LeafRows<'c> {
    slice: LeafSlice<'c, I64Order, Columns>,
    reverse: bool,
}

impl LeafRows<'_> {
    pub(super) fn len(&self) -> usize {
        self.slice.len()
    }

    pub(super) fn place(&self, row: usize) -> Place {
        let row = self.in_leaf(row);
        (I64Order::value_of(self.slice.prefix(row)), self.slice.tie(row))
    }

    /// The number of the first row from `at` on that the scan reaches after `place`.
    pub(super) fn end_before(&self, at: usize, place: Place) -> usize {
        let (mut low, mut high) = (at, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let before = if self.reverse {
                self.place(middle) > place
            } else {
                self.place(middle) < place
            };
            if before { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Rows of the leaf in its own order that are `rows` in the direction of the scan.
    fn range_in_leaf(&self, rows: Range<usize>) -> Range<usize> {
        if self.reverse {
            self.len() - rows.end..self.len() - rows.start
        } else {
            rows
        }
    }

    fn in_leaf(&self, row: usize) -> usize {
        if self.reverse { self.len() - 1 - row } else { row }
    }
}

impl RowSource for LeafRows<'_> {
    fn place(&self, row: usize) -> Place {
        LeafRows::place(self, row)
    }

    fn bits(&self, flags: FixedColumn, bit: usize, rows: Range<usize>, out: &mut BooleanBufferBuilder) {
        let range = self.range_in_leaf(rows);
        let bytes =
            &self.slice.fixed_column(flags.column)[range.start * flags.width..range.end * flags.width];
        let is_set = |flags: &[u8]| flags[bit / 8] >> (bit % 8) & 1 == 1;
        if self.reverse {
            bytes
                .rchunks_exact(flags.width)
                .for_each(|flags| out.append(is_set(flags)));
        } else {
            bytes
                .chunks_exact(flags.width)
                .for_each(|flags| out.append(is_set(flags)));
        }
    }

    fn fixed(&self, column: FixedColumn, rows: Range<usize>, out: &mut MutableBuffer) {
        let range = self.range_in_leaf(rows);
        let bytes =
            &self.slice.fixed_column(column.column)[range.start * column.width..range.end * column.width];
        if self.reverse {
            bytes
                .rchunks_exact(column.width)
                .for_each(|value| out.extend_from_slice(value));
        } else {
            out.extend_from_slice(bytes);
        }
    }

    fn variable(&self, column: usize, row: usize) -> &[u8] {
        self.slice.variable(column, self.in_leaf(row))
    }
}
