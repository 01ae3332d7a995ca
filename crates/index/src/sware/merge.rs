//! Merging what pends into the leaves of a branch: one pass over the leaves serves all of it.

use super::bplus_tree::BPlusTree;
use super::branch::Branch;
use super::leaf::Leaf;
use super::pending::Columns;
use super::search::{Searching, vectorised};

/// Leaves kept for the next use, and room for places.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    leaves: Vec<Box<Leaf>>,
    places: Vec<(usize, u64, u64)>,
}

/// As many leaves are kept.
const LEAVES_KEPT: usize = 64;

impl Scratch {
    /// An empty leaf.
    pub(super) fn leaf(&mut self) -> Box<Leaf> {
        match self.leaves.pop() {
            None => Leaf::new(),
            Some(mut leaf) => {
                leaf.truncate(0);
                leaf
            }
        }
    }

    /// A leaf that is to be filled.
    fn leaf_to_fill(&mut self) -> Box<Leaf> {
        let mut leaf = self.leaves.pop().unwrap_or_else(Leaf::new);
        leaf.begin_filling();
        leaf
    }

    fn keep_leaf(&mut self, leaf: Box<Leaf>) {
        if self.leaves.len() < LEAVES_KEPT {
            self.leaves.push(leaf);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.leaves.len() * size_of::<Leaf>()
    }
}

/// Writes the leaves of a branch anew, from left to right. A leaf that has room for its entries is edited in place; one
/// that has not is streamed into leaves of the usual fill, and so are those behind it, until leaf ends coincide again.
struct Packer<'t> {
    packed: Vec<(u64, Box<Leaf>)>,
    /// The leaf that is being filled, which goes behind those packed.
    open: Option<(u64, Box<Leaf>)>,
    fill: usize,
    capacity: usize,
    added: usize,
    scratch: &'t mut Scratch,
}

impl Packer<'_> {
    /// Takes the next leaf, and the entries to be merged into it.
    #[inline(always)]
    fn take(&mut self, fence: u64, mut leaf: Box<Leaf>, entries: Columns<'_>) {
        if self
            .open
            .as_ref()
            .is_some_and(|(_, open)| open.len() * 8 >= self.fill * 7)
        {
            self.close();
        }
        let (keys, values) = entries;
        if self.open.is_none() {
            if leaf.len() + keys.len() <= self.capacity {
                if !keys.is_empty() {
                    self.added += leaf.merge(entries, &mut self.scratch.places);
                }
                self.packed.push((fence, leaf));
                return;
            }
            self.open = Some((fence, self.scratch.leaf_to_fill()));
        }
        let mut from = 0;
        for (&key, value) in keys.iter().zip(values) {
            let to = leaf.rank(key);
            self.copy((&leaf.keys()[from..to], &leaf.values()[from..to]));
            self.copy((&[key], std::slice::from_ref(value)));
            let is_there = leaf.keys().get(to) == Some(&key);
            self.added += usize::from(!is_there);
            from = to + usize::from(is_there);
        }
        self.copy((&leaf.keys()[from..], &leaf.values()[from..]));
        self.scratch.keep_leaf(leaf);
    }

    /// Streams entries into the open leaf and, when it is full, into the next.
    #[inline(always)]
    fn copy(&mut self, mut entries: Columns<'_>) {
        while let Some(&first) = entries.0.first() {
            if self.open.as_ref().is_none_or(|(_, open)| open.len() >= self.fill) {
                self.close();
                self.open = Some((first, self.scratch.leaf_to_fill()));
            }
            if let Some((_, open)) = &mut self.open {
                let count = open.fill_up(entries, self.fill);
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
    /// Lets an entry wait for the next merge into its branch; it hides older ones of the same key. Time O(log n), and
    /// amortised O(1) for the merge.
    pub(super) fn insert_pending(&mut self, key: u64, value: u64) {
        vectorised(InsertPending {
            tree: self,
            key,
            value,
        });
    }

    #[inline(always)]
    fn insert_pending_here(&mut self, key: u64, value: u64) {
        let at = self.index.find(key);
        let branch = &mut self.branches[at];
        let has_room = branch.pending.push(key, value) || branch.distribute();
        if !has_room || branch.pending.len() >= self.options.pending_entries {
            self.merge_branch_here(at);
        }
    }

    /// Merges what pends in a branch into its leaves. Time O(pending + leaves that it touches).
    pub(super) fn merge_branch(&mut self, at: usize) {
        vectorised(MergeBranch { tree: self, at });
    }

    /// Merges what pends in a branch into its leaves, but for newest entries that are too many for one leaf; they wait in
    /// the branches to which they belong afterwards.
    #[inline(always)]
    fn merge_some(&mut self, at: usize) {
        let branch = &mut self.branches[at];
        branch.distribute();
        let left = branch.pending.newest().to_vec();
        let pending = branch.pending.take_buckets();
        let lower = self.index.fence(at).unwrap_or(0);
        let mut packer = Packer {
            packed: Vec::with_capacity(branch.leaves().len() + 16),
            open: None,
            fill: self.options.filled_leaf(),
            capacity: self.options.leaf_entries,
            added: 0,
            scratch: &mut self.scratch,
        };
        if branch.leaves().is_empty() {
            let leaf = packer.scratch.leaf();
            packer.take(lower, leaf, pending.of_leaf(0));
        }
        for (place, (fence, leaf)) in branch.take().enumerate() {
            packer.take(fence, leaf, pending.of_leaf(place));
        }
        packer.close();
        self.entries += packer.added;
        let packed = packer.packed;
        self.replace_leaves(at, packed);
        for (key, value) in left {
            let at = self.index.find(key);
            self.branches[at].pending.push(key, value);
        }
    }

    #[inline(always)]
    fn merge_branch_here(&mut self, at: usize) {
        let upper = self.index.fence(at + 1);
        let mut at = at;
        while at < self.branches.len() && (upper.is_none() || self.index.fence(at) != upper) {
            if self.branches[at].pending.is_empty() {
                at += 1;
            } else {
                self.merge_some(at);
            }
        }
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
        for new in 1..branches {
            let branch = Branch::of(packed.by_ref().take(share));
            if let Some(fence) = branch.fence(0) {
                self.branches.insert(at + new, Box::new(branch));
                self.index.insert(at + new, fence);
            }
        }
    }

    /// Moves the entries of the first branch to the end of `entries`; returns the fence of the next one.
    pub(super) fn take_first(&mut self, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        self.merge_branch(0);
        let next = self.index.fence(1);
        for (_, leaf) in self.branches[0].take() {
            entries.extend(leaf.keys().iter().copied().zip(leaf.values().iter().copied()));
            self.entries -= leaf.len();
            self.scratch.keep_leaf(leaf);
        }
        self.drop_branch(0);
        next
    }

    /// Merges everything that pends. Time O(n).
    pub(super) fn merge_all(&mut self) {
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
        self.tree.merge_branch_here(self.at);
    }
}

struct InsertPending<'t> {
    tree: &'t mut BPlusTree,
    key: u64,
    value: u64,
}

impl Searching for InsertPending<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        self.tree.insert_pending_here(self.key, self.value);
    }
}
