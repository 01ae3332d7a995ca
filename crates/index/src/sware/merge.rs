//! Where late entries go: from the stage to the leaves in which they wait, and from there to their places. What waits in a
//! leaf is merged within it; where there is no room left, so are some of its neighbours, which divide all that they hold.

use std::ops::Range;

use super::bplus_tree::BPlusTree;
use super::branch::Branch;
use super::join::{Joined, join};
use super::leaf::Leaf;
use super::scratch::{Route, Scratch, SpareLeaves};
use super::search::{Columns, NO_KEY, Searching, vectorised};
use super::stage::Run;

/// Late entries that are put in their places at a time: what the next ones need comes from memory meanwhile.
const ROUTED_AT_ONCE: usize = 64;

/// Writes leaves anew, from left to right, each as full as the others.
struct Packer<'t> {
    /// The last one is being filled.
    packed: Vec<(u64, Box<Leaf>)>,
    fill: usize,
    spare: &'t mut SpareLeaves,
}

impl Packer<'_> {
    /// Streams entries into the last leaf and, when it is full, into the next.
    #[inline(always)]
    fn copy(&mut self, mut entries: Columns<'_>) {
        while let Some(&first) = entries.0.first() {
            if self.packed.last().is_none_or(|(_, open)| open.len() >= self.fill) {
                self.close();
                self.packed.push((first, self.spare.leaf_to_fill()));
            }
            if let Some((_, open)) = self.packed.last_mut() {
                let count = open.fill_up(entries, self.fill);
                entries = (&entries.0[count..], &entries.1[count..]);
            }
        }
    }

    fn close(&mut self) {
        if let Some((_, open)) = self.packed.last_mut() {
            open.end_filling();
        }
    }
}

/// Leaves of a branch that are written anew together.
struct Window {
    places: Range<usize>,
    /// Up to where newer entries belong to them.
    newer: usize,
    /// Entries of each leaf that comes of it.
    fill: usize,
}

impl Scratch {
    /// Merges what waits in a leaf with what is in order there: the leaf is exchanged for a spare one, so that all is written
    /// once. What is known of the next leaf has been asked for; its columns are asked for meanwhile.
    #[inline(always)]
    pub(super) fn merge_leaf(&mut self, leaf: &mut Box<Leaf>, next: Option<&Leaf>) {
        let mut merged = self.spare.leaf_to_fill();
        let late = self.late.of_leaf(leaf, (&[], &[]));
        merged.fill_with(|keys, values| join((leaf, next), 0..leaf.len(), late, (keys, values)));
        self.spare.keep(std::mem::replace(leaf, merged));
    }
}

impl BPlusTree {
    /// Lets an entry wait for being merged into its leaf; it hides older ones of the same key. Amortised time O(1), and
    /// O(log n) for finding its leaf.
    #[inline]
    pub(super) fn insert_late(&mut self, key: u64, value: u64) {
        if !self.stage.push(key, value) {
            self.clear_stage();
        }
    }

    /// Lets what is staged wait in the leaves. Time O(staged · log n).
    #[cold]
    pub(super) fn clear_stage(&mut self) {
        let mut run = std::mem::take(&mut self.scratch.run);
        self.stage.take(&mut run);
        self.insert_run(run.columns());
        self.scratch.run = run;
    }

    /// Lets entries with ascending keys wait in the leaves.
    pub(super) fn insert_run(&mut self, run: Columns<'_>) {
        vectorised(InsertRun { tree: self, run });
    }

    #[inline(always)]
    fn insert_run_here(&mut self, run: Columns<'_>) {
        let mut routes = std::mem::take(&mut self.scratch.routes);
        let mut from = 0;
        while from < run.0.len() {
            let (at, to) = self.same_branch(run.0, from);
            let to = to.min(from + ROUTED_AT_ONCE);
            self.branches[at].prefetch();
            routes.extend((from..to).map(|entry| Route { entry, at, place: 0 }));
            from = to;
            if routes.len() >= ROUTED_AT_ONCE {
                self.push_routed(run, &mut routes);
            }
        }
        self.push_routed(run, &mut routes);
        self.scratch.routes = routes;
    }

