//! Entries and stretches of leaves as readers see them.

use std::ops::Range;

use super::node::Node;
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use bedload_pages::Result;

/// The columns of one row, owned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnedRow {
    /// Fixed columns in order, without gaps.
    pub fixed: Vec<u8>,
    /// Variable columns in order.
    pub variable: Vec<Vec<u8>>,
}

/// One entry, owned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnedEntry {
    /// The key.
    pub key: Vec<u8>,
    /// Tells entries of equal keys apart.
    pub tie: u64,
    /// The columns.
    pub row: OwnedRow,
}

/// One entry, seen in its leaf or in a copy of it.
pub struct EntryRef<'c, O, L> {
    order: &'c O,
    node: Node<'c, L>,
    index: usize,
}

impl<O, L> Clone for EntryRef<'_, O, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O, L> Copy for EntryRef<'_, O, L> {}

impl<'c, O: KeyOrder, L: RowLayout> EntryRef<'c, O, L> {
    /// The entry, if its bytes lie within the page.
    pub(super) fn new(order: &'c O, node: Node<'c, L>, index: usize) -> Result<Self> {
        node.check_slots(index..index + 1)?;
        Ok(Self { order, node, index })
    }

    /// The prefix of the key.
    #[must_use]
    pub fn prefix(&self) -> u64 {
        self.node.prefix(self.index)
    }

    /// The tie.
    #[must_use]
    pub fn tie(&self) -> u64 {
        self.node.tie(self.index)
    }

    /// The key. Where pages keep no key bytes because the prefix is exact, it is made in `scratch`.
    pub fn key<'s>(&'s self, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        key_at(self.order, &self.node, self.index, scratch)
    }

    /// A fixed column.
    ///
    /// # Panics
    ///
    /// If the layout has no such column.
    #[must_use]
    pub fn fixed(&self, column: usize) -> &'c [u8] {
        self.node.fixed(column, self.index..self.index + 1)
    }

    /// A variable column, the first of them being 0.
    ///
    /// # Panics
    ///
    /// If the layout has no such column.
    #[must_use]
    pub fn variable(&self, column: usize) -> &'c [u8] {
        variable_at(&self.node, column, self.index)
    }

    /// The columns, copied.
    #[must_use]
    pub fn to_owned_row(&self) -> OwnedRow {
        let layout = &self.node.shape().layout;
        let mut fixed = Vec::with_capacity(layout.fixed_len());
        for column in 0..layout.fixed_widths().len() {
            fixed.extend_from_slice(self.fixed(column));
        }
        OwnedRow {
            fixed,
            variable: (0..layout.variable_columns())
                .map(|column| self.variable(column).to_vec())
                .collect(),
        }
    }

    /// The entry, copied.
    #[must_use]
    pub fn to_owned_entry(&self) -> OwnedEntry {
        let mut scratch = Vec::new();
        OwnedEntry {
            key: self.key(&mut scratch).to_vec(),
            tie: self.tie(),
            row: self.to_owned_row(),
        }
    }
}

/// Consecutive entries of one leaf, copied out of it, column by column.
pub struct LeafSlice<'c, O, L> {
    order: &'c O,
    node: Node<'c, L>,
    range: Range<usize>,
}

impl<'c, O: KeyOrder, L: RowLayout> LeafSlice<'c, O, L> {
    /// The entries of `range`, whose slots were checked.
    pub(super) fn new(order: &'c O, node: Node<'c, L>, range: Range<usize>) -> Self {
        Self { order, node, range }
    }

    /// The number of entries. A cursor hands out no slice without any.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    fn at(&self, index: usize) -> usize {
        assert!(index < self.len(), "entry {index} of {}", self.len());
        self.range.start + index
    }

    /// The prefix of a key.
    ///
    /// # Panics
    ///
    /// If there is no entry `index`; so with the methods that follow.
    #[must_use]
    pub fn prefix(&self, index: usize) -> u64 {
        self.node.prefix(self.at(index))
    }

    /// The prefixes of all keys, each as a little-endian number.
    #[must_use]
    pub fn prefixes(&self) -> &'c [[u8; 8]] {
        &self.node.prefixes()[self.range.clone()]
    }

    /// The tie of an entry.
    #[must_use]
    pub fn tie(&self, index: usize) -> u64 {
        self.node.tie(self.at(index))
    }

    /// The ties of all entries, each as a little-endian number; empty if the tree keeps none.
    #[must_use]
    pub fn ties(&self) -> &'c [[u8; 8]] {
        self.node.ties(self.range.clone())
    }

    /// The key of an entry. Where pages keep no key bytes because the prefix is exact, it is made
    /// in `scratch`.
    pub fn key<'s>(&'s self, index: usize, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        key_at(self.order, &self.node, self.at(index), scratch)
    }

    /// A fixed column of all entries: [`len`](Self::len) cells of the column's width, without gaps.
    ///
    /// # Panics
    ///
    /// If the layout has no such column.
    #[must_use]
    pub fn fixed_column(&self, column: usize) -> &'c [u8] {
        self.node.fixed(column, self.range.clone())
    }

    /// A variable column of an entry, the first of them being 0.
    ///
    /// # Panics
    ///
    /// If there is no such entry, or the layout has no such column.
    #[must_use]
    pub fn variable(&self, column: usize, index: usize) -> &'c [u8] {
        variable_at(&self.node, column, self.at(index))
    }

    /// One of the entries.
    #[must_use]
    pub fn entry(&self, index: usize) -> EntryRef<'c, O, L> {
        EntryRef {
            order: self.order,
            node: self.node,
            index: self.at(index),
        }
    }
}

fn key_at<'s, O: KeyOrder, L: RowLayout>(
    order: &O,
    node: &Node<'s, L>,
    index: usize,
    scratch: &'s mut Vec<u8>,
) -> &'s [u8] {
    if order.prefix_is_exact() {
        order.key_of_prefix(node.prefix(index), scratch);
        scratch
    } else {
        node.slot_bytes(0, index).unwrap_or_default()
    }
}

fn variable_at<'c, L: RowLayout>(node: &Node<'c, L>, column: usize, index: usize) -> &'c [u8] {
    assert!(
        column < node.shape().layout.variable_columns(),
        "the layout has no variable column {column}"
    );
    node.slot_bytes(node.key_slots() + column, index)
        .unwrap_or_default()
}
