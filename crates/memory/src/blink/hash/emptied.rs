//! Finding the leaves that removals empty, so that their memory is given back.
//!
//! A removal of a bucket's last entry is counted. At the first one since the leaf was split, and
//! then once for each eighth of the leaf's buckets, the thread looks at all buckets, and converts
//! the leaf if at most a quarter of them have entries ([`convert`](super::convert)). Sorted leaves
//! merge. So few removals are counted, and each of these looks at eight buckets on average.
//!
//! No leaf is missed: if more than a quarter of the buckets had entries at the last look, another
//! eighth is counted before all are empty. A look first settles all buckets: until the next split,
//! which begins a new count, only removals take entries away.

use crossbeam_epoch::Guard;

use super::BlinkHash;
use super::hash_leaf::HashLeaf;
use super::settle::settle_all;
use crate::blink::node::NodePtr;
use crate::map::key::Key;
use crate::search::columns::Words;
use crate::sync::primitive::interleave;

/// Looks at all buckets of a leaf while as many buckets as it has are emptied.
const LOOKS: usize = 8;
/// A leaf is sparse if at most one in this many buckets has entries.
const FILLED_ONE_IN: usize = 4;

const _: () = assert!(2 * FILLED_ONE_IN <= LOOKS);

impl<K: Key> BlinkHash<K> {
    /// Counts a removal of a bucket's last entry; now and then looks whether the leaf is sparse,
    /// and converts it. The caller holds no latch.
    #[cold]
    pub(super) fn note_emptied(&self, node: NodePtr<'_, K::Words>, leaf: &HashLeaf<K::Words>, guard: &Guard) {
        let between = u32::try_from(leaf.buckets().len() / LOOKS).unwrap_or(u32::MAX);
        if node.is_rightmost() || !leaf.count_emptied().is_multiple_of(between.max(1)) {
            return;
        }
        self.convert_some(guard);
        interleave();
        while let Some(version) = node.latch.optimistic() {
            if settle_all(leaf, version, guard) {
                if leaf.is_sparse() && !self.convert(leaf.low(), guard) {
                    // Another thread is about to split or convert it, but may give that up.
                    self.ask_for_conversion(leaf.low());
                }
                return;
            }
        }
    }
}

impl<W: Words> HashLeaf<W> {
    /// Returns whether at most a quarter of the buckets have entries.
    fn is_sparse(&self) -> bool {
        let filled = self.buckets().iter().filter(|bucket| !bucket.is_empty());
        filled.count() * FILLED_ONE_IN <= self.buckets().len()
    }
}