    /// The branch of the key at `from`, and up to where there are others of it.
    #[inline(always)]
    fn same_branch(&self, keys: &[u64], from: usize) -> (usize, usize) {
        let at = self.index.find(keys[from]);
        let end = self.index.fence(at + 1).unwrap_or(NO_KEY);
        let count = keys[from..].iter().take_while(|&&key| key < end).count();
        (at, from + count)
    }

    /// Lets entries wait where their routes lead. Where there is no room, leaves are written anew, and they with them.
    #[inline(always)]
    fn push_routed(&mut self, run: Columns<'_>, routes: &mut Vec<Route>) {
        for route in &mut *routes {
            let branch = &self.branches[route.at];
            route.place = branch.find(run.0[route.entry]);
            if let Some(leaf) = branch.leaves().get(route.place) {
                leaf.prefetch_header();
            }
        }
        for route in &*routes {
            if let Some(leaf) = self.branches[route.at].leaves().get(route.place) {
                leaf.prefetch_room();
            }
        }
        let mut left = Run::new();
        for route in routes.drain(..) {
            let entry = (run.0[route.entry], run.1[route.entry]);
            if !self.branches[route.at].push_late(route.place, entry, &self.options) {
                left.push(entry);
            }
        }
        let mut from = 0;
        while from < left.keys.len() {
            from += self.merge_around((&left.keys[from..], &left.values[from..]));
        }
    }

    /// Makes room where the first of these entries belongs, and merges those of them that belong to leaves that are written
    /// anew for it; returns how many. Time O(leaves that are written).
    #[inline(always)]
    fn merge_around(&mut self, newer: Columns<'_>) -> usize {
        let at = self.index.find(newer.0[0]);
        if self.branches[at].leaves().is_empty() {
            let fence = self.index.fence(at).unwrap_or(0);
            self.branches[at].push(fence, self.scratch.spare.leaf());
        }
        let window = self.window_around(at, newer.0);
        let newer = (&newer.0[..window.newer], &newer.1[..window.newer]);
        self.write_anew(at, &window, newer);
        window.newer
    }

    /// Which leaves are written anew to make room where the first of these keys belongs: so many that either they have room
    /// enough, or with one more are as full as leaves are made.
    #[inline(always)]
    fn window_around(&self, at: usize, newer: &[u64]) -> Window {
        let branch = &self.branches[at];
        let leaves = branch.leaves();
        let room = self.options.leaf_entries;
        let filled = (room * self.late_fill_percent / 100).max(1);
        let branch_end = self.index.fence(at + 1).unwrap_or(NO_KEY);
        let place = branch.find(newer[0]);
        let mut places = place..place + 1;
        let mut held = leaves[place].held();
        loop {
            let end = branch.fence(places.end).unwrap_or(branch_end);
            let newer = newer.iter().take_while(|&&key| key < end).count();
            let all = held + newer;
            let window = |leaves: usize| Window {
                places: places.clone(),
                newer,
                fill: all.div_ceil(leaves),
            };
            if all * 2 <= places.len() * (filled + room) {
                return window(places.len());
            }
            let can_grow = places.len() < leaves.len();
            if all >= (places.len() + 1) * filled || !can_grow {
                return window(all.div_ceil(filled));
            }
            let goes_right = places.end < leaves.len()
                && (places.start == 0 || places.end - place <= place - places.start);
            if goes_right {
                held += leaves[places.end].held();
                places.end += 1;
            } else {
                places.start -= 1;
                held += leaves[places.start].held();
            }
        }
    }

