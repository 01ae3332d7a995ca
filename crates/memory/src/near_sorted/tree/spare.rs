//! Unused leaves, kept for reuse.

use super::leaf::Leaf;
use super::leaf_pages::PagePool;
use crate::search::keys::EntryColumns;

/// Unused leaves of one tree, and the pool that makes new ones.
#[derive(Debug)]
pub(crate) struct SpareLeaves {
    kept: Vec<Leaf>,
    pool: PagePool,
}

impl SpareLeaves {
    pub(crate) const fn new() -> Self {
        Self {
            kept: Vec::new(),
            pool: PagePool::new(),
        }
    }

    /// Returns the bytes used on the heap, including the pages of all leaves of the tree.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.capacity() * size_of::<Leaf>() + self.pool.bytes()
    }

    /// Returns an empty leaf.
    pub(crate) fn leaf(&mut self) -> Leaf {
        match self.kept.pop() {
            None => Leaf::new(self.pool.take()),
            Some(mut leaf) => {
                leaf.truncate(0);
                leaf
            }
        }
    }

    /// Returns a leaf with these entries.
    pub(crate) fn leaf_of(&mut self, entries: EntryColumns<'_>) -> Leaf {
        match self.kept.pop() {
            None => Leaf::of(self.pool.take_filled(entries), entries.0.len()),
            Some(mut leaf) => {
                leaf.begin_filling();
                leaf.fill_up(entries, entries.0.len());
                leaf.end_filling();
                leaf
            }
        }
    }

    /// Returns a leaf that is to be filled.
    pub(crate) fn leaf_to_fill(&mut self) -> Leaf {
        match self.kept.pop() {
            None => Leaf::new(self.pool.take()),
            Some(mut leaf) => {
                leaf.begin_filling();
                leaf
            }
        }
    }

    /// Takes back a leaf of this tree.
    pub(crate) fn keep(&mut self, leaf: Leaf) {
        self.kept.push(leaf);
    }
}
