//! The tree of packed leaves, with or without a layer on top.

use super::branch::Branch;
use super::fence_index::FenceIndex;
use super::layer::Layer;
use super::leaf::Leaf;
use super::spare::SpareLeaves;
use crate::near_sorted::options::TreeOptions;
use crate::search::dispatch::Wide;
use crate::search::keys::NO_KEY;

/// Leaves below branches, which a static index over their fences finds. A layer may hold entries
/// for each leaf; it must move them to the leaf before the leaf is changed here.
#[derive(Debug)]
pub(crate) struct LayeredTree<L> {
    /// The fences of the branches: a branch has the keys from its fence up to the next one's.
    pub(crate) index: FenceIndex,
    /// Boxed, so that inserting a branch does not move the others.
    pub(crate) branches: Vec<Box<Branch<L>>>,
    /// The value of the greatest possible key, which no node can hold.
    pub(crate) greatest: Option<u64>,
    /// Entries in leaves.
    pub(crate) entries: usize,
    /// How often an insert has divided a leaf.
    pub(crate) leaf_splits: u64,
    pub(crate) options: TreeOptions,
    pub(crate) spare: SpareLeaves,
    pub(crate) wide: Option<Wide>,
}

impl<L: Layer> LayeredTree<L> {
    pub(crate) fn new(options: TreeOptions) -> Self {
        Self {
            index: FenceIndex::new(),
            branches: vec![Box::new(Branch::new())],
            greatest: None,
            entries: 0,
            leaf_splits: 0,
            options,
            spare: SpareLeaves::new(),
            wide: Wide::detect(),
        }
    }

    /// Returns the branch and the position of the leaf to which a key belongs.
    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> (usize, usize) {
        let at = self.index.find(key);
        (at, self.branches[at].find(key))
    }

    /// Returns the least key of a leaf's range.
    #[inline(always)]
    pub(crate) fn fence_of(&self, at: usize, place: usize) -> u64 {
        let fence = if place == 0 {
            self.index.fence(at)
        } else {
            self.branches[at].fence(place)
        };
        fence.unwrap_or(0)
    }

    /// Returns the least key of the range after a leaf's.
    #[inline(always)]
    pub(crate) fn fence_behind(&self, at: usize, place: usize) -> u64 {
        let next = self.branches[at].fence(place + 1);
        next.or_else(|| self.index.fence(at + 1)).unwrap_or(NO_KEY)
    }

    /// Inserts a key or replaces its value. The layer may hold nothing for the key's branch.
    #[inline(always)]
    pub(crate) fn insert(&mut self, key: u64, value: u64) {
        let last = self.branches.len() - 1;
        let in_tail = self.options.tail_leaf
            && self.branches[last]
                .leaves()
                .len()
                .checked_sub(1)
                .and_then(|leaf| self.branches[last].fence(leaf))
                .is_some_and(|fence| fence <= key);
        let at = if in_tail { last } else { self.index.find(key) };
        let branch = &mut self.branches[at];
        let place = if in_tail {
            branch.leaves().len() - 1
        } else {
            branch.find(key)
        };
        if branch.leaves().is_empty() {
            branch.push(self.index.fence(at).unwrap_or(0), self.spare.leaf());
        }
        let leaf = branch.leaf_mut(place);
        let rank = match leaf.find(key) {
            Ok(rank) => return leaf.set_value(rank, value),
            Err(rank) => rank,
        };
        self.entries += 1;
        if leaf.len() < self.options.leaf_entries {
            return leaf.insert(rank, key, value);
        }
        self.leaf_splits += 1;
        let mut right = self.spare.leaf();
        if (at, place, rank) == (0, 0, 0) {
            // Descending keys will not return to it.
            std::mem::swap(leaf, &mut right);
            leaf.insert(0, key, value);
        } else {
            let kept = (leaf.len() * self.options.split_percent / 100).max(1);
            right.extend(&leaf.keys()[kept..], &leaf.values()[kept..]);
            leaf.truncate(kept);
            if rank < kept {
                leaf.insert(rank, key, value);
            } else {
                right.insert(rank - kept, key, value);
            }
        }
        if branch.leaves().len() == self.options.branch_leaves {
            self.split_branch(at);
        }
        let fence = right.keys()[0];
        let at = self.index.find(fence);
        let branch = &mut self.branches[at];
        let place = branch.find(fence) + 1;
        branch.insert(place, fence, right);
    }

    /// Splits a full branch.
    fn split_branch(&mut self, at: usize) {
        let branch = &mut self.branches[at];
        let kept = (branch.leaves().len() * self.options.split_percent / 100).max(1);
        let right = branch.split_off(kept);
        let fence = right.fence(0).unwrap_or(NO_KEY);
        self.branches.insert(at + 1, Box::new(right));
        self.index.insert(at + 1, fence);
    }

    /// Removes a key from its leaf; returns its value, and whether the leaf has become sparse.
    #[inline(always)]
    pub(crate) fn remove(&mut self, (at, place): (usize, usize), key: u64) -> Option<(u64, bool)> {
        let branch = &mut self.branches[at];
        let rank = branch.leaves().get(place)?.find(key).ok()?;
        let leaf = branch.leaf_mut(place);
        let stored = leaf.remove(rank);
        self.entries -= 1;
        Some((stored, leaf.len() < self.options.leaf_entries / 4))
    }

