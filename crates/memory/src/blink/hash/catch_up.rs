//! Bringing a leaf's [`ordered_view`](super::ordered_view) up to date.

use crossbeam_epoch::Guard;

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
        self.view().update(|| {
            let known = view.len();
            let is_complete = self.settle_marked(version, guard)
                && self.take_from_left(view, version, guard)
                && self.view().take_marks(|mut marked| {
                    marked.all(|bucket| self.take_from_bucket(bucket, view, version, guard))
                });
            put_in_order(view, known);
            is_complete
        })
    }

    /// Makes the marked buckets follow the last split: until they have, their marks tell the right
    /// half where to look. `false` if the leaf has changed since `version`.
    fn settle_marked(&self, version: Version, guard: &Guard) -> bool {
        self.all_settled()
            || self
                .view()
                .marked()
                .all(|bucket| self.settle_now(bucket, version, guard))
    }

    /// Makes a bucket follow the last split. `false` if the leaf has changed since `version`.
    fn settle_now(&self, bucket: usize, version: Version, guard: &Guard) -> bool {
        let mut backoff = Backoff::default();
        while !settle(self, bucket, version, guard) {
            if !self.header().latch.validate(version) {
                return false;
            }
            backoff.wait();
        }
        true
    }

    /// Adds the entries that have yet to move here from the left half, where they are marked. They
    /// are marked here before their bucket counts as settled: so this comes before this leaf's own
    /// marks.
    fn take_from_left(&self, view: &mut Entries<W>, version: Version, guard: &Guard) -> bool {
        let is_new_half = self.generation() == 1 && !self.all_settled();
        // Alive while entries have yet to move from it.
        let left = if is_new_half { self.left(guard) } else { None };
        let Some(left) = left.and_then(|left| left.downcast::<Self>()) else {
            return true;
        };
        let mut to_come = left.view().marked().filter(|&bucket| !self.is_settled(bucket));
        to_come.all(|bucket| self.take_from_bucket(bucket, view, version, guard))
    }

    /// Makes the view of a frozen leaf complete: marks are of no use any more. `false` if the leaf
    /// has changed since `version`.
    pub(super) fn take_all(&self, view: &mut Entries<W>, version: Version, guard: &Guard) -> bool {
        let known = view.len();
        let mut buckets = 0..self.buckets().len();
        let is_complete = buckets.all(|bucket| self.take_from_bucket(bucket, view, version, guard));
        put_in_order(view, known);
        is_complete
    }

    /// Initialises the view of an unpublished leaf with its part of the view of the leaf it is
    /// split from.
    pub(super) fn begin_view(&self, entries: &[(W, u64)]) {
        if !entries.is_empty() {
            self.view().lock().extend_from_slice(entries);
        }
    }

    /// Adds the entries of a bucket that the view lacks.
    fn take_from_bucket(&self, index: usize, view: &mut Entries<W>, version: Version, guard: &Guard) -> bool {
        if !self.settle_now(index, version, guard) {
            return false;
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
        true
    }
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
