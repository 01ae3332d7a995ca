//! Inner nodes: separators, and the children between them.

#![expect(
    unsafe_code,
    reason = "declares the layout that lets a header stand for its node"
)]

use crossbeam_epoch::Guard;

use super::aim::Aim;
use super::node::{Header, Kind, Node, NodePtr};
use crate::search::columns::Words;
use crate::sync::primitive::{AtomicPtr, Ordering};
use crate::sync::version_latch::Writer;

/// Capacity in separators. Small under test, so that trees of a few hundred keys have several
/// levels.
pub(crate) const INNER_CAP: usize = if cfg!(any(test, miri, loom)) { 8 } else { 64 };

/// Child `i` covers the keys from separator `i - 1` up to, not including, separator `i`; the ends
/// are the node's fences. A separator is exactly the low fence of the child to its right.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Inner<W: Words> {
    header: Header<W>,
    separators: W::KeyColumns<INNER_CAP>,
    first_child: AtomicPtr<Header<W>>,
    /// The child to the right of each separator.
    children: [AtomicPtr<Header<W>>; INNER_CAP],
}

// SAFETY: `repr(C)`, the header comes first, and the kind is this type's alone.
unsafe impl<W: Words> Node<W> for Inner<W> {
    const KIND: Kind = Kind::Inner;
}

impl<W: Words> Inner<W> {
    /// Creates a node with one separator.
    pub(crate) fn new(level: u8, left: NodePtr<'_, W>, separator: W, right: NodePtr<'_, W>) -> Box<Self> {
        let node = Self::with_first_child(level, left.as_raw());
        node.store(0, separator, right);
        node.header.set_len(1, Writer::UNPUBLISHED);
        node
    }

    fn with_first_child(level: u8, first_child: *mut Header<W>) -> Box<Self> {
        Box::new(Self {
            header: Header::new::<Self>(level),
            separators: W::new_columns(),
            first_child: AtomicPtr::new(first_child),
            children: std::array::from_fn(|_| AtomicPtr::default()),
        })
    }

    pub(crate) fn header(&self) -> &Header<W> {
        &self.header
    }

    fn len(&self) -> usize {
        self.header.len().min(INNER_CAP)
    }

    /// Returns the position of the child that `aim` leads to: the number of separators to its left.
    pub(crate) fn place(&self, aim: &Aim<W>) -> usize {
        match aim {
            Aim::At(key) => {
                let (below, is_there) = key.search(&self.separators, self.len());
                below + usize::from(is_there)
            }
            Aim::Below(key) => key.search(&self.separators, self.len()).0,
            Aim::Last => self.len(),
        }
    }

    pub(crate) fn separator(&self, index: usize) -> W {
        W::load(&self.separators, index)
    }

    /// Returns the child at `place`, with the separator to its left. `None` only if the node is
    /// being changed.
    pub(crate) fn child<'g>(&self, place: usize, _guard: &'g Guard) -> Option<(Option<W>, NodePtr<'g, W>)> {
        let (low, child) = match place.checked_sub(1) {
            None => (None, &self.first_child),
            Some(index) => (Some(self.separator(index)), self.children.get(index)?),
        };
        Some((low, NodePtr::from_raw(child.load(Ordering::Acquire))?))
    }

    fn store(&self, index: usize, separator: W, child: NodePtr<'_, W>) {
        separator.store(&self.separators, index);
        self.children[index].store(child.as_raw(), Ordering::Release);
    }

    fn copy(&self, from: usize, target: &Self, to: usize) {
        self.separator(from).store(&target.separators, to);
        target.children[to].store(self.children[from].load(Ordering::Relaxed), Ordering::Release);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == INNER_CAP
    }

    /// Adds a separator and the child to its right. The node is not full.
    pub(crate) fn insert(&self, separator: W, child: NodePtr<'_, W>, writer: Writer<'_>) {
        let len = self.len();
        let (place, _) = separator.search(&self.separators, len);
        for index in (place..len).rev() {
            self.copy(index, self, index + 1);
        }
        self.store(place, separator, child);
        self.header.set_len(len + 1, writer);
    }

    /// Splits a full node to make room for `separator`: returns the fence between the halves and
    /// the right half, which is linked already and becomes part of the tree when this node's latch
    /// is released.
    pub(crate) fn split<'g>(
        &self,
        separator: W,
        writer: Writer<'_>,
        guard: &'g Guard,
    ) -> (W, NodePtr<'g, W>) {
        let len = self.len();
        let (place, _) = separator.search(&self.separators, len);
        let is_appending = self.header.is_rightmost() && place == len;
        let middle = if is_appending { len - 1 - len / 16 } else { len / 2 };
        let fence = self.separator(middle);
        let right =
            Self::with_first_child(self.header.level(), self.children[middle].load(Ordering::Relaxed));
        for index in middle + 1..len {
            self.copy(index, &right, index - middle - 1);
        }
        right.header.set_len(len - middle - 1, Writer::UNPUBLISHED);
        right
            .header
            .set_right(self.header.right(guard), Writer::UNPUBLISHED);
        let right = NodePtr::new(right);
        self.header.set_right(Some((fence, right)), writer);
        self.header.set_len(middle, writer);
        (fence, right)
    }

    /// Replaces a child by a node that covers the same keys.
    pub(crate) fn replace_child(&self, place: usize, child: NodePtr<'_, W>, _writer: Writer<'_>) {
        let cell = match place.checked_sub(1) {
            None => &self.first_child,
            Some(index) => &self.children[index],
        };
        cell.store(child.as_raw(), Ordering::Release);
    }

    /// Removes the separator at `index` and the child to its right.
    pub(crate) fn remove(&self, index: usize, writer: Writer<'_>) {
        let len = self.len();
        for index in index + 1..len {
            self.copy(index, self, index - 1);
        }
        self.header.set_len(len - 1, writer);
    }

    /// Returns whether this node and its right sibling would together be at most three quarters
    /// full; if one has no separator, whether they fit at all.
    pub(crate) fn can_absorb(&self, right: &Self) -> bool {
        let (left, right) = (self.len(), right.len());
        let limit = if left == 0 || right == 0 {
            INNER_CAP
        } else {
            INNER_CAP / 4 * 3
        };
        left + 1 + right <= limit
    }

    /// Moves the contents of the right sibling into this node. Both are latched.
    pub(crate) fn absorb(&self, right: &Self, fence: W, writer: Writer<'_>, guard: &Guard) {
        let len = self.len();
        if let Some((_, first_child)) = right.child(0, guard) {
            self.store(len, fence, first_child);
        }
        for index in 0..right.len() {
            right.copy(index, self, len + 1 + index);
        }
        self.header.set_right(right.header.right(guard), writer);
        self.header.set_len(len + 1 + right.len(), writer);
    }

    /// Returns whether the node is empty enough to attempt a merge.
    pub(crate) fn is_underfull(&self) -> bool {
        self.len() < INNER_CAP / 4
    }
}
