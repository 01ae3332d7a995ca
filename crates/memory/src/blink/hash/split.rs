//! Splitting a hash leaf: a few stores under its latch, for any size.

use crossbeam_epoch::Guard;

use super::BlinkHash;
use super::fingerprints::BUCKET_CAP;
use super::hash_leaf::HashLeaf;
use super::settle::settle_all;
use crate::blink::node::NodePtr;
use crate::map::key::Key;
use crate::sync::primitive::{Backoff, interleave};
use crate::sync::version_latch::Writer;

/// Minimum number of keys from which a percentile is taken.
const SAMPLE_MIN: usize = 8;

impl<K: Key> BlinkHash<K> {
    /// Splits a leaf in which an insert found no room for `key`, unless another thread is at it;
    /// the caller then retries.
    pub(super) fn split(
        &self,
        node: NodePtr<'_, K::Words>,
        leaf: &HashLeaf<K::Words>,
        key: K::Words,
        guard: &Guard,
    ) {
        let Some(_maintenance) = leaf.try_maintain() else {
            Backoff::patient().wait();
            return;
        };
        let Some(version) = node.latch.optimistic() else {
            return;
        };
        if leaf.is_frozen() || !settle_all(leaf, version, guard) {
            return;
        }
        // A key that was removed and inserted again may be in the sample twice: the least one
        // divides nothing.
        let divides = |&(fence, _): &(K::Words, bool)| leaf.low().is_none_or(|low| low < fence);
        let Some((fence, keys_ascend)) = self.fence(leaf, key).filter(divides) else {
            return;
        };
        let right = HashLeaf::right_of(&self.options, self.spare.take(), fence, node);
        let mut view = leaf.view().lock();
        let upper = view.partition_point(|entry| entry.0 < fence);
        right.begin_view(&view[upper..]);
        interleave();
        let Some(latched) = node.latch.try_latch(version) else {
            return;
        };
        view.truncate(upper);
        right.header().set_right(node.right(guard), Writer::UNPUBLISHED);
        let right = NodePtr::new(right);
        let was_rightmost = node.is_rightmost();
        leaf.begin_generation(keys_ascend, latched.writer());
        node.set_right(Some((fence, right)), latched.writer());
        if was_rightmost {
            interleave();
            // Last: those who find the right half this way do not look at the left one's latch, and
            // a bucket that they settle must count in its new generation.
            self.trunk.set_rightmost(right, latched.writer());
        }
        drop(latched);
        drop(view);
        interleave();
        self.trunk.insert_separator(fence, right, guard);
        if !self.options.lazy_split
            && let Some(version) = node.latch.optimistic()
        {
            settle_all(leaf, version, guard);
        }
    }

    /// Returns a key that divides the leaf's entries about as the options ask, and whether keys
    /// ascend. It is taken from a sample: hashing has put the keys into random buckets, so the
    /// first buckets are a random sample (§4.1). `None` if the leaf is nearly empty.
    fn fence(&self, leaf: &HashLeaf<K::Words>, key: K::Words) -> Option<(K::Words, bool)> {
        let mut sample = self.sample(leaf)?;
        let last = sample.len().checked_sub(1).filter(|&last| last >= 1)?;
        let mut divide_at = |percentile: u8| {
            let place = (sample.len() * usize::from(percentile) / 100).clamp(1, last);
            *sample.select_nth_unstable(place).1
        };
        if leaf.header().is_rightmost() {
            let fence = divide_at(self.options.append_percentile);
            if fence <= key {
                return Some((fence, true));
            }
        }
        if leaf.low().is_none() {
            let fence = divide_at(100 - self.options.append_percentile);
            if key < fence {
                return Some((fence, false));
            }
        }
        Some((divide_at(self.options.split_percentile), false))
    }

    /// Returns some of a leaf's keys. `None` if another thread is in the way.
    fn sample(&self, leaf: &HashLeaf<K::Words>) -> Option<Vec<K::Words>> {
        let capacity = leaf.buckets().len() * BUCKET_CAP;
        let wanted = (capacity * usize::from(self.options.sample_percent) / 100).max(SAMPLE_MIN);
        let mut sample = Vec::with_capacity(wanted + BUCKET_CAP);
        for bucket in leaf.buckets() {
            if sample.len() >= wanted {
                break;
            }
            let before = sample.len();
            let version = bucket.latch.optimistic()?;
            sample.extend(bucket.entries().map(|slot| bucket.key(slot)));
            if !bucket.latch.validate(version) {
                sample.truncate(before);
            }
        }
        Some(sample)
    }
}
