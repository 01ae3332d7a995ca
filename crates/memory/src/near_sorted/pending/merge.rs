//! Moves late entries from the stage to the branches, where they are pending for their leaves, and
//! from there into the leaves. If a leaf has no room for them, some of its neighbours are merged
//! too, and all share their entries.

use super::scratch::Route;
use super::tree::PendingTree;
use crate::near_sorted::run::SortedRun;
use crate::search::dispatch::{Searching, vectorised};
use crate::search::keys::{EntryColumns, NO_KEY};

/// Number of late entries routed at a time: memory for the next ones is fetched meanwhile.
const ROUTED_AT_ONCE: usize = 64;

impl PendingTree {
    /// Adds an entry that is pending for its leaf; it hides older ones of the same key. Amortised
    /// time O(1), plus O(log n) to find its leaf.
    #[inline]
    pub(crate) fn insert_late(&mut self, key: u64, value: u64) {
        if !self.stage.push(key, value) {
            self.clear_stage();
        }
    }

    /// Moves the staged entries to the branches. Time O(staged · log n).
    #[cold]
    pub(crate) fn clear_stage(&mut self) {
        let mut run = std::mem::take(&mut self.scratch.run);
        self.stage.take(&mut run);
        self.insert_run(run.columns());
        self.scratch.run = run;
    }

    /// Moves entries with ascending keys to the branches.
    pub(crate) fn insert_run(&mut self, run: EntryColumns<'_>) {
        vectorised(InsertRun { tree: self, run });
    }

    #[inline(always)]
    fn insert_run_here(&mut self, run: EntryColumns<'_>) {
        let mut routes = std::mem::take(&mut self.scratch.routes);
        let mut from = 0;
        while from < run.0.len() {
            let (at, to) = self.same_branch(run.0, from);
            let to = to.min(from + ROUTED_AT_ONCE);
            self.packed.branches[at].prefetch();
            routes.extend((from..to).map(|entry| Route { entry, at, place: 0 }));
            from = to;
            if routes.len() >= ROUTED_AT_ONCE {
                self.push_routed(run, &mut routes);
            }
        }
        self.push_routed(run, &mut routes);
        self.scratch.routes = routes;
    }

    /// Returns the branch of the key at `from`, and the end of the run of keys that belong to it.
    #[inline(always)]
    fn same_branch(&self, keys: &[u64], from: usize) -> (usize, usize) {
        let at = self.packed.index.find(keys[from]);
        let end = self.packed.index.fence(at + 1).unwrap_or(NO_KEY);
        let count = keys[from..].iter().take_while(|&&key| key < end).count();
        (at, from + count)
    }

    /// Adds entries to the leaves that their routes name. Where there is no room, leaves are
    /// rewritten together with the entries.
    #[inline(always)]
    fn push_routed(&mut self, run: EntryColumns<'_>, routes: &mut Vec<Route>) {
        for route in &mut *routes {
            let branch = &self.packed.branches[route.at];
            route.place = branch.find(run.0[route.entry]);
            branch.prefetch_waiting(route.place);
        }
        for route in &*routes {
            self.packed.branches[route.at].prefetch_room(route.place);
        }
        let mut left = SortedRun::new();
        for route in routes.drain(..) {
            let entry = (run.0[route.entry], run.1[route.entry]);
            if !self.packed.branches[route.at].push_late(route.place, entry, &self.packed.options) {
                left.push(entry);
            }
        }
        let mut from = 0;
        while from < left.keys.len() {
            from += self.merge_around((&left.keys[from..], &left.values[from..]));
        }
    }

    /// Makes room for the first of these entries, by rewriting the leaves around its leaf and
    /// merging those of the entries that belong to them; returns how many. Time O(leaves written).
    #[inline(always)]
    fn merge_around(&mut self, newer: EntryColumns<'_>) -> usize {
        let at = self.packed.index.find(newer.0[0]);
        if self.packed.branches[at].leaves().is_empty() {
            let fence = self.packed.index.fence(at).unwrap_or(0);
            self.packed.branches[at].push(fence, self.packed.spare.leaf());
        }
        let place = self.packed.branches[at].find(newer.0[0]);
        let window = self.window_around(at, place..place + 1, newer.0);
        let here = (&newer.0[..window.newer], &newer.1[..window.newer]);
        self.write_anew(at, &window, here);
        window.newer
    }

