//! Settings of the trees in memory.

use crate::search::keys::FINGERPRINTS;

/// Capacity of a leaf in entries.
pub(super) const LEAF_ENTRIES: usize = 256;

/// Capacity of a branch in leaves.
pub(super) const BRANCH_LEAVES: usize = 64;

/// Capacity of a stage in entries. A scan searches all their keys, and they fit the nearest caches.
pub(super) const STAGE_ENTRIES: usize = 1024;

/// Maximum number of late entries in the tail before they are sorted.
pub(super) const LATE_ENTRIES: usize = 32 * 1024;

/// Maximum number of entries that the tail keeps when leaves are packed.
pub(super) const TAIL_ENTRIES: usize = 64 * 1024;

/// Maximum number of late entries that a leaf is joined with unsorted, and slots for pending ones.
pub(super) const LEAF_WAITING: usize = FINGERPRINTS;

/// Maximum number of entries pending for a leaf. One more causes all of them to be merged.
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
    /// Returns the defaults.
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

    /// Sets the capacity of a leaf in entries, 4 to 256. Default: 256.
    #[must_use]
    pub fn leaf_entries(self, entries: usize) -> Self {
        Self {
            leaf_entries: entries.clamp(4, LEAF_ENTRIES),
            ..self
        }
    }

    /// Sets the capacity of a branch in leaves, 4 to 64. Default: 64.
    #[must_use]
    pub fn branch_leaves(self, leaves: usize) -> Self {
        Self {
            branch_leaves: leaves.clamp(4, BRANCH_LEAVES),
            ..self
        }
    }

    /// Sets how many late entries may be pending for a leaf, 1 to 31. Default: 31. A plain
    /// [`PackedTree`](super::PackedTree) has none.
    #[must_use]
    pub fn pending_entries(self, entries: usize) -> Self {
        Self {
            pending_entries: entries.clamp(1, MOST_WAITING),
            ..self
        }
    }

    /// Sets how many entries are staged before they move to the branches, 1 to 1,024. Default:
    /// 1,024.
    #[must_use]
    pub fn staged_entries(self, entries: usize) -> Self {
        Self {
            staged_entries: entries.clamp(1, STAGE_ENTRIES),
            ..self
        }
    }

    /// Sets the fill, in percent, of leaves that are written in order, 50 to 100. Default: 95.
    #[must_use]
    pub fn fill_percent(self, percent: usize) -> Self {
        Self {
            fill_percent: percent.clamp(50, 100),
            ..self
        }
    }

    /// Sets the share that stays in the left half when a full node is split, in percent, 10 to 90.
    /// Default: 50; 80 is better for keys that arrive nearly in order.
    #[must_use]
    pub fn split_percent(self, percent: usize) -> Self {
        Self {
            split_percent: percent.clamp(10, 90),
            ..self
        }
    }

    /// Sets whether a plain tree inserts keys of the last leaf without a descent. Default: yes.
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
