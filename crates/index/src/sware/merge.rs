//! Merging what pends into the leaves of a branch: one pass over the leaves serves all of it.

use super::bplus_tree::BPlusTree;
use super::branch::{BRANCH_LEAVES, Branch};
use super::leaf::Leaf;
use super::pending::Pending;
use super::search::{Searching, vectorised};

/// Leaves and tables kept for the next use, and room to sort in.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    leaves: Vec<Box<Leaf>>,
    tables: Vec<Pending>,
    arrived: Vec<(u64, u64)>,
    sorted: Vec<(u64, u64)>,
    places: Vec<(usize, u64, u64)>,
}

/// As many leaves are kept.
const LEAVES_KEPT: usize = 64;
/// As many tables are kept.
const TABLES_KEPT: usize = 4;

impl Scratch {
    /// An empty table.
    pub(super) fn table(&mut self, entries: usize) -> Pending {
        self.tables.pop().unwrap_or_else(|| Pending::with_room(entries))
    }

    /// An empty leaf.
    pub(super) fn leaf(&mut self) -> Box<Leaf> {
        self.leaves.pop().unwrap_or_else(Leaf::new)
    }

    fn keep_leaf(&mut self, mut leaf: Box<Leaf>) {
        if self.leaves.len() < LEAVES_KEPT {
            leaf.truncate(0);
            self.leaves.push(leaf);
        }
    }

    fn keep_table(&mut self, table: Pending) {
        if self.tables.len() < TABLES_KEPT {
            self.tables.push(table);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.leaves.len() * size_of::<Leaf>() + self.tables.iter().map(Pending::bytes).sum::<usize>()
    }
}

/// Writes the leaves of a branch anew, from left to right. A leaf that has room for its entries is edited in place; one
/// that has not is streamed into leaves of the usual fill, and so are those behind it, until leaf ends coincide again.
struct Packer<'t> {
    packed: Vec<(u64, Box<Leaf>)>,
    /// The last leaf is still being filled.
    streaming: bool,
    fill: usize,
    capacity: usize,
    added: usize,
    scratch: &'t mut Scratch,
}

impl Packer<'_> {
    /// Takes the next leaf, and the entries to be merged into it.
    #[inline(always)]
    fn take(&mut self, fence: u64, mut leaf: Box<Leaf>, entries: &[(u64, u64)]) {
        if self.streaming
            && self
                .packed
                .last()
                .is_some_and(|(_, open)| open.len() * 8 >= self.fill * 7)
        {
            self.streaming = false;
        }
        if !self.streaming && leaf.len() + entries.len() <= self.capacity {
            if !entries.is_empty() {
                self.added += leaf.merge(entries, &mut self.scratch.places);
            }
            self.packed.push((fence, leaf));
            return;
        }
        if !self.streaming {
            let open = self.scratch.leaf();
            self.packed.push((fence, open));
            self.streaming = true;
        }
        let mut from = 0;
        for &(key, value) in entries {
            let to = leaf.rank(key);
            self.copy(&leaf.keys()[from..to], &leaf.values()[from..to]);
            self.copy(&[key], &[value]);
            let is_there = leaf.keys().get(to) == Some(&key);
            self.added += usize::from(!is_there);
            from = to + usize::from(is_there);
        }
        self.copy(&leaf.keys()[from..], &leaf.values()[from..]);
        self.scratch.keep_leaf(leaf);
    }

    /// Streams entries into the open leaf and, when it is full, into the next.
    fn copy(&mut self, mut keys: &[u64], mut values: &[u64]) {
        while let Some(&first) = keys.first() {
            let full = self.packed.last().is_none_or(|(_, open)| open.len() >= self.fill);
            if full {
                let open = self.scratch.leaf();
                self.packed.push((first, open));
            }
            let Some((_, open)) = self.packed.last_mut() else {
                return;
            };
            let count = keys.len().min(self.fill - open.len());
            open.extend(&keys[..count], &values[..count]);
            (keys, values) = (&keys[count..], &values[count..]);
        }
    }
}

impl BPlusTree {
    /// Merges what pends in a branch into its leaves; says whether that split the branch. Time O(pending + leaves that
    /// it touches).
    pub(super) fn merge_branch(&mut self, at: usize) -> bool {
        vectorised(MergeBranch { tree: self, at })
    }

    #[inline(always)]
    fn merge_branch_here(&mut self, at: usize) -> bool {
        let branch = &mut self.branches[at];
        if branch.pending.is_empty() {
            return false;
        }
        let mut pending = std::mem::take(&mut branch.pending);
        let scratch = &mut self.scratch;
        pending.drain_into(&mut scratch.arrived);
        scratch.keep_table(pending);
        let ends = sort_by_leaf(branch, &scratch.arrived, &mut scratch.sorted);
        scratch.arrived.clear();
        let sorted = std::mem::take(&mut scratch.sorted);

        let lower = self.index.fence(at).unwrap_or(0);
        let mut packer = Packer {
            packed: Vec::with_capacity(branch.leaves().len() + 16),
            streaming: false,
            fill: self.options.filled_leaf(),
            capacity: self.options.leaf_entries,
            added: 0,
            scratch,
        };
        if branch.leaves().is_empty() {
            let leaf = packer.scratch.leaf();
            packer.take(lower, leaf, &sorted);
        }
        let mut from = 0;
        for ((fence, leaf), to) in branch.take().zip(ends) {
            packer.take(fence, leaf, &sorted[from..to]);
            from = to;
        }
        self.entries += packer.added;
        let packed = packer.packed;
        self.scratch.sorted = sorted;
        self.replace_leaves(at, packed)
    }

    /// Gives a branch these leaves; what it has no room for goes to new branches behind it. Says
    /// whether anything did.
    fn replace_leaves(&mut self, at: usize, packed: Vec<(u64, Box<Leaf>)>) -> bool {
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
                self.branches.insert(at + new, branch);
                self.index.insert(at + new, fence);
            }
        }
        branches > 1
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

/// Sorts entries with different keys; returns where those of each leaf end. They are distributed to the leaves first: a
/// leaf has so few that sorting them takes hardly any steps.
#[inline(always)]
fn sort_by_leaf(
    branch: &Branch,
    arrived: &[(u64, u64)],
    sorted: &mut Vec<(u64, u64)>,
) -> [usize; BRANCH_LEAVES] {
    let mut ends = [0; BRANCH_LEAVES];
    for &(key, _) in arrived {
        ends[branch.find(key)] += 1;
    }
    let mut end = 0;
    for count in &mut ends {
        end += std::mem::replace(count, end);
    }
    sorted.resize(arrived.len(), (0, 0));
    for &entry in arrived {
        let next = &mut ends[branch.find(entry.0)];
        sorted[*next] = entry;
        *next += 1;
    }
    let mut from = 0;
    for &to in &ends {
        sorted[from..to].sort_unstable_by_key(|entry| entry.0);
        from = to;
    }
    ends
}

struct MergeBranch<'t> {
    tree: &'t mut BPlusTree,
    at: usize,
}

impl Searching for MergeBranch<'_> {
    type Answer = bool;

    #[inline(always)]
    fn run(self) -> bool {
        self.tree.merge_branch_here(self.at)
    }
}
