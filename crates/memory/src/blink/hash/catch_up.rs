//! Bringing a leaf's [`ordered_view`](super::ordered_view) up to date.

use crossbeam_epoch::Guard;

use super::bucket::Bits;
use super::fingerprints::BUCKET_CAP;
use super::hash_leaf::HashLeaf;
use super::ordered_view::Entries;
use super::settle::settle;
use super::sort::sort;
use crate::search::columns::Words;
use crate::sync::primitive::Backoff;
use crate::sync::version_latch::Version;

impl<W: Words> HashLeaf<W> {
    /// Updates the view with every entry that the leaf covered before the call. `false` if the leaf
    /// has changed since `version`.
    pub(super) fn catch_up(&self, view: &mut Entries<W>, version: Version, guard: &Guard) -> bool {
        // Alive while entries have yet to move from it.
        let is_new_half = self.generation() == 1 && !self.all_settled();
        let left = if is_new_half { self.left(guard) } else { None };
        if let Some(left) = left.and_then(|left| left.downcast::<Self>()) {
            // Entries that have yet to move are marked on the left, and are marked here before
            // their bucket counts as settled: so the left is checked first.
            let to_come = buckets_of(left.view().marks()).filter(|&bucket| !self.is_settled(bucket));
            if !self.take_from(to_come, view, version, guard) {
                return false;
            }
        }
        self.take_from(buckets_of(self.view().marks()), view, version, guard)
    }

    /// Initialises the view of an unpublished leaf with its part of the view of the leaf it is
    /// split from.
    pub(super) fn begin_view(&self, entries: &[(W, u64)]) {
        if !entries.is_empty() {
            self.view().lock().extend_from_slice(entries);
        }
    }

    /// Adds the entries of these buckets that the view lacks.
    pub(super) fn take_from(
        &self,
        mut buckets: impl Iterator<Item = usize>,
        view: &mut Entries<W>,
        version: Version,
        guard: &Guard,
    ) -> bool {
        let known = view.len();
        let is_complete = buckets.all(|bucket| self.take_from_bucket(bucket, view, version, guard));
        put_in_order(view, known);
        is_complete
    }

    fn take_from_bucket(&self, index: usize, view: &mut Entries<W>, version: Version, guard: &Guard) -> bool {
        let mut backoff = Backoff::default();
        while !settle(self, index, version, guard) {
            if !self.header().latch.validate(version) {
                return false;
            }
            backoff.wait();
        }
        let bucket = &self.buckets()[index];
        let Some(latched) = bucket.latch.latch() else {
            return false;
        };
        let unviewed = bucket.unviewed();
        // Marks remain where entries were removed: a leaf without entries gets no view.
        if view.capacity() == 0 && unviewed.0 != 0 {
            view.reserve_exact(self.buckets().len() * BUCKET_CAP);
        }
        view.extend(unviewed.map(|slot| (bucket.key(slot), bucket.value(slot))));
        bucket.set_all_viewed(latched.writer());
        self.view().unmark(index, latched.writer());
        true
    }
}

/// Returns the buckets whose bit is set.
fn buckets_of(marks: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    let words = marks.zip((0..).step_by(u64::BITS as usize));
    words.flat_map(|(word, first)| Bits(word).map(move |bit| first + bit))
}

/// Sorts entries of which the first `known` ascend.
fn put_in_order<W: Words>(entries: &mut Entries<W>, known: usize) {
    let (before, new) = entries.split_at_mut(known);
    sort(new);
    let Some(least) = new.first() else { return };
    let displaced = before.partition_point(|entry| entry.0 < least.0);
    if displaced < known {
        // Two ascending runs, which this sort merges.
        entries[displaced..].sort_by_key(|entry| entry.0);
    }
}