    /// Merges the pending entries of a branch into its leaves. Time O(entries of leaves that have
    /// pending ones).
    pub(crate) fn merge_branch(&mut self, at: usize) {
        vectorised(MergeBranch { tree: self, at });
    }

    #[inline(always)]
    fn merge_branch_here(&mut self, at: usize) {
        let mut place = 0;
        while self.packed.branches[at].waiting() > 0 && place < self.packed.branches[at].leaves().len() {
            let branch = &self.packed.branches[at];
            let last = branch.leaves().len() - 1;
            let joins_next = branch.prefetch_behind(0, place, last, NO_KEY - 1).is_some();
            place = self.merge_up_to(at, place, last, joins_next);
        }
        self.packed.branches[at].shrink();
    }

    /// Merges the pending entries of a leaf, if any. If it has no room, leaves around it, and other
    /// branches, may move.
    #[inline(always)]
    pub(crate) fn merge_place(&mut self, at: usize, place: usize) {
        self.merge_up_to(at, place, place, false);
    }

    /// The same, but if the leaf has no room, those up to `last` that are near and have no room
    /// either are included. The next leaf may be prefetched meanwhile. Returns the position of the
    /// leaf after those merged, if it is still in this branch.
    #[inline(always)]
    fn merge_up_to(&mut self, at: usize, place: usize, last: usize, joins_next: bool) -> usize {
        let branch = &self.packed.branches[at];
        if branch.waiting_for(place).is_none() {
            if joins_next {
                branch.leaves()[place + 1].prefetch_columns();
            }
        } else if self.has_room(at, place) {
            self.merge_within(at, place, joins_next);
        } else {
            return self.write_stretch(at, place, last);
        }
        place + 1
    }

    /// Merges the pending entries of a leaf that has room for them. The next leaf may be prefetched
    /// meanwhile.
    #[inline(always)]
    pub(crate) fn merge_within(&mut self, at: usize, place: usize, joins_next: bool) {
        let branch = &mut self.packed.branches[at];
        let (leaf, waiting, next) = branch.leaf_to_merge(place);
        let before = leaf.len();
        let next = next.filter(|_| joins_next);
        // Replaces the leaf by a spare one, so that each entry is written once.
        let mut merged = self.packed.spare.leaf_to_fill();
        merged.fill_with(|keys, values| self.scratch.joining.join(leaf, waiting, next, (keys, values)));
        self.packed.spare.keep(std::mem::replace(leaf, merged));
        self.packed.entries += leaf.len() - before;
        branch.forget_waiting(place..place + 1);
    }

    /// Moves the entries of the first branch to the end of `entries`; returns the fence of the next
    /// one.
    pub(crate) fn take_first(&mut self, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        self.clear_stage();
        self.merge_branch(0);
        let next = self.packed.index.fence(1);
        for (_, leaf) in self.packed.branches[0].take() {
            entries.extend(leaf.keys().iter().copied().zip(leaf.values().iter().copied()));
            self.packed.entries -= leaf.len();
            self.packed.spare.keep(leaf);
        }
        self.packed.drop_branch(0);
        next
    }

    /// Merges all pending entries. Time O(n).
    pub(crate) fn merge_all(&mut self) {
        self.clear_stage();
        let mut at = 0;
        while at < self.packed.branches.len() {
            self.merge_branch(at);
            at += 1;
        }
    }
}

struct MergeBranch<'t> {
    tree: &'t mut PendingTree,
    at: usize,
}

impl Searching for MergeBranch<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        self.tree.merge_branch_here(self.at);
    }
}

struct InsertRun<'t> {
    tree: &'t mut PendingTree,
    run: EntryColumns<'t>,
}

impl Searching for InsertRun<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        self.tree.insert_run_here(self.run);
    }
}
