//! Leaves whose entries ascend, with separate columns of keys and values.

#![expect(
    unsafe_code,
    reason = "declares the layout that lets a header stand for its node"
)]

use std::mem::offset_of;
use std::ops::{Bound, Range};

use crossbeam_epoch::Guard;

use super::node::{Header, Kind, Node, NodePtr};
use crate::map::key::Key;
use crate::map::output::Output;
use crate::search::columns::Words;
use crate::search::copy::{move_down, move_up};
use crate::sync::primitive::{AtomicU64, Ordering};
use crate::sync::version_latch::Writer;

/// Capacity in entries. Small under test, so that splits and merges are common.
pub(crate) const LEAF_CAP: usize = if cfg!(any(test, miri, loom)) { 8 } else { 64 };

/// See the [module](self).
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct SortedLeaf<W: Words> {
    header: Header<W>,
    keys: W::KeyColumns<LEAF_CAP>,
    values: [AtomicU64; LEAF_CAP],
}

// SAFETY: `repr(C)`, the header comes first, and the kind is this type's alone.
unsafe impl<W: Words> Node<W> for SortedLeaf<W> {
    const KIND: Kind = Kind::SortedLeaf;
}

impl<W: Words> SortedLeaf<W> {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            header: Header::new::<Self>(0),
            keys: W::new_columns(),
            values: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    /// Creates a leaf of these entries, which ascend; at most [`LEAF_CAP`].
    pub(crate) fn of(entries: &[(W, u64)]) -> Box<Self> {
        let leaf = Self::new();
        for (index, &(key, value)) in entries.iter().enumerate() {
            leaf.store(index, key, value);
        }
        leaf.header.set_len(entries.len(), Writer::UNPUBLISHED);
        leaf
    }

    pub(crate) fn header(&self) -> &Header<W> {
        &self.header
    }

    pub(crate) fn len(&self) -> usize {
        self.header.len().min(LEAF_CAP)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == LEAF_CAP
    }

    /// Returns how many entries lie below `key`, and whether the next one has it.
    #[inline]
    pub(crate) fn search(&self, key: &W) -> (usize, bool) {
        key.search(&self.keys, self.len())
    }

    /// Returns the positions of the entries between the bounds.
    pub(crate) fn places(&self, lower: Bound<W>, upper: Bound<W>) -> Range<usize> {
        let after = |(place, is_there): (usize, bool)| place + usize::from(is_there);
        let from = match lower {
            Bound::Included(key) => self.search(&key).0,
            Bound::Excluded(key) => after(self.search(&key)),
            Bound::Unbounded => 0,
        };
        let to = match upper {
            Bound::Included(key) => after(self.search(&key)),
            Bound::Excluded(key) => self.search(&key).0,
            Bound::Unbounded => self.len(),
        };
        from..to
    }

    pub(crate) fn key(&self, index: usize) -> W {
        W::load(&self.keys, index)
    }

    /// Returns the value at `index`; `None` only if the leaf is being changed.
    pub(crate) fn value(&self, index: usize) -> Option<u64> {
        Some(self.values.get(index)?.load(Ordering::Relaxed))
    }

    /// Returns the entries at these positions.
    pub(crate) fn entries(&self, places: Range<usize>) -> impl Iterator<Item = (W, u64)> {
        let places = places.start..places.end.min(LEAF_CAP);
        places.map(|index| (self.key(index), self.values[index].load(Ordering::Relaxed)))
    }

    /// Appends the entries at these positions to the output, as many as it has room for.
    #[inline]
    pub(crate) fn copy_to<K: Key<Words = W>>(&self, places: Range<usize>, output: &mut Output<'_, K>) {
        let from = places.start.min(LEAF_CAP);
        let count = places.end.min(LEAF_CAP).saturating_sub(from).min(output.room());
        output.copy(&self.keys, &self.values, from, count);
    }

