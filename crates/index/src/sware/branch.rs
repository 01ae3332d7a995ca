//! Branches: the fences of up to 64 leaves, the leaves, and what waits to be merged into them.

use super::leaf::Leaf;
use super::options::{BRANCH_LEAVES, TreeOptions};
use super::pending::Pending;
use super::search::{LANES, NO_KEY, count_up_to};
use crate::mem::prefetch::prefetch;

/// Invariants: a fence for each leaf, then [`NO_KEY`]; the keys of a leaf are at least its fence and below the next;
/// the first fence is that of the branch.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Branch {
    fences: [u64; BRANCH_LEAVES],
    leaves: Vec<Box<Leaf>>,
    /// Entries that hide those of the same key in the leaves.
    pub(super) pending: Pending,
}

impl Branch {
    pub(super) fn new() -> Self {
        Self {
            fences: [NO_KEY; BRANCH_LEAVES],
            leaves: Vec::with_capacity(BRANCH_LEAVES),
            pending: Pending::new(),
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
        let place = self.find(key);
        // Mostly nothing is found here. The processor expects that, and asks for the leaf meanwhile; where it has seen that
        // much is found, it does not.
        if !self.pending.is_empty()
            && let Some(value) = self.pending.get(place, key)
        {
            return Some(value);
        }
        self.leaves.get(place)?.get(key)
    }

    /// Lets as many entries wait as there may be for the leaves that there are.
    pub(super) fn set_room(&mut self, options: &TreeOptions) {
        let room = options.pending_entries * self.leaves.len() / options.branch_leaves;
        self.pending.set_room(room.max(1));
    }

    /// Asks for the fences, and how many entries wait.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        prefetch(&self.pending);
        for line in self.fences.as_chunks::<LANES>().0 {
            prefetch(line);
        }
    }

    /// Asks for a leaf, and for what waits for it, if there is one.
    #[inline(always)]
    pub(super) fn prefetch_leaf(&self, place: usize) {
        if let Some(leaf) = self.leaves.get(place) {
            self.prefetch_pending(place);
            leaf.prefetch_all();
        }
    }

    /// Asks for what waits for a leaf, and for what is known of what waits for the next one.
    #[inline(always)]
    pub(super) fn prefetch_pending(&self, place: usize) {
        if place < BRANCH_LEAVES && !self.pending.is_empty() {
            self.pending.prefetch_blocks(place);
            self.pending.prefetch_leaf((place + 1) % BRANCH_LEAVES);
        }
    }

    /// Adds a leaf behind all others.
    pub(super) fn push(&mut self, fence: u64, leaf: Box<Leaf>) {
        self.fences[self.leaves.len()] = fence;
        self.leaves.push(leaf);
    }

    /// Puts a leaf at its place.
    pub(super) fn insert(&mut self, place: usize, fence: u64, leaf: Box<Leaf>) {
        self.fences.copy_within(place..self.leaves.len(), place + 1);
        self.fences[place] = fence;
        self.leaves.insert(place, leaf);
    }

    /// Takes the leaf at this place away; the one before it, or if there is none the one behind it, gets its range.
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
        fences.into_iter().zip(leaves)
    }

    /// Takes the leaves from this place on away, with their fences.
    pub(super) fn split_off(&mut self, place: usize) -> Self {
        let right = self.leaves.split_off(place);
        let branch = Self::of(self.fences[place..].iter().copied().zip(right));
        self.fences[place..].fill(NO_KEY);
        branch
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.leaves.capacity() * size_of::<Box<Leaf>>()
            + self.leaves.len() * size_of::<Leaf>()
            + self.pending.bytes()
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
            if leaf.len() == 0 || leaf.keys().iter().any(|key| !range.contains(key)) {
                return Err(format!("a leaf of {range:?} holds {:?}", leaf.keys()));
            }
        }
        let belongs = |key, place| (lower..=upper).contains(&key) && self.find(key) == place;
        self.pending.check(belongs)
    }
}
