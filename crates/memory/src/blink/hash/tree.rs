//! The index, and the operations on one key.

use std::collections::VecDeque;

use crossbeam_epoch::{self as epoch, Guard};
use parking_lot::Mutex;

use super::BlinkHashOptions;
use super::hash_leaf::{HashLeaf, Insert, Unsettled};
use super::settle::settle;
use super::spare_buckets::SpareBuckets;
use crate::blink::aim::Aim;
use crate::blink::node::NodePtr;
use crate::blink::sorted_leaf::SortedLeaf;
use crate::blink::trunk::{FoundNode, Trunk, get_sorted};
use crate::map::key::Key;
use crate::map::memory_use::MemoryUse;
use crate::map::shared_map::shared_map;
use crate::search::columns::Words;
use crate::sync::primitive::Backoff;

/// Conversions that a writer performs at a split, or at a look for emptied leaves: more than one,
/// so that a backlog shrinks.
const CONVERSIONS_AT_ONCE: usize = 2;

/// A concurrent ordered map from fixed-size keys to 8-byte values, for many threads that insert
/// ascending keys.
///
/// Where all writers of a B-link tree share one right-most leaf, this map has a hash leaf of 256
/// KiB, whose buckets are latched one by one: writers rarely meet. Scanned leaves are converted to
/// sorted ones. Inserts and lookups take O(log n), with fewer levels than a B-link tree; a range
/// takes O(log n) to begin with and O(1) for each entry in sorted leaves, while a hash leaf is
/// searched completely. Leaves that removals empty are given back, but for the right-most.
///
/// ```
/// use bedload_memory::BlinkHash;
///
/// let index = BlinkHash::<u64>::new();
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         let index = &index;
///         scope.spawn(move || (0..1000).for_each(|n| index.insert(4 * n + thread, n)));
///     }
/// });
/// assert_eq!(index.get(2001), Some(500));
/// assert_eq!(index.range(10..20).count(), 10);
/// assert_eq!(index.remove(2001), Some(500));
/// assert_eq!(index.last(), Some((3999, 999)));
/// ```
pub struct BlinkHash<K: Key> {
    pub(super) trunk: Trunk<K::Words>,
    pub(super) options: BlinkHashOptions,
    pub(super) spare: SpareBuckets<K::Words>,
    /// Low fences of leaves that a writer is to convert.
    to_convert: Mutex<VecDeque<Option<K::Words>>>,
}

