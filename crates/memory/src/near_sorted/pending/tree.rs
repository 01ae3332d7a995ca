//! A tree of packed leaves with a layer of pending entries: lookups, removal of one entry.

use super::by_leaf::PendingByLeaf;
use super::scratch::Scratch;
use super::stage::Stage;
use crate::near_sorted::options::TreeOptions;
use crate::near_sorted::tree::layered_tree::LayeredTree;
use crate::search::dispatch::{LookingUp, look_up};
use crate::search::keys::{Compiled, NO_KEY, Vectors};

/// Packed leaves, pending entries in the branches, and a stage that gathers the newest late
/// entries.
#[derive(Debug)]
pub(crate) struct PendingTree {
    pub(crate) packed: LayeredTree<PendingByLeaf>,
    /// Late entries, newer than those pending in the branches.
    pub(crate) stage: Stage,
    pub(crate) scratch: Scratch,
}

impl PendingTree {
    /// Creates an empty tree with these settings.
    pub(crate) fn with_options(options: TreeOptions) -> Self {
        Self {
            packed: LayeredTree::new(options),
            stage: Stage::new(options.staged_entries),
            scratch: Scratch::new(),
        }
    }

    /// Returns the value of a key. Time O(log n).
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<u64> {
        if key == NO_KEY {
            return self.packed.greatest;
        }
        look_up(Get { tree: self, key }, self.packed.wide)
    }

    #[inline(always)]
    pub(crate) fn get_below_greatest(&self, key: u64, vectors: impl Vectors) -> Option<u64> {
        if self.stage.may_have(key) {
            return self.get_staged(key);
        }
        self.get_unstaged(key, vectors)
    }

    /// Looks up a key that the filter says may be staged.
    #[cold]
    #[inline(never)]
    fn get_staged(&self, key: u64) -> Option<u64> {
        let staged = self.stage.get(key);
        staged.or_else(|| self.get_unstaged(key, Compiled))
    }

    #[inline(always)]
    fn get_unstaged(&self, key: u64, vectors: impl Vectors) -> Option<u64> {
        let at = self.packed.index.find_with(key, vectors);
        self.packed.branches[at].get(key, vectors)
    }

    /// Removes a key; returns its value. Time O(log n), plus a merge if its leaf has pending
    /// entries.
    pub(crate) fn remove(&mut self, key: u64) -> Option<u64> {
        if key == NO_KEY {
            return self.packed.greatest.take();
        }
        let staged = self.stage.remove(key);
        staged.or(self.remove_from_branch(key))
    }

    fn remove_from_branch(&mut self, key: u64) -> Option<u64> {
        let (at, place) = self.packed.find(key);
        self.merge_place(at, place);
        let (at, place) = self.packed.find(key);
        let (stored, is_sparse) = self.packed.remove((at, place), key)?;
        if is_sparse && let Some(left) = self.packed.drop_or_pair(at, place) {
            self.merge_place(at, left);
            self.merge_place(at, left + 1);
            self.packed.join_pair(at, left);
        }
        Some(stored)
    }

    /// Returns the bytes used on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.packed.bytes() + self.stage.bytes() + self.scratch.bytes()
    }

    /// Checks the invariants. Time O(n).
    pub(crate) fn check(&self) -> Result<(), String> {
        self.stage.check(0, NO_KEY - 1)?;
        self.packed.check()
    }
}

struct Get<'t> {
    tree: &'t PendingTree,
    key: u64,
}

impl LookingUp for Get<'_> {
    #[inline(always)]
    fn run(self, vectors: impl Vectors) -> Option<u64> {
        self.tree.get_below_greatest(self.key, vectors)
    }
}