    /// Drops a sparse leaf if it is empty; otherwise returns the left one of two neighbours, the
    /// sparse leaf among them, that fit into one leaf.
    pub(crate) fn drop_or_pair(&mut self, at: usize, place: usize) -> Option<usize> {
        let branch = &mut self.branches[at];
        if branch.held(place) == 0 {
            let empty = branch.remove(place);
            self.spare.keep(empty);
            if branch.leaves().is_empty() {
                self.drop_branch(at);
            }
            return None;
        }
        let fits = |&left: &usize| {
            left + 1 < branch.leaves().len()
                && branch.held(left) + branch.held(left + 1) <= self.options.leaf_entries * 3 / 4
        };
        Some(place)
            .filter(fits)
            .or_else(|| place.checked_sub(1).filter(fits))
    }

    /// Merges two neighbours that fit into one leaf.
    pub(crate) fn join_pair(&mut self, at: usize, left: usize) {
        let branch = &mut self.branches[at];
        let right = branch.remove(left + 1);
        branch.leaf_mut(left).extend(right.keys(), right.values());
        self.spare.keep(right);
    }

    /// Drops a branch without leaves, unless it is the only one; its left neighbour gets its range,
    /// or, if it is the first, its right neighbour.
    pub(crate) fn drop_branch(&mut self, at: usize) {
        if self.branches.len() == 1 {
            return;
        }
        self.branches.remove(at);
        self.index.remove(at.max(1));
        if at == 0 {
            self.branches[0].lower_first_fence();
        }
    }

    /// Adds a leaf after all others; `fence` is at most its first key and above every other key.
    pub(crate) fn push_leaf(&mut self, fence: u64, leaf: Leaf) {
        self.entries += leaf.len();
        let last = self.branches.len() - 1;
        let branch = &mut self.branches[last];
        let leaves = branch.leaves().len();
        if leaves == 0 {
            let fence = self.index.fence(last).unwrap_or(0);
            branch.push(fence, leaf);
        } else if leaves < self.options.branch_leaves {
            branch.push(fence, leaf);
        } else {
            self.branches.push(Box::new(Branch::of([(fence, leaf)])));
            self.index.insert(last + 1, fence);
        }
    }

    /// Reads as [`ExclusiveMap::read_up`](crate::map::exclusive_map::ExclusiveMap::read_up) does;
    /// `read_leaf` appends the entries of a leaf, its pending ones included, between narrower
    /// bounds.
    pub(crate) fn read_up(
        &self,
        (lower, upper): (u64, u64),
        entries: &mut Vec<(u64, u64)>,
        read_leaf: impl FnOnce(&Branch<L>, usize, (u64, u64), &mut Vec<(u64, u64)>),
    ) -> Option<u64> {
        if lower == NO_KEY {
            entries.extend(self.greatest.map(|value| (NO_KEY, value)));
            return None;
        }
        let (at, place) = self.find(lower);
        let next = self.fence_behind(at, place);
        read_leaf(&self.branches[at], place, (lower, upper.min(next - 1)), entries);
        (next <= upper).then_some(next)
    }

    /// The same from the upper end.
    pub(crate) fn read_down(
        &self,
        (lower, upper): (u64, u64),
        entries: &mut Vec<(u64, u64)>,
        read_leaf: impl FnOnce(&Branch<L>, usize, (u64, u64), &mut Vec<(u64, u64)>),
    ) -> Option<u64> {
        let below = upper.min(NO_KEY - 1);
        let mut rest = None;
        if lower <= below {
            let (at, place) = self.find(below);
            let fence = self.fence_of(at, place);
            read_leaf(&self.branches[at], place, (lower.max(fence), below), entries);
            rest = (lower < fence).then(|| fence - 1);
        }
        if upper == NO_KEY {
            entries.extend(self.greatest.map(|value| (NO_KEY, value)));
        }
        rest
    }

    /// Visits the greatest possible key, if it is present and within the bound.
    pub(crate) fn visit_greatest(&self, upper: u64, visit: &mut impl FnMut(&[u64], &[u64])) {
        if upper == NO_KEY
            && let Some(value) = self.greatest
        {
            visit(&[NO_KEY], &[value]);
        }
    }

    /// Returns the bytes used on the heap.
    pub(crate) fn bytes(&self) -> usize {
        let branches: usize = self.branches.iter().map(|branch| branch.bytes()).sum();
        let pointers = self.branches.capacity() * size_of::<Box<Branch<L>>>();
        self.index.bytes() + pointers + branches + self.spare.bytes()
    }

    /// Returns the fill of the leaves, from 0 to 1.
    pub(crate) fn fill(&self) -> f64 {
        let leaves: usize = self.branches.iter().map(|branch| branch.leaves().len()).sum();
        self.entries as f64 / (leaves * self.options.leaf_entries).max(1) as f64
    }

    /// Checks the invariants. Time O(n).
    pub(crate) fn check(&self) -> Result<(), String> {
        self.index.check()?;
        let mut entries = 0;
        for (at, branch) in self.branches.iter().enumerate() {
            let lower = self.index.fence(at).ok_or("a branch has no fence")?;
            let upper = self.index.fence(at + 1).map_or(NO_KEY - 1, |fence| fence - 1);
            branch.check(lower, upper)?;
            entries += branch.leaves().iter().map(|leaf| leaf.len()).sum::<usize>();
        }
        if self.index.fence(self.branches.len()).is_some() {
            return Err("there are more fences than branches".into());
        }
        if entries != self.entries {
            return Err(format!(
                "{entries} entries in leaves, but {} are counted",
                self.entries
            ));
        }
        Ok(())
    }
}
