//! Windows: neighbouring leaves of a branch that are rewritten together with their pending entries,
//! because some have no room for them.
//!
//! They are read in order, joined, and packed into evenly filled leaves. Each leaf read is freed as
//! soon as a packed leaf replaces it, and is packed next: so a window of any length is written to a
//! few pages that stay in the nearest cache.

use std::ops::Range;

use super::by_leaf::PendingByLeaf;
use super::scratch::{Packed, Scratch};
use super::tree::PendingTree;
use crate::near_sorted::join::joining::LateEntries;
use crate::near_sorted::tree::branch::Branch;
use crate::near_sorted::tree::spare::SpareLeaves;
use crate::search::keys::{EntryColumns, NO_KEY};

/// Leaves of a branch that are rewritten together.
#[derive(Debug)]
pub(crate) struct LeafWindow {
    pub(crate) places: Range<usize>,
    /// Number of newer entries that belong to them.
    pub(crate) newer: usize,
    /// Number of resulting leaves.
    leaves: usize,
    /// Entries in each of these; the last may have fewer.
    fill: usize,
}

/// Fills leaves evenly, from left to right.
struct Packer<'t> {
    packed: &'t mut Packed,
    fill: usize,
    entries: usize,
    spare: &'t mut SpareLeaves,
}

impl Packer<'_> {
    /// Streams entries into the last leaf and, when it is full, into the next.
    #[inline(always)]
    fn copy(&mut self, mut entries: EntryColumns<'_>) {
        self.entries += entries.0.len();
        while let Some(&first) = entries.0.first() {
            if self.packed.back().is_none_or(|(_, open)| open.len() >= self.fill) {
                self.close();
                self.packed.push_back((first, self.spare.leaf_to_fill()));
            }
            if let Some((_, open)) = self.packed.back_mut() {
                let count = open.fill_up(entries, self.fill);
                entries = (&entries.0[count..], &entries.1[count..]);
            }
        }
    }

    fn close(&mut self) {
        if let Some((_, open)) = self.packed.back_mut() {
            open.end_filling();
        }
    }

    /// Replaces the leaves at these positions, which have been read, by packed ones, while there
    /// are any.
    #[inline(always)]
    fn exchange(&mut self, branch: &mut Branch<PendingByLeaf>, places: &mut Range<usize>) {
        while self.packed.len() > 1
            && let Some(place) = places.next()
            && let Some((fence, packed)) = self.packed.pop_front()
        {
            self.spare.keep(branch.exchange(place, fence, packed));
        }
    }
}

/// Leaves without room are rewritten together if they are at most this far apart: the length of a
/// window around one leaf whose neighbours are filled as usual.
const NEAR: usize = 8;

impl PendingTree {
    /// Returns whether a leaf has room for its pending entries.
    #[inline(always)]
    pub(crate) fn has_room(&self, at: usize, place: usize) -> bool {
        self.packed.branches[at].held(place) <= self.packed.options.leaf_entries
    }

    /// Returns the leaves from one without room to the last such leaf, at most `last`, whose window
    /// would meet the previous one's.
    #[inline(always)]
    fn stretch(&self, at: usize, place: usize, last: usize) -> Range<usize> {
        let leaves = self.packed.branches[at].leaves().len().min(last + 1);
        let mut end = place + 1;
        let mut next = end;
        while next < leaves.min(end + NEAR) {
            if !self.has_room(at, next) {
                end = next + 1;
            }
            next += 1;
        }
        place..end
    }

    /// Returns a window around these leaves, wide enough to have room, or for its leaves to be
    /// filled as usual after one is added. Newer keys do not belong before the first of these.
    #[inline(always)]
    pub(crate) fn window_around(&self, at: usize, mut places: Range<usize>, newer: &[u64]) -> LeafWindow {
        let leaves = self.packed.branches[at].leaves().len();
        let filled = self.packed.options.filled_leaf();
        loop {
            let window = self.window(at, places.clone(), newer);
            let is_full = window.leaves <= places.len() || window.fill * 16 >= filled * 15;
            if is_full || window.places.len() == leaves {
                return window;
            }
            // Grows by half, as far as there are leaves on either side.
            let more = places.len().div_ceil(4);
            places = places.start.saturating_sub(more)..(places.end + more).min(leaves);
        }
    }

    /// Returns a window of these leaves, or of all leaves if the branch would overflow otherwise.
    #[inline(always)]
    fn window(&self, at: usize, places: Range<usize>, newer: &[u64]) -> LeafWindow {
        let branch = &self.packed.branches[at];
        let all_leaves = branch.leaves().len();
        let end = branch
            .fence(places.end)
            .or_else(|| self.packed.index.fence(at + 1));
        let end = end.unwrap_or(NO_KEY);
        let newer_here = newer.iter().take_while(|&&key| key < end).count();
        let held: usize = places.clone().map(|place| branch.held(place)).sum();
        let entries = held + newer_here;
        let (filled, room) = (
            self.packed.options.filled_leaf(),
            self.packed.options.leaf_entries,
        );
        let mut leaves = entries.div_ceil(filled).max(1);
        if entries * 2 <= places.len() * (filled + room) {
            leaves = leaves.min(places.len());
        }
        if all_leaves - places.len() + leaves > self.packed.options.branch_leaves && places.len() < all_leaves
        {
            return self.window(at, 0..all_leaves, newer);
        }
        LeafWindow {
            places,
            newer: newer_here,
            leaves,
            fill: entries.div_ceil(leaves),
        }
    }

