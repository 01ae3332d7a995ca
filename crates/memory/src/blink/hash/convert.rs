//! Structure adaptation: replaces a hash leaf by sorted leaves (§4.3 of the paper).
//!
//! The leaf is frozen, which excludes writers but not readers; its buckets are latched one after
//! another to complete its ordered view, which waits for writers that are in the middle of one; the
//! view is copied into sorted leaves; and these are linked in under three latches. Readers of the
//! leaf continue, and then find it obsolete.

use crossbeam_epoch::{self as epoch, Guard};

use super::BlinkHash;
use super::hash_leaf::HashLeaf;
use super::settle::settle_all;
use crate::blink::aim::Aim;
use crate::blink::node::NodePtr;
use crate::blink::sorted_leaf::{LEAF_CAP, SortedLeaf};
use crate::blink::trunk::Chain;
use crate::map::key::Key;
use crate::search::columns::Words;
use crate::sync::primitive::{Backoff, interleave};
use crate::sync::version_latch::Writer;

impl<K: Key> BlinkHash<K> {
    /// Converts every hash leaf but the right-most to sorted leaves; returns how many. Concurrent
    /// reads and writes are allowed.
    ///
    /// ```
    /// use bedload_memory::{BlinkHash, BlinkHashOptions};
    /// let index = BlinkHash::<u64>::with_options(BlinkHashOptions::new().node_bytes(8 << 10));
    /// (0..10_000).for_each(|key| index.insert(key, key));
    /// assert!(index.convert_all() > 10);
    /// assert_eq!(index.convert_all(), 0);
    /// assert_eq!(index.range(..).count(), 10_000);
    /// ```
    pub fn convert_all(&self) -> usize {
        let mut converted = 0;
        let mut low = None;
        loop {
            // Pins again for each leaf, so that replaced leaves can be freed.
            let guard = &epoch::pin();
            let aim = Aim::At(low.unwrap_or(K::Words::MIN));
            let Some(found) = self.trunk.find_leaf(&aim, guard) else {
                return converted;
            };
            if self.convert(low, guard) {
                converted += 1;
            }
            let right = found.node.right(guard);
            if !found.node.latch.validate(found.version) && found.node.latch.optimistic().is_some() {
                continue;
            }
            match right {
                Some((high, _)) => low = Some(high),
                None => return converted,
            }
        }
    }

    /// Converts the hash leaf whose low fence is `low`. `false` if there is none, it is the
    /// right-most, or another thread is splitting or converting it.
    pub(super) fn convert(&self, low: Option<K::Words>, guard: &Guard) -> bool {
        let aim = Aim::At(low.unwrap_or(K::Words::MIN));
        let Some(found) = self.trunk.find_leaf(&aim, guard) else {
            return false;
        };
        let Some(leaf) = found.node.downcast::<HashLeaf<K::Words>>() else {
            return false;
        };
        let Some(_maintenance) = leaf.try_maintain() else {
            return false;
        };
        if leaf.low() != low || !freeze(found.node, leaf, guard) {
            return false;
        }
        complete_view(found.node, leaf, guard);
        let leaves = self.sorted_leaves(leaf);
        let Some((&first, &last)) = leaves.first().zip(leaves.last()) else {
            return false;
        };
        let entries = first
            .1
            .downcast::<SortedLeaf<K::Words>>()
            .map_or(0, SortedLeaf::len);
        let chain = Chain {
            first: first.1,
            last: last.1,
        };
        let mut backoff = Backoff::default();
        while !self.trunk.try_replace(found.node, low, chain, guard) {
            backoff.wait();
        }
        interleave();
        self.trunk.insert_separators(&leaves[1..], guard);
        if leaves.len() == 1 && entries < LEAF_CAP / 4 {
            // Perhaps no removal from this leaf follows that would.
            let key = low.unwrap_or(K::Words::MIN);
            self.trunk.merge_around(key, entries == 0, guard);
        }
        // The retired leaf is large, and little else is retired while keys ascend.
        guard.flush();
        true
    }

    /// Creates sorted leaves of a frozen leaf's entries, filled as the options ask, linked left to
    /// right, each with its least key.
    fn sorted_leaves(&self, leaf: &HashLeaf<K::Words>) -> Vec<(K::Words, NodePtr<'static, K::Words>)> {
        let percent = if leaf.is_left_behind() {
            self.options.append_fill_percent
        } else {
            self.options.fill_percent
        };
        let fill = (LEAF_CAP * usize::from(percent) / 100).max(1);
        let mut leaves: Vec<(K::Words, NodePtr<'static, K::Words>)> = Vec::new();
        loop {
            // Locks again for each leaf, to let readers in; nothing else changes the view of a
            // frozen leaf.
            let view = leaf.view().lock();
            let Some(chunk) = view.chunks(fill).nth(leaves.len()) else {
                break;
            };
            leaves.push((chunk[0].0, NodePtr::new(SortedLeaf::of(chunk))));
        }
        if leaves.is_empty() {
            leaves.push((K::Words::MIN, NodePtr::new(SortedLeaf::new())));
        }
        for pair in leaves.windows(2) {
            pair[0].1.set_right(Some(pair[1]), Writer::UNPUBLISHED);
        }
        leaves
    }
}

/// Excludes writers from a leaf that is not the right-most, once all its buckets are settled.
pub(super) fn freeze<W: Words>(node: NodePtr<'_, W>, leaf: &HashLeaf<W>, guard: &Guard) -> bool {
    loop {
        let Some(version) = node.latch.optimistic() else {
            return false;
        };
        if node.is_rightmost() {
            return false;
        }
        if !settle_all(leaf, version, guard) {
            continue;
        }
        interleave();
        if let Some(latched) = node.latch.try_latch(version) {
            leaf.freeze(latched.writer());
            return true;
        }
    }
}

/// Completes the view of a frozen leaf with the entries of writers that were active when it was
/// frozen: each bucket is latched once, and a later holder of its latch sees the leaf frozen.
pub(super) fn complete_view<W: Words>(node: NodePtr<'_, W>, leaf: &HashLeaf<W>, guard: &Guard) {
    let mut view = leaf.view().lock();
    while let Some(version) = node.latch.optimistic()
        && !leaf.take_all(&mut view, version, guard)
    {}
}
