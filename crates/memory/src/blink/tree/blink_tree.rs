//! The tree, and the operations on one key.

use crossbeam_epoch::{self as epoch, Guard};

use crate::blink::aim::Aim;
use crate::blink::node::NodePtr;
use crate::blink::sorted_leaf::SortedLeaf;
use crate::blink::trunk::{FoundNode, Trunk, get_sorted};
use crate::map::key::Key;
use crate::map::memory_use::MemoryUse;
use crate::map::shared_map::shared_map;

/// A concurrent ordered map from fixed-size keys to 8-byte values.
///
/// Every operation takes `&self`. Lookups and scans write no shared memory; inserts and removals
/// latch one leaf, and occasionally a node above it. Lookups, inserts and removals take O(log n), a
/// range O(log n) to begin with and O(1) for each entry; an insert at either end takes O(1).
///
/// A panic in one thread cannot corrupt the tree; memory of merged nodes is reclaimed by epochs.
///
/// ```
/// use bedload_memory::BlinkTree;
///
/// let tree = BlinkTree::<u64>::new();
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         let tree = &tree;
///         scope.spawn(move || (0..1000).for_each(|n| tree.insert(4 * n + thread, n)));
///     }
/// });
/// assert_eq!(tree.get(2001), Some(500));
/// assert_eq!(tree.range(..).count(), 4000);
/// assert_eq!(tree.last(), Some((3999, 999)));
/// ```
pub struct BlinkTree<K: Key> {
    pub(super) trunk: Trunk<K::Words>,
}

impl<K: Key> BlinkTree<K> {
    /// Creates an empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self {
            trunk: Trunk::new(NodePtr::new(SortedLeaf::new())),
        }
    }

    /// Inserts `key`, or replaces its value.
    pub fn insert(&self, key: K, value: u64) {
        let key = key.to_words();
        let guard = &epoch::pin();
        loop {
            let found = self
                .rightmost_for(&key, guard)
                .or_else(|| self.leftmost_for(&key, guard))
                .or_else(|| self.leaf_of(key, guard));
            if let Some((found, leaf)) = found
                && self.trunk.insert_sorted(&found, leaf, key, value, guard)
            {
                return;
            }
        }
    }

    /// Returns the value of `key`.
    #[must_use]
    pub fn get(&self, key: K) -> Option<u64> {
        let key = key.to_words();
        let guard = &epoch::pin();
        loop {
            let found = self
                .rightmost_for(&key, guard)
                .or_else(|| self.leaf_of(key, guard));
            let Some((found, leaf)) = found else {
                continue;
            };
            if let Some(value) = get_sorted(&found, leaf, &key) {
                return value;
            }
        }
    }

    /// Returns whether `key` is present.
    #[must_use]
    pub fn contains_key(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// Removes `key` and returns the value it had.
    pub fn remove(&self, key: K) -> Option<u64> {
        let key = key.to_words();
        let guard = &epoch::pin();
        loop {
            let Some((found, leaf)) = self.leaf_of(key, guard) else {
                continue;
            };
            if let Some(removed) = self.trunk.remove_sorted(&found, leaf, key, guard) {
                return removed;
            }
        }
    }

    /// Returns the memory use by purpose; approximate during concurrent writes. Takes O(n).
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        self.trunk.memory_use(&epoch::pin(), |_, _| ())
    }

    /// Checks the tree's invariants: order, fences, links, reachability. Takes O(n). No other
    /// operation may be under way, or it may report errors in a sound tree.
    ///
    /// # Errors
    ///
    /// Returns the first violated invariant and its location.
    pub fn check_structure(&self) -> Result<(), String> {
        let guard = &epoch::pin();
        for leaf in self.trunk.check(guard)? {
            let at = || format!("leaf from {:?} to {:?}", leaf.low, leaf.high);
            let sorted = leaf.node.downcast::<SortedLeaf<K::Words>>();
            let sorted = sorted.ok_or_else(|| format!("{}: not a leaf", at()))?;
            let entries: Vec<_> = sorted.entries(0..sorted.len()).collect();
            if !entries.is_sorted_by(|a, b| a.0 < b.0) {
                return Err(format!("{}: keys do not ascend", at()));
            }
            let is_inside =
                |key| leaf.low.is_none_or(|low| low <= key) && leaf.high.is_none_or(|high| key < high);
            if !entries.iter().all(|entry| is_inside(entry.0)) {
                return Err(format!("{}: a key lies outside its fences", at()));
            }
        }
        Ok(())
    }

    fn leaf_of<'g>(&self, key: K::Words, guard: &'g Guard) -> Option<LeafFound<'g, K::Words>> {
        let found = self.trunk.find_leaf(&Aim::At(key), guard)?;
        let leaf = found.node.downcast()?;
        Some((found, leaf))
    }

    /// Returns a leaf, prefetched for reading many of its entries.
    pub(super) fn leaf_at<'g>(
        &self,
        aim: &Aim<K::Words>,
        guard: &'g Guard,
    ) -> Option<LeafFound<'g, K::Words>> {
        let found = self.trunk.find_leaf_to_scan(aim, guard)?;
        let leaf = found.node.downcast()?;
        Some((found, leaf))
    }

    /// Returns the left-most leaf, if the key belongs there and it is not the only one.
    fn leftmost_for<'g>(&self, key: &K::Words, guard: &'g Guard) -> Option<LeafFound<'g, K::Words>> {
        let found = self.trunk.leftmost_for(key, guard)?;
        let leaf = found.node.downcast()?;
        Some((found, leaf))
    }

    /// Returns the right-most leaf, if the key belongs there: its low fence is at most its first
    /// key.
    fn rightmost_for<'g>(&self, key: &K::Words, guard: &'g Guard) -> Option<LeafFound<'g, K::Words>> {
        let node = self.trunk.rightmost(guard)?;
        let leaf = node.downcast::<SortedLeaf<K::Words>>()?;
        let version = node.latch.optimistic()?;
        let covers = node.is_rightmost() && leaf.len() > 0 && leaf.key(0) <= *key;
        covers.then_some((
            FoundNode {
                node,
                version,
                low: None,
            },
            leaf,
        ))
    }
}

/// A leaf found by a descent.
type LeafFound<'g, W> = (FoundNode<'g, W>, &'g SortedLeaf<W>);

shared_map!(BlinkTree);