    /// Rewrites a leaf without room, together with those up to `last` that are near and have no
    /// room either. Returns the new position of the leaf after them, if it is still in this branch.
    #[inline(always)]
    pub(crate) fn write_stretch(&mut self, at: usize, place: usize, last: usize) -> usize {
        let window = self.window_around(at, self.stretch(at, place, last), &[]);
        self.write_anew(at, &window, (&[], &[]))
    }

    /// Rewrites leaves, with their pending entries and newer ones. Returns the new position of the
    /// leaf after them, if it is still in this branch.
    #[inline(always)]
    pub(crate) fn write_anew(
        &mut self,
        at: usize,
        window: &LeafWindow,
        mut newer: EntryColumns<'_>,
    ) -> usize {
        let Scratch { joining, packed, .. } = &mut self.scratch;
        let spare = &mut self.packed.spare;
        let branch = &mut self.packed.branches[at];
        let places = window.places.clone();
        let fence = branch.fence(places.start).unwrap_or(0);
        packed.push_back((fence, spare.leaf_to_fill()));
        let mut packer = Packer {
            packed,
            fill: window.fill,
            entries: 0,
            spare,
        };
        let others = branch.leaves().len() - places.len();
        let fits = others + window.leaves <= self.packed.options.branch_leaves;
        let mut entries = 0;
        let mut exchanged = places.start;
        for place in places.clone() {
            let mut end = NO_KEY;
            let next = branch.prefetch_behind(places.start, place, places.end - 1, NO_KEY - 1);
            if place + 1 < places.end {
                end = branch.fence(place + 1).unwrap_or(NO_KEY);
            }
            let count = newer.0.iter().take_while(|&&key| key < end).count();
            let (keys, more_keys) = newer.0.split_at(count);
            let (values, more_values) = newer.1.split_at(count);
            newer = (more_keys, more_values);
            let leaf = &branch.leaves()[place];
            entries += leaf.len();
            let late = LateEntries {
                waiting: branch.waiting_for(place),
                newer: (keys, values),
            };
            joining.visit(leaf, (0, NO_KEY - 1), late, next, &mut |keys, values| {
                packer.copy((keys, values));
            });
            if fits {
                let mut read = exchanged..place + 1;
                packer.exchange(branch, &mut read);
                exchanged = read.start;
            }
        }
        packer.close();
        self.packed.entries = self.packed.entries - entries + packer.entries;
        branch.forget_waiting(places.clone());
        let behind = exchanged + packed.len();
        if fits {
            branch.replace(exchanged..places.end, packed, |leaf| spare.keep(leaf));
        } else {
            branch.take().for_each(|(_, leaf)| spare.keep(leaf));
            self.divide(at);
        }
        behind
    }

    /// Distributes packed leaves over an empty branch that has no room for all of them, and new
    /// branches after it.
    #[cold]
    fn divide(&mut self, at: usize) {
        let packed = &mut self.scratch.packed;
        let branches = packed.len().div_ceil(self.packed.options.branch_leaves * 3 / 4);
        let share = packed.len().div_ceil(branches);
        let mut packed = packed.drain(..);
        for (fence, leaf) in packed.by_ref().take(share) {
            self.packed.branches[at].push(fence, leaf);
        }
        for new in 1..branches {
            let branch = Branch::of(packed.by_ref().take(share));
            if let Some(fence) = branch.fence(0) {
                self.packed.branches.insert(at + new, Box::new(branch));
                self.packed.index.insert(at + new, fence);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::near_sorted::options::TreeOptions;

    #[test]
    fn what_is_far_apart_is_written_apart() {
        let options = TreeOptions::new().leaf_entries(8).pending_entries(7);
        let mut tree = PendingTree::with_options(options);
        (0..200).for_each(|key| tree.packed.insert(key * 16, key));
        for place in [0, 5, 5 + NEAR + 1] {
            let fence = tree.packed.branches[0]
                .fence(place)
                .expect("there are more leaves");
            for key in fence + 1..fence + 8 {
                assert!(tree.packed.branches[0].push_late(place, (key, 0), &tree.packed.options));
            }
            assert!(!tree.has_room(0, place));
        }
        assert_eq!(tree.stretch(0, 0, 30), 0..6);
        assert_eq!(tree.stretch(0, 0, 4), 0..1);
        assert_eq!(tree.stretch(0, 5, 30), 5..6);
    }
}