    /// Writes leaves anew, with what waits in them and newer entries.
    #[inline(always)]
    fn write_anew(&mut self, at: usize, window: &Window, mut newer: Columns<'_>) {
        let Scratch {
            spare, late, joined, ..
        } = &mut self.scratch;
        let joined = joined.get_or_insert_with(Joined::new);
        let branch = &mut self.branches[at];
        let places = window.places.clone();
        let fence = branch.fence(places.start).unwrap_or(0);
        let mut packer = Packer {
            packed: Vec::with_capacity(places.len() + 2),
            fill: window.fill,
            spare,
        };
        packer.packed.push((fence, packer.spare.leaf_to_fill()));
        let (mut in_order, mut waiting) = (0, 0);
        for place in places.clone() {
            let leaf = &branch.leaves()[place];
            let next = branch.leaves()[..places.end].get(place + 1).map(Box::as_ref);
            if let Some(next) = next {
                next.prefetch_outline();
            }
            let end = branch.fence(place + 1).filter(|_| place + 1 < places.end);
            let end = end.unwrap_or(NO_KEY);
            let count = newer.0.iter().take_while(|&&key| key < end).count();
            let (keys, more_keys) = newer.0.split_at(count);
            let (values, more_values) = newer.1.split_at(count);
            newer = (more_keys, more_values);
            in_order += leaf.len();
            waiting += leaf.waiting();
            let late = late.of_leaf(leaf, (keys, values));
            joined.visit((leaf, next), 0..leaf.len(), late, &mut |keys, values| {
                packer.copy((keys, values));
            });
        }
        packer.close();
        let packed = packer.packed;
        let packed_entries: usize = packed.iter().map(|(_, leaf)| leaf.len()).sum();
        self.entries = self.entries - in_order + packed_entries;
        branch.forget_waiting(waiting);
        if branch.leaves().len() - places.len() + packed.len() <= self.options.branch_leaves {
            let replaced = branch.replace(places, packed);
            replaced.into_iter().for_each(|leaf| spare.keep(leaf));
        } else {
            self.replace_in_full_branch(at, &places, packed);
        }
    }

    /// Puts other leaves in the place of some of a branch that has no room for them, and divides it.
    #[cold]
    fn replace_in_full_branch(&mut self, at: usize, places: &Range<usize>, packed: Vec<(u64, Box<Leaf>)>) {
        let mut before: Vec<(u64, Box<Leaf>)> = self.branches[at].take().collect();
        let behind = before.split_off(places.end);
        for (_, leaf) in before.drain(places.start..) {
            self.scratch.spare.keep(leaf);
        }
        let leaves = before.len() + packed.len() + behind.len();
        let branches = leaves.div_ceil(self.options.branch_leaves * 3 / 4);
        let share = leaves.div_ceil(branches);
        let mut leaves = before.into_iter().chain(packed).chain(behind);
        for (fence, leaf) in leaves.by_ref().take(share) {
            self.branches[at].push(fence, leaf);
        }
        for new in 1..branches {
            let branch = Branch::of(leaves.by_ref().take(share));
            if let Some(fence) = branch.fence(0) {
                self.branches.insert(at + new, Box::new(branch));
                self.index.insert(at + new, fence);
            }
        }
    }

    /// Merges what waits in a branch within its leaves. Time O(entries of leaves in which some wait).
    pub(super) fn merge_branch(&mut self, at: usize) {
        vectorised(MergeBranch { tree: self, at });
    }

    #[inline(always)]
    fn merge_branch_here(&mut self, at: usize) {
        let mut place = 0;
        while self.branches[at].waiting() > 0 && place < self.branches[at].leaves().len() {
            let (_, next) = self.branches[at].leaf_and_next(place);
            if let Some(next) = next {
                next.prefetch_outline();
            }
            self.merge_place(at, place);
            place += 1;
        }
    }

    /// Merges what waits in the leaf at this branch and place, if anything does.
    #[inline(always)]
    pub(super) fn merge_place(&mut self, at: usize, place: usize) {
        let branch = &mut self.branches[at];
        let (leaf, next) = branch.leaf_and_next(place);
        let (in_order, waiting) = (leaf.len(), leaf.waiting());
        if waiting == 0 {
            return;
        }
        self.scratch.merge_leaf(leaf, next);
        self.entries += leaf.len() - in_order;
        branch.forget_waiting(waiting);
    }

    /// Moves the entries of the first branch to the end of `entries`; returns the fence of the next one.
    pub(super) fn take_first(&mut self, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        self.clear_stage();
        self.merge_branch(0);
        let next = self.index.fence(1);
        for (_, leaf) in self.branches[0].take() {
            entries.extend(leaf.keys().iter().copied().zip(leaf.values().iter().copied()));
            self.entries -= leaf.len();
            self.scratch.spare.keep(leaf);
        }
        self.drop_branch(0);
        next
    }

    /// Merges everything that waits. Time O(n).
    pub(super) fn merge_all(&mut self) {
        self.clear_stage();
        for at in 0..self.branches.len() {
            self.merge_branch(at);
        }
    }
}

struct MergeBranch<'t> {
    tree: &'t mut BPlusTree,
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
    tree: &'t mut BPlusTree,
    run: Columns<'t>,
}

impl Searching for InsertRun<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        self.tree.insert_run_here(self.run);
    }
}
