//! Settings of the trees in memory.

use crate::search::keys::FINGERPRINTS;

/// Entries that a leaf has room for.
pub(super) const LEAF_ENTRIES: usize = 256;

/// Leaves that a branch has room for.
pub(super) const BRANCH_LEAVES: usize = 64;

/// Entries that a stage has room for. A scan looks through all their keys, and they fit the nearest caches.
pub(super) const STAGE_ENTRIES: usize = 1024;

/// Late entries that the tail of nearly sorted keys has room for before they are sorted, at most.
pub(super) const LATE_ENTRIES: usize = 32 * 1024;

/// Entries that the tail of nearly sorted keys keeps when leaves are packed, at most.
pub(super) const TAIL_ENTRIES: usize = 64 * 1024;

/// Late entries that a leaf is joined with as they are, and places there are for them to wait.
pub(super) const LEAF_WAITING: usize = FINGERPRINTS;

/// Entries that may wait to be merged into a leaf. When another one comes all of them are joined with the leaf.
const MOST_WAITING: usize = LEAF_WAITING - 1;

/// Settings of a tree in memory. The defaults are right for all but measurements and tests.
///
/// ```
/// use bedload_memory::near_sorted::{PackedTree, TreeOptions};
///
/// let mut tree = PackedTree::with_options(TreeOptions::new().split_percent(80));
/// tree.insert(1, 10);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeOptions {
    pub(super) leaf_entries: usize,
    pub(super) branch_leaves: usize,
    pub(super) pending_entries: usize,
    pub(super) staged_entries: usize,
    pub(super) fill_percent: usize,
    pub(super) split_percent: usize,
    pub(super) tail_leaf: bool,
}

impl TreeOptions {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            leaf_entries: LEAF_ENTRIES,
            branch_leaves: BRANCH_LEAVES,
            pending_entries: MOST_WAITING,
            staged_entries: STAGE_ENTRIES,
            fill_percent: 95,
            split_percent: 50,
            tail_leaf: true,
        }
    }

    /// Entries that a leaf may hold, 4 to 256. Default: 256.
    #[must_use]
    pub fn leaf_entries(self, entries: usize) -> Self {
        Self {
            leaf_entries: entries.clamp(4, LEAF_ENTRIES),
            ..self
        }
    }

    /// Leaves that a branch may hold, 4 to 64. Default: 64.
    #[must_use]
    pub fn branch_leaves(self, leaves: usize) -> Self {
        Self {
            branch_leaves: leaves.clamp(4, BRANCH_LEAVES),
            ..self
        }
    }

    /// Late entries that may wait to be merged into a leaf, 1 to 31. Default: 31. A plain [`PackedTree`](super::PackedTree)
    /// has none.
    #[must_use]
    pub fn pending_entries(self, entries: usize) -> Self {
        Self {
            pending_entries: entries.clamp(1, MOST_WAITING),
            ..self
        }
    }

    /// Entries that are gathered before they go to the branches in which they wait, 1 to 1,024. Default: 1,024.
    #[must_use]
    pub fn staged_entries(self, entries: usize) -> Self {
        Self {
            staged_entries: entries.clamp(1, STAGE_ENTRIES),
            ..self
        }
    }

    /// How full leaves are made that are written in order, in percent, 50 to 100. Default: 95.
    #[must_use]
    pub fn fill_percent(self, percent: usize) -> Self {
        Self {
            fill_percent: percent.clamp(50, 100),
            ..self
        }
    }

    /// What stays in the left half when a full node is split, in percent, 10 to 90. Default: 50; for keys that arrive
    /// nearly in order 80 is better.
    #[must_use]
    pub fn split_percent(self, percent: usize) -> Self {
        Self {
            split_percent: percent.clamp(10, 90),
            ..self
        }
    }

    /// Whether a plain tree goes straight to the last leaf with what belongs there. Default: yes.
    #[must_use]
    pub fn tail_leaf(self, yes: bool) -> Self {
        Self {
            tail_leaf: yes,
            ..self
        }
    }

    pub(super) fn filled_leaf(&self) -> usize {
        (self.leaf_entries * self.fill_percent / 100).max(1)
    }
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self::new()
    }
}
