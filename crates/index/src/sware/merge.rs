//! Where late entries go: from the stage to the branches in which they wait, and from there into leaves, all that wait in
//! a branch in one pass.

use super::bplus_tree::BPlusTree;
use super::branch::Branch;
use super::join::Joined;
use super::leaf::Leaf;
use super::scratch::{Route, Scratch, SpareLeaves};
use super::search::{Columns, NO_KEY, Searching, vectorised};
use super::stage::Run;

/// Late entries that are put in their places at a time: what the next ones need comes from memory meanwhile.
const ROUTED_AT_ONCE: usize = 64;
/// If so many entries for each leaf of a branch come together, they do not wait there, but are merged at once.
const MERGED_AT_ONCE: usize = 4;

/// Writes the leaves of a branch anew, from left to right. A leaf that has room for its entries stays one; one that has
/// not is streamed into leaves of the usual fill, and so are those behind it, until leaf ends coincide again.
struct Packer<'t> {
    packed: Vec<(u64, Box<Leaf>)>,
    /// The leaf that is being filled, which goes behind those packed.
    open: Option<(u64, Box<Leaf>)>,
    fill: usize,
    capacity: usize,
    added: usize,
    spare: &'t mut SpareLeaves,
}

impl Packer<'_> {
    /// Takes the next leaf, and the entries to be merged into it.
    #[inline(always)]
    fn take(
        &mut self,
        (fence, leaf): (u64, Box<Leaf>),
        next: Option<&Leaf>,
        late: Columns<'_>,
        joined: &mut Joined,
    ) {
        if self
            .open
            .as_ref()
            .is_some_and(|(_, open)| open.len() * 8 >= self.fill * 7)
        {
            self.close();
        }
        let begins = self.open.is_none();
        if begins {
            if late.0.is_empty() {
                next.inspect(|next| next.prefetch_columns());
                return self.packed.push((fence, leaf));
            }
            self.open = Some((fence, self.spare.leaf_to_fill()));
        }
        let stays = begins && leaf.len() + late.0.len() <= self.capacity;
        let fill = if stays { self.capacity } else { self.fill };
        let mut taken = 0;
        joined.visit((&leaf, next), 0..leaf.len(), late, &mut |keys, values| {
            taken += keys.len();
            self.copy((keys, values), fill);
        });
        self.added += taken - leaf.len();
        if stays {
            self.close();
        }
        self.spare.keep(leaf);
    }

    /// Streams entries into the open leaf and, when it is full, into the next.
    #[inline(always)]
    fn copy(&mut self, mut entries: Columns<'_>, fill: usize) {
        while let Some(&first) = entries.0.first() {
            if self.open.as_ref().is_none_or(|(_, open)| open.len() >= fill) {
                self.close();
                self.open = Some((first, self.spare.leaf_to_fill()));
            }
            if let Some((_, open)) = &mut self.open {
                let count = open.fill_up(entries, fill);
                entries = (&entries.0[count..], &entries.1[count..]);
            }
        }
    }

    /// Puts the open leaf behind those packed.
    fn close(&mut self) {
        if let Some((fence, mut leaf)) = self.open.take() {
            leaf.end_filling();
            self.packed.push((fence, leaf));
        }
    }
}

impl BPlusTree {
    /// Lets an entry wait for the next merge into its branch; it hides older ones of the same key. Amortised time O(1),
    /// and O(log n) for finding its branch.
    #[inline]
    pub(super) fn insert_late(&mut self, key: u64, value: u64) {
        if !self.stage.push(key, value) {
            self.clear_stage();
        }
    }

    /// Lets what is staged wait in the branches. Time O(staged · log n).
    #[cold]
    pub(super) fn clear_stage(&mut self) {
        let mut run = std::mem::take(&mut self.scratch.run);
        self.stage.take(&mut run);
        self.insert_run(run.columns());
        self.scratch.run = run;
    }

    /// Lets entries with ascending keys wait in the branches.
    pub(super) fn insert_run(&mut self, run: Columns<'_>) {
        vectorised(InsertRun { tree: self, run });
    }

