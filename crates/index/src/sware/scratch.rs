//! What merging uses again and again: room to sort and to join, and leaves.

use super::join::Joining;
use super::leaf::Leaf;
use super::leaf_pages::PagePool;
use super::search::Columns;
use super::stage::Run;
use super::window::Packed;

/// Room to sort and to join, and leaves for the next use.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) spare: SpareLeaves,
    pub(super) joining: Joining,
    pub(super) run: Run,
    pub(super) routes: Vec<Route>,
    pub(super) packed: Packed,
}

/// Leaves of one tree that are not in use, and where others come from.
#[derive(Debug)]
pub(super) struct SpareLeaves {
    kept: Vec<Leaf>,
    pool: PagePool,
}

/// To which leaf an entry of a run goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    pub(super) entry: usize,
    pub(super) at: usize,
    pub(super) place: usize,
}

impl Scratch {
    pub(super) const fn new() -> Self {
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
    pub(super) fn bytes(&self) -> usize {
        self.spare.kept.capacity() * size_of::<Leaf>() + self.spare.pool.bytes() + self.run.bytes()
    }
}

impl SpareLeaves {
    /// An empty leaf.
    pub(super) fn leaf(&mut self) -> Leaf {
        match self.kept.pop() {
            None => Leaf::new(self.pool.take()),
            Some(mut leaf) => {
                leaf.truncate(0);
                leaf
            }
        }
    }

    /// A leaf of these entries.
    pub(super) fn leaf_of(&mut self, entries: Columns<'_>) -> Leaf {
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
    pub(super) fn leaf_to_fill(&mut self) -> Leaf {
        match self.kept.pop() {
            None => Leaf::new(self.pool.take()),
            Some(mut leaf) => {
                leaf.begin_filling();
                leaf
            }
        }
    }

    /// Takes back a leaf of this tree.
    pub(super) fn keep(&mut self, leaf: Leaf) {
        self.kept.push(leaf);
    }
}
