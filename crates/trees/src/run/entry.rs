//! An entry of a run, as a reader sees it.

use std::cmp::Ordering;

use super::columns::RunColumns;
use super::shape::Shape;
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;

/// An entry of a run.
pub struct RunEntry<'c, O, L> {
    pub(super) order: &'c O,
    pub(super) shape: &'c Shape<L>,
    pub(super) columns: &'c RunColumns,
    pub(super) index: usize,
}

impl<'c, O: KeyOrder, L: RowLayout> RunEntry<'c, O, L> {
    /// The prefix of the key.
    #[must_use]
    pub fn prefix(&self) -> u64 {
        self.columns.prefix(self.index)
    }

    /// The tie.
    #[must_use]
    pub fn tie(&self) -> u64 {
        self.columns.tie(self.shape, self.index)
    }

    /// Whether it says that an older entry of its key and tie is gone.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.columns.numbers[self.shape.tombstones_at()][self.index] != 0
    }

    /// The key. Where pages keep no key bytes because the prefix is exact, it is made in `scratch`.
    pub fn key<'k>(&'k self, scratch: &'k mut Vec<u8>) -> &'k [u8] {
        if self.shape.keys {
            self.columns.string(self.shape, 0, self.index)
        } else {
            self.order.key_of_prefix(self.prefix(), scratch);
            scratch
        }
    }

    /// How the two stand to each other, by key and tie.
    pub(crate) fn compare<M: RowLayout>(&self, other: &RunEntry<'_, O, M>) -> Ordering {
        let keys = self.prefix().cmp(&other.prefix()).then_with(|| {
            if self.shape.keys {
                let (left, right) = (self.columns, other.columns);
                self.order.compare(
                    left.string(self.shape, 0, self.index),
                    right.string(other.shape, 0, other.index),
                )
            } else {
                Ordering::Equal
            }
        });
        keys.then_with(|| self.tie().cmp(&other.tie()))
    }

    /// The fixed columns, end to end, put into `out`.
    pub fn fixed_into(&self, out: &mut Vec<u8>) {
        out.clear();
        let mut narrow = self.columns.numbers[self.shape.narrow_at()..].iter();
        let mut wide = self.columns.wide.iter();
        for width in self
            .shape
            .layout
            .fixed_widths()
            .iter()
            .map(|&width| usize::from(width))
        {
            if width <= 8 {
                let number = narrow.next().map_or(0, |column| column[self.index]);
                out.extend_from_slice(&number.to_le_bytes()[..width]);
            } else if let Some(column) = wide.next() {
                out.extend_from_slice(&column[self.index * width..(self.index + 1) * width]);
            }
        }
    }

    /// A variable column, the first of them being 0.
    ///
    /// # Panics
    ///
    /// If the layout has no such column.
    #[must_use]
    pub fn variable(&self, column: usize) -> &'c [u8] {
        let keys = usize::from(self.shape.keys);
        self.columns.string(self.shape, keys + column, self.index)
    }
}
