//! Branches: the fences of up to 64 leaves, and the leaves.

use std::ops::Range;

use super::leaf::Leaf;
use super::options::{BRANCH_LEAVES, TreeOptions};
use super::search::{LANES, NO_KEY, count_up_to};
use crate::mem::prefetch::prefetch;

/// Invariants: a fence for each leaf, then [`NO_KEY`]; the keys of a leaf, of which there are some, are at least its fence and
/// below the next; the first fence is that of the branch; `waiting` entries wait in the leaves.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Branch {
    fences: [u64; BRANCH_LEAVES],
    leaves: Vec<Box<Leaf>>,
    waiting: usize,
}

impl Branch {
    pub(super) fn new() -> Self {
        Self {
            fences: [NO_KEY; BRANCH_LEAVES],
            leaves: Vec::with_capacity(BRANCH_LEAVES),
            waiting: 0,
        }
    }

    /// A branch of these leaves and their fences.
    pub(super) fn of(fenced: impl IntoIterator<Item = (u64, Box<Leaf>)>) -> Self {
        let mut branch = Self::new();
        for (fence, leaf) in fenced {
            branch.push(fence, leaf);
        }
        branch
    }

    #[inline(always)]
    pub(super) fn leaves(&self) -> &[Box<Leaf>] {
        &self.leaves
    }

    #[inline(always)]
    pub(super) fn leaf_mut(&mut self, place: usize) -> &mut Leaf {
        &mut self.leaves[place]
    }

    pub(super) fn fence(&self, place: usize) -> Option<u64> {
        self.fences[..self.leaves.len()].get(place).copied()
    }

    /// Which leaf a key belongs to; 0 of a branch without leaves.
    #[inline(always)]
    pub(super) fn find(&self, key: u64) -> usize {
        count_up_to(&self.fences, key).saturating_sub(1)
    }

    #[inline(always)]
    pub(super) fn get(&self, key: u64) -> Option<u64> {
        let leaf = self.leaves.get(self.find(key))?;
        // Mostly nothing is found here. The processor expects that, and asks for the rest of the leaf meanwhile.
        if self.waiting > 0
            && let Some(value) = leaf.get_waiting(key)
        {
            return Some(value);
        }
        leaf.get(key)
    }

    /// How many entries wait in the leaves.
    #[inline(always)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Lets an entry wait in its leaf, over older ones of the same key; says whether there was room.
    #[inline(always)]
    pub(super) fn push_late(&mut self, place: usize, (key, value): (u64, u64), options: &TreeOptions) -> bool {
        let Some(leaf) = self.leaves.get_mut(place) else {
            return false;
        };
        let has_room = leaf.waiting() < options.pending_entries && leaf.held() < options.leaf_entries;
        if has_room {
            leaf.push_late(key, value);
            self.waiting += 1;
        }
        has_room
    }

    /// A leaf, and the one behind it.
    #[inline(always)]
    pub(super) fn leaf_and_next(&mut self, place: usize) -> (&mut Box<Leaf>, Option<&Leaf>) {
        let (leaves, behind) = self.leaves.split_at_mut(place + 1);
        (&mut leaves[place], behind.first().map(Box::as_ref))
    }

    /// So many entries less wait in the leaves.
    #[inline(always)]
    pub(super) fn forget_waiting(&mut self, count: usize) {
        self.waiting -= count;
    }