    #[inline(always)]
    fn insert_run_here(&mut self, run: Columns<'_>) {
        let mut routes = std::mem::take(&mut self.scratch.routes);
        let mut from = 0;
        while from < run.0.len() {
            let (at, to) = self.same_branch(run.0, from);
            let branch = &self.branches[at];
            if to - from < MERGED_AT_ONCE * branch.leaves().len().max(1) {
                branch.prefetch();
                let routed = (from..to).map(|entry| Route { entry, at, place: 0 });
                routes.extend(routed);
            } else if routes.is_empty() {
                self.merge_branch_here(at, (&run.0[from..to], &run.1[from..to]));
            } else {
                // Other branches may be split by this.
                self.push_routed(run, &mut routes);
                continue;
            }
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

    /// Lets entries wait where their routes lead. If there is no room, what waits there is merged, and they with it.
    #[inline(always)]
    fn push_routed(&mut self, run: Columns<'_>, routes: &mut Vec<Route>) {
        for route in &mut *routes {
            let branch = &self.branches[route.at];
            route.place = branch.find(run.0[route.entry]);
            branch.pending.prefetch_leaf(route.place);
        }
        for route in &*routes {
            self.branches[route.at].pending.prefetch_block(route.place);
        }
        let mut left = Run::new();
        for route in routes.drain(..) {
            let pending = &mut self.branches[route.at].pending;
            let (key, value) = (run.0[route.entry], run.1[route.entry]);
            let has_room = pending.has_room() && pending.push(route.place, key, value);
            if !has_room {
                left.push((key, value));
            }
        }
        let mut from = 0;
        while from < left.keys.len() {
            let (at, to) = self.same_branch(&left.keys, from);
            self.merge_branch_here(at, (&left.keys[from..to], &left.values[from..to]));
            from = to;
        }
    }

    /// Merges what pends in a branch into its leaves. Time O(pending + leaves that it touches).
    pub(super) fn merge_branch(&mut self, at: usize) {
        vectorised(MergeBranch { tree: self, at });
    }

    /// Merges what pends in a branch into its leaves, and newer entries that belong to it.
    #[inline(always)]
    fn merge_branch_here(&mut self, at: usize, newer: Columns<'_>) {
        let branch = &mut self.branches[at];
        if branch.pending.is_empty() && newer.0.is_empty() {
            return;
        }
        let Scratch {
            spare, late, joined, ..
        } = &mut self.scratch;
        let joined = joined.get_or_insert_with(Joined::new);
        if branch.leaves().is_empty() {
            branch.push(self.index.fence(at).unwrap_or(0), spare.leaf());
        }
        let mut packer = Packer {
            packed: Vec::with_capacity(branch.leaves().len() + 16),
            open: None,
            fill: self.options.filled_leaf(),
            capacity: self.options.leaf_entries,
            added: 0,
            spare,
        };
        let mut leaves = branch.take().peekable();
        let (mut place, mut newer) = (0, newer);
        while let Some((fence, leaf)) = leaves.next() {
            let next = leaves.peek();
            let end = next.map_or(NO_KEY, |next| next.0);
            if let Some((_, next)) = next {
                branch.prefetch_pending(place + 1);
                next.prefetch_outline();
            }
            let count = newer.0.iter().take_while(|&&key| key < end).count();
            let (keys, more_keys) = newer.0.split_at(count);
            let (values, more_values) = newer.1.split_at(count);
            let late = late.of_leaf(&branch.pending, place, (keys, values));
            let next = next.map(|(_, next)| next.as_ref());
            packer.take((fence, leaf), next, late, joined);
            (place, newer) = (place + 1, (more_keys, more_values));
        }
        packer.close();
        self.entries += packer.added;
        branch.pending.clear();
        let packed = packer.packed;
        self.replace_leaves(at, packed);
    }

    /// Gives a branch these leaves; what it has no room for goes to new branches behind it.
    fn replace_leaves(&mut self, at: usize, packed: Vec<(u64, Box<Leaf>)>) {
        let room = self.options.branch_leaves;
        let branches = if packed.len() <= room {
            1
        } else {
            packed.len().div_ceil(room * 3 / 4)
        };
        let share = packed.len().div_ceil(branches);
        let mut packed = packed.into_iter();
        for (fence, leaf) in packed.by_ref().take(share) {
            self.branches[at].push(fence, leaf);
        }
        self.branches[at].set_room(&self.options);
        for new in 1..branches {
            let mut branch = Branch::of(packed.by_ref().take(share));
            branch.set_room(&self.options);
            if let Some(fence) = branch.fence(0) {
                self.branches.insert(at + new, Box::new(branch));
                self.index.insert(at + new, fence);
            }
        }
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

    /// Merges what pends in the branches of which half or more lies between the bounds: to merge a whole branch for a few
    /// of its leaves takes longer than to join these.
    pub(super) fn merge_between(&mut self, lower: u64, upper: u64) {
        let mut at = self.index.find(lower);
        while self.index.fence(at).is_some_and(|fence| fence <= upper) {
            let branch = &self.branches[at];
            let covered = branch.find(upper) + 1 - branch.find(lower);
            if covered * 2 >= branch.leaves().len() {
                self.merge_branch(at);
            }
            at += 1;
        }
    }

    /// Merges everything that pends. Time O(n).
    pub(super) fn merge_all(&mut self) {
        self.clear_stage();
        let mut at = 0;
        while at < self.branches.len() {
            self.merge_branch(at);
            at += 1;
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
        self.tree.merge_branch_here(self.at, (&[], &[]));
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