    /// Prefetches the first `count` entries of a node that is probably a sorted leaf and has not
    /// been read yet.
    #[inline]
    pub(crate) fn prefetch_first(node: NodePtr<'_, W>, count: usize) {
        let bytes = count.min(LEAF_CAP) * size_of::<u64>();
        let values = offset_of!(Self, values);
        node.prefetch_bytes(0..offset_of!(Self, keys) + bytes);
        node.prefetch_bytes(values..values + bytes);
    }

    pub(crate) fn set_value(&self, index: usize, value: u64, _writer: Writer<'_>) {
        self.values[index].store(value, Ordering::Relaxed);
    }

    fn store(&self, index: usize, key: W, value: u64) {
        key.store(&self.keys, index);
        self.values[index].store(value, Ordering::Relaxed);
    }

    fn copy(&self, from: usize, target: &Self, to: usize) {
        target.store(to, self.key(from), self.values[from].load(Ordering::Relaxed));
    }

    /// Inserts an entry at `place`. The leaf is not full.
    pub(crate) fn insert(&self, place: usize, key: W, value: u64, writer: Writer<'_>) {
        let len = self.len();
        W::move_up(&self.keys, place, len);
        move_up(&self.values, place, len);
        self.store(place, key, value);
        self.header.set_len(len + 1, writer);
    }

    pub(crate) fn remove(&self, place: usize, writer: Writer<'_>) {
        let len = self.len();
        W::move_down(&self.keys, place, len);
        move_down(&self.values, place, len);
        self.header.set_len(len - 1, writer);
    }

    /// Splits a full leaf and inserts an entry at `place`: returns the fence between the halves and
    /// the right half, which is linked already and becomes part of the tree when this leaf's latch
    /// is released.
    ///
    /// A leaf that fills at the right end of the tree keeps nearly all its entries, because
    /// ascending keys will not return to it. One that fills at the left end keeps few, because the
    /// next descending keys come to it.
    pub(crate) fn split<'g>(
        &self,
        is_leftmost: bool,
        place: usize,
        key: W,
        value: u64,
        writer: Writer<'_>,
        guard: &'g Guard,
    ) -> (W, NodePtr<'g, W>) {
        let is_appending = self.header.is_rightmost() && place >= LEAF_CAP - LEAF_CAP / 8;
        let middle = if is_appending {
            LEAF_CAP - LEAF_CAP.div_ceil(16)
        } else if is_leftmost && place == 0 {
            LEAF_CAP.div_ceil(16)
        } else {
            LEAF_CAP / 2
        };
        let right = Self::new();
        for index in middle..LEAF_CAP {
            self.copy(index, &right, index - middle);
        }
        right.header.set_len(LEAF_CAP - middle, Writer::UNPUBLISHED);
        right
            .header
            .set_right(self.header.right(guard), Writer::UNPUBLISHED);
        if place >= middle {
            right.insert(place - middle, key, value, Writer::UNPUBLISHED);
        }
        let fence = right.key(0);
        let right = NodePtr::new(right);
        self.header.set_right(Some((fence, right)), writer);
        self.header.set_len(middle, writer);
        if place < middle {
            self.insert(place, key, value, writer);
        }
        (fence, right)
    }

    /// Returns whether this leaf and its right sibling would together be at most three quarters
    /// full, or one is empty.
    pub(crate) fn can_absorb(&self, right: &Self) -> bool {
        let (left, right) = (self.len(), right.len());
        left == 0 || right == 0 || left + right <= LEAF_CAP / 4 * 3
    }

    /// Moves the contents of the right sibling into this leaf. Both are latched.
    pub(crate) fn absorb(&self, right: &Self, writer: Writer<'_>, guard: &Guard) {
        let len = self.len();
        for index in 0..right.len() {
            right.copy(index, self, len + index);
        }
        self.header.set_right(right.header.right(guard), writer);
        self.header.set_len(len + right.len(), writer);
    }

    /// Returns whether the leaf is empty enough to attempt a merge. True only at some lengths, as a
    /// leaf between full ones would otherwise try at each removal.
    pub(crate) fn is_underfull(&self) -> bool {
        let len = self.len();
        len < LEAF_CAP / 4 && len.is_multiple_of(4)
    }
}