impl<K: Key> BlinkHash<K> {
    /// Creates an empty index with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(BlinkHashOptions::new())
    }

    /// Creates an empty index.
    #[must_use]
    pub fn with_options(options: BlinkHashOptions) -> Self {
        Self {
            trunk: Trunk::new(NodePtr::new(HashLeaf::new(&options))),
            spare: SpareBuckets::new(&options),
            options,
            to_convert: Mutex::new(VecDeque::new()),
        }
    }

    /// Inserts `key`, or replaces its value.
    pub fn insert(&self, key: K, value: u64) {
        let key = key.to_words();
        let guard = &epoch::pin();
        let mut backoff = Backoff::default();
        loop {
            let found = self
                .rightmost_for(&key, guard)
                .or_else(|| self.trunk.leftmost_for(&key, guard));
            let Some(found) = found.or_else(|| self.trunk.find_leaf(&Aim::At(key), guard)) else {
                continue;
            };
            if let Some(leaf) = found.node.downcast::<HashLeaf<K::Words>>() {
                match leaf.insert(key, value, found.version) {
                    Ok(Insert::Done) => return,
                    Ok(Insert::Full) => {
                        self.split(found.node, leaf, key, guard);
                        self.convert_some(guard);
                    }
                    Err(why) => {
                        if why != Unsettled::Leaf {
                            self.spare.prepare_one();
                        }
                        look_again(why, &found, leaf, &mut backoff, guard);
                    }
                }
            } else if let Some(leaf) = found.node.downcast::<SortedLeaf<K::Words>>()
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
        let mut backoff = Backoff::default();
        loop {
            let found = self.rightmost_for(&key, guard);
            let Some(found) = found.or_else(|| self.trunk.find_leaf(&Aim::At(key), guard)) else {
                continue;
            };
            if let Some(leaf) = found.node.downcast::<HashLeaf<K::Words>>() {
                match leaf.get(&key, found.version) {
                    Ok(value) => return value,
                    Err(why) => look_again(why, &found, leaf, &mut backoff, guard),
                }
            } else if let Some(leaf) = found.node.downcast::<SortedLeaf<K::Words>>()
                && let Some(value) = get_sorted(&found, leaf, &key)
            {
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
        let mut backoff = Backoff::default();
        loop {
            let Some(found) = self.trunk.find_leaf(&Aim::At(key), guard) else {
                continue;
            };
            if let Some(leaf) = found.node.downcast::<HashLeaf<K::Words>>() {
                match leaf.remove(&key, found.version) {
                    Ok(removed) => {
                        if removed.empties_bucket {
                            self.note_emptied(found.node, leaf, guard);
                        }
                        return removed.value;
                    }
                    Err(why) => look_again(why, &found, leaf, &mut backoff, guard),
                }
            } else if let Some(leaf) = found.node.downcast::<SortedLeaf<K::Words>>()
                && let Some(removed) = self.trunk.remove_sorted(&found, leaf, key, guard)
            {
                return removed;
            }
        }
    }

    /// Returns the low fences of the leaves, ascending, except the first. Concurrent splits may be
    /// missed. Takes O(log n) for each leaf.
    ///
    /// ```
    /// use bedload_memory::{BlinkHash, BlinkHashOptions};
    /// let index = BlinkHash::<u64>::with_options(BlinkHashOptions::new().node_bytes(8 << 10));
    /// index.insert(7, 1);
    /// assert!(index.fences().is_empty());
    /// (0..1_000).for_each(|key| index.insert(key, key));
    /// assert!(index.fences().is_sorted());
    /// assert!(index.fences()[0] < 1_000);
    /// ```
    #[must_use]
    pub fn fences(&self) -> Vec<K> {
        let guard = &epoch::pin();
        let (mut fences, mut low) = (Vec::new(), K::Words::MIN);
        while let Some(found) = self.trunk.find_leaf(&Aim::At(low), guard) {
            let right = found.node.right(guard);
            if !found.node.latch.validate(found.version) {
                continue;
            }
            let Some((high, _)) = right else { break };
            fences.push(K::from_words(high));
            low = high;
        }
        fences
    }

    /// Returns the memory use by purpose; approximate during concurrent writes. Takes O(n).
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        let mut memory = self.trunk.memory_use(&epoch::pin(), |node, memory| {
            if let Some(leaf) = node.downcast::<HashLeaf<K::Words>>() {
                leaf.add_memory_use(memory);
            }
        });
        memory.metadata += self.spare.bytes();
        memory
    }

    /// Returns the right-most leaf, if the key belongs there.
    fn rightmost_for<'g>(&self, key: &K::Words, guard: &'g Guard) -> Option<FoundNode<'g, K::Words>> {
        let node = self.trunk.rightmost(guard)?;
        let low = node.downcast::<HashLeaf<K::Words>>()?.low();
        let version = node.latch.optimistic()?;
        let covers = node.is_rightmost() && low.is_none_or(|low| low <= *key);
        covers.then_some(FoundNode { node, version, low })
    }

    /// Requests that a writer converts the leaf with this low fence. The queue is locked for no
    /// longer than this takes.
    pub(super) fn ask_for_conversion(&self, low: Option<K::Words>) {
        self.to_convert.lock().push_back(low);
    }

    /// Converts a few of the requested leaves.
    pub(super) fn convert_some(&self, guard: &Guard) {
        for _ in 0..CONVERSIONS_AT_ONCE {
            let Some(next) = self
                .to_convert
                .try_lock()
                .and_then(|mut to_convert| to_convert.pop_front())
            else {
                return;
            };
            self.convert(next, guard);
        }
    }
}

/// Performs the missing work that an operation reported, or backs off.
fn look_again<W: Words>(
    why: Unsettled,
    found: &FoundNode<'_, W>,
    leaf: &HashLeaf<W>,
    backoff: &mut Backoff,
    guard: &Guard,
) {
    let is_done = match why {
        Unsettled::Bucket(bucket) => settle(leaf, bucket, found.version, guard),
        Unsettled::Leaf => false,
    };
    if !is_done {
        backoff.wait();
    }
}

shared_map!(BlinkHash);
