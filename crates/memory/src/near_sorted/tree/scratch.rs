//! What merging uses again and again: room to sort and to join, and leaves.

use super::leaf::Leaf;
use super::leaf_pages::PagePool;
use super::window::Packed;
use crate::near_sorted::join::scalar::Joining;
use crate::near_sorted::pending::stage::Run;
use crate::near_sorted::search::Columns;

/// Room to sort and to join, and leaves for the next use.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) spare: SpareLeaves,
    pub(crate) joining: Joining,
    pub(crate) run: Run,
    pub(crate) routes: Vec<Route>,
    pub(crate) packed: Packed,
}

/// Leaves of one tree that are not in use, and where others come from.
#[derive(Debug)]
pub(crate) struct SpareLeaves {
    kept: Vec<Leaf>,
    pool: PagePool,
}

/// To which leaf an entry of a run goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(crate) entry: usize,
    pub(crate) at: usize,
    pub(crate) place: usize,
}

impl Scratch {
    pub(crate) const fn new() -> Self {
        Self {
            spare: SpareLeaves {
                kept: Vec::new(),
                pool: PagePool::new(),
            },
            joining: Joining::new(),
            run: Run::new(),
            routes: Vec::new(),
            packed: Packed::new(),
        }
    }

    /// Bytes of the heap, with the pages of all leaves of the tree.
    pub(crate) fn bytes(&self) -> usize {
        self.spare.kept.capacity() * size_of::<Leaf>() + self.spare.pool.bytes() + self.run.bytes()
    }
}

impl SpareLeaves {
    /// An empty leaf.
    pub(crate) fn leaf(&mut self) -> Leaf {
        match self.kept.pop() {
            None => Leaf::new(self.pool.take()),
            Some(mut leaf) => {
                leaf.truncate(0);
                leaf
            }
        }
    }

    /// A leaf of these entries.
    pub(crate) fn leaf_of(&mut self, entries: Columns<'_>) -> Leaf {
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

    /// A leaf that is to be filled.
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