    /// Asks for the fences, and how many entries wait.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        prefetch(&self.waiting);
        for line in self.fences.as_chunks::<LANES>().0 {
            prefetch(line);
        }
    }

    /// Puts other leaves, which begin with the same fence, in the place of some. There must be room.
    pub(super) fn replace(&mut self, places: Range<usize>, fenced: Vec<(u64, Box<Leaf>)>) -> Vec<Box<Leaf>> {
        let (old_len, added) = (self.leaves.len(), fenced.len());
        self.fences.copy_within(places.end..old_len, places.start + added);
        for (fence, (new, _)) in self.fences[places.start..].iter_mut().zip(&fenced) {
            *fence = *new;
        }
        let leaves = fenced.into_iter().map(|(_, leaf)| leaf);
        let replaced = self.leaves.splice(places, leaves).collect();
        let len = self.leaves.len();
        self.fences[len..old_len.max(len)].fill(NO_KEY);
        replaced
    }

    /// Adds a leaf behind all others.
    pub(super) fn push(&mut self, fence: u64, leaf: Box<Leaf>) {
        self.waiting += leaf.waiting();
        self.fences[self.leaves.len()] = fence;
        self.leaves.push(leaf);
    }

    /// Puts a leaf at its place.
    pub(super) fn insert(&mut self, place: usize, fence: u64, leaf: Box<Leaf>) {
        self.fences.copy_within(place..self.leaves.len(), place + 1);
        self.fences[place] = fence;
        self.leaves.insert(place, leaf);
    }

    /// Takes the leaf at this place away, in which nothing waits; the one before it, or if there is none the one behind it, gets its range.
    pub(super) fn remove(&mut self, place: usize) -> Box<Leaf> {
        let fences_from = place.max(1);
        if fences_from < self.leaves.len() {
            self.fences.copy_within(fences_from + 1.., fences_from);
        }
        self.fences[self.leaves.len() - 1] = NO_KEY;
        self.leaves.remove(place)
    }

    /// Takes all leaves away, with their fences.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (u64, Box<Leaf>)> + use<> {
        let fences = std::mem::replace(&mut self.fences, [NO_KEY; BRANCH_LEAVES]);
        let leaves = std::mem::replace(&mut self.leaves, Vec::with_capacity(BRANCH_LEAVES));
        self.waiting = 0;
        fences.into_iter().zip(leaves)
    }

    /// Takes the leaves from this place on away, with their fences.
    pub(super) fn split_off(&mut self, place: usize) -> Self {
        let right = self.leaves.split_off(place);
        let branch = Self::of(self.fences[place..].iter().copied().zip(right));
        self.fences[place..].fill(NO_KEY);
        self.waiting -= branch.waiting;
        branch
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.leaves.capacity() * size_of::<Box<Leaf>>()
            + self.leaves.len() * size_of::<Leaf>()
    }

    /// The branch before this one is gone: the first leaf takes what lies below.
    pub(super) fn lower_first_fence(&mut self) {
        if !self.leaves.is_empty() {
            self.fences[0] = 0;
        }
    }

    /// What does not hold of the invariants; all keys must lie between the bounds.
    pub(super) fn check(&self, lower: u64, upper: u64) -> Result<(), String> {
        let (fences, rest) = self.fences.split_at(self.leaves.len());
        if rest.iter().any(|&fence| fence != NO_KEY) {
            return Err("a branch has more fences than leaves".into());
        }
        if !fences.is_sorted_by(|a, b| a < b) || fences.first().is_some_and(|&first| first != lower) {
            return Err(format!("fences of leaves do not ascend from {lower}: {fences:?}"));
        }
        for (place, leaf) in self.leaves.iter().enumerate() {
            leaf.check()?;
            let upper = self.fence(place + 1).map_or(upper, |fence| fence - 1);
            let range = fences[place]..=upper;
            let mut keys = leaf.keys().iter().chain(leaf.waiting_columns().0);
            if leaf.held() == 0 || keys.any(|key| !range.contains(key)) {
                return Err(format!(
                    "a leaf of {range:?} holds {:?}, and {:?} wait in it",
                    leaf.keys(),
                    leaf.waiting_columns().0
                ));
            }
        }
        let waiting: usize = self.leaves.iter().map(|leaf| leaf.waiting()).sum();
        if waiting != self.waiting {
            return Err(format!("{waiting} entries wait in a branch, but {} are counted", self.waiting));
        }
        Ok(())
    }
}
