//! A handle's memory of the right edge, so that ascending input needs no descent.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use bedload_pages::PageId;

/// The leaf that was last seen to be the rightmost, in one life of its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EdgeLeaf {
    pub(super) page: PageId,
    pub(super) generation: u64,
}

/// The remembered rightmost leaf. A hint: its user checks the page's generation, that it is still a
/// linked leaf, that it has no high fence, and that it begins below the target.
#[derive(Debug)]
pub(super) struct RightEdge {
    /// Nothing with a smaller prefix belongs to the leaf: random input does not come as far as the
    /// mutex.
    low_prefix: AtomicU64,
    leaf: Mutex<Option<EdgeLeaf>>,
}

impl Default for RightEdge {
    fn default() -> Self {
        Self {
            low_prefix: AtomicU64::new(u64::MAX),
            leaf: Mutex::new(None),
        }
    }
}

impl RightEdge {
    /// The leaf to try for a point with the given prefix.
    pub(super) fn leaf_for(&self, prefix: u64) -> Option<EdgeLeaf> {
        if prefix < self.low_prefix.load(Ordering::Relaxed) {
            return None;
        }
        *self.leaf.lock()
    }

    /// Remembers a leaf whose first entry has the prefix `low_prefix`.
    pub(super) fn remember(&self, page: PageId, generation: u64, low_prefix: u64) {
        *self.leaf.lock() = Some(EdgeLeaf { page, generation });
        self.low_prefix.store(low_prefix, Ordering::Relaxed);
    }

    /// Forgets `leaf`, which turned out to be stale.
    pub(super) fn forget(&self, leaf: EdgeLeaf) {
        let mut remembered = self.leaf.lock();
        if *remembered == Some(leaf) {
            *remembered = None;
            self.low_prefix.store(u64::MAX, Ordering::Relaxed);
        }
    }
}
