//! Branches: the fences of up to 64 leaves, the leaves, and the state of a layer.

use std::collections::VecDeque;
use std::ops::Range;

use super::layer::Layer;
use super::leaf::Leaf;
use crate::near_sorted::options::BRANCH_LEAVES;
use crate::search::keys::{Compiled, LANES, NO_KEY, Vectors};

/// Number of leaves whose pages a sequential reader prefetches at once.
pub(crate) const ASKED_AT_ONCE: usize = 4;

/// Invariants: a fence for each leaf, then [`NO_KEY`]; the keys of a leaf are at least its fence
/// and below the next; the first fence is that of the branch; a leaf is empty only while the layer
/// holds entries for it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Branch<L> {
    /// Every eighth fence.
    pub(crate) samples: [u64; BRANCH_LEAVES / LANES],
    pub(crate) fences: [u64; BRANCH_LEAVES],
    pub(crate) layer: L,
    pub(crate) leaves: Vec<Leaf>,
}

impl<L: Layer> Branch<L> {
    pub(crate) fn new() -> Self {
        Self {
            samples: [NO_KEY; BRANCH_LEAVES / LANES],
            fences: [NO_KEY; BRANCH_LEAVES],
            layer: L::new(),
            leaves: Vec::with_capacity(BRANCH_LEAVES),
        }
    }

    /// Creates a branch of these leaves and their fences.
    pub(crate) fn of(fenced: impl IntoIterator<Item = (u64, Leaf)>) -> Self {
        let mut branch = Self::new();
        for (fence, leaf) in fenced {
            branch.push(fence, leaf);
        }
        branch
    }

    #[inline(always)]
    pub(crate) fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    #[inline(always)]
    pub(crate) fn leaf_mut(&mut self, place: usize) -> &mut Leaf {
        &mut self.leaves[place]
    }

    pub(crate) fn fence(&self, place: usize) -> Option<u64> {
        self.fences[..self.leaves.len()].get(place).copied()
    }

    /// Returns the leaf to which a key belongs; 0 for a branch without leaves.
    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> usize {
        self.find_with(key, Compiled).unwrap_or(0)
    }

    /// Returns the leaf to which a key belongs; `None` for a branch without leaves.
    #[inline(always)]
    pub(crate) fn find_with(&self, key: u64, vectors: impl Vectors) -> Option<usize> {
        let group = vectors.count_up_to(&self.samples, key).checked_sub(1)?;
        let (groups, _) = self.fences.as_chunks::<LANES>();
        Some(group * LANES + vectors.count_up_to(&groups[group], key) - 1)
    }

    /// Returns the number of entries of a leaf, including those that the layer holds for it.
    #[inline(always)]
    pub(crate) fn held(&self, place: usize) -> usize {
        self.leaves[place].len() + self.layer.held(place)
    }

    /// Replaces a leaf by its rewritten form; returns the old one. Until the complete window is
    /// [replaced](Self::replace), the fences are a mix of old and new, and nothing can be found by
    /// them.
    #[inline(always)]
    pub(crate) fn exchange(&mut self, place: usize, fence: u64, leaf: Leaf) -> Leaf {
        self.fences[place] = fence;
        std::mem::replace(&mut self.leaves[place], leaf)
    }

    /// Replaces leaves, for which the layer holds nothing, by others of the same range. There must
    /// be room.
    pub(crate) fn replace(
        &mut self,
        places: Range<usize>,
        fenced: &mut VecDeque<(u64, Leaf)>,
        replaced: impl FnMut(Leaf),
    ) {
        let (old_len, added) = (self.leaves.len(), fenced.len());
        self.fences.copy_within(places.end..old_len, places.start + added);
        for (fence, (new, _)) in self.fences[places.start..].iter_mut().zip(&*fenced) {
            *fence = *new;
        }
        self.layer.replace(places.clone(), added, old_len);
        let leaves = fenced.drain(..).map(|(_, leaf)| leaf);
        self.leaves.splice(places, leaves).for_each(replaced);
        let len = self.leaves.len();
        self.fences[len..old_len.max(len)].fill(NO_KEY);
        self.sample_fences();
    }

    /// Appends a leaf.
    pub(crate) fn push(&mut self, fence: u64, leaf: Leaf) {
        self.fences[self.leaves.len()] = fence;
        self.leaves.push(leaf);
        self.sample_fences();
    }

    /// Inserts a leaf at a position.
    pub(crate) fn insert(&mut self, place: usize, fence: u64, leaf: Leaf) {
        self.layer.insert(place, self.leaves.len());
        self.fences.copy_within(place..self.leaves.len(), place + 1);
        self.fences[place] = fence;
        self.leaves.insert(place, leaf);
        self.sample_fences();
    }

    /// Removes the leaf at this position, for which the layer holds nothing; its left neighbour
    /// gets its range, or, if it is the first, its right neighbour.
    pub(crate) fn remove(&mut self, place: usize) -> Leaf {
        let fences_from = place.max(1);
        if fences_from < self.leaves.len() {
            self.fences.copy_within(fences_from + 1.., fences_from);
        }
        self.fences[self.leaves.len() - 1] = NO_KEY;
        self.sample_fences();
        self.layer.remove(place, self.leaves.len());
        self.leaves.remove(place)
    }

    /// Removes all leaves, with their fences. The layer holds nothing for them.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (u64, Leaf)> + use<L> {
        let fences = std::mem::replace(&mut self.fences, [NO_KEY; BRANCH_LEAVES]);
        self.sample_fences();
        let leaves = std::mem::replace(&mut self.leaves, Vec::with_capacity(BRANCH_LEAVES));
        fences.into_iter().zip(leaves)
    }

    /// Moves the leaves from this position on, with their fences, to a new branch. The layer holds
    /// nothing for them.
    pub(crate) fn split_off(&mut self, place: usize) -> Self {
        let right = self.leaves.split_off(place);
        let branch = Self::of(self.fences[place..].iter().copied().zip(right));
        self.fences[place..].fill(NO_KEY);
        self.sample_fences();
        branch
    }

    /// Returns the bytes used on the heap, except the pages of leaves.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.leaves.capacity() * size_of::<Leaf>() + self.layer.bytes()
    }

    /// Extends the first leaf's range down to 0, after the branch before this one was removed.
    pub(crate) fn lower_first_fence(&mut self) {
        if !self.leaves.is_empty() {
            self.fences[0] = 0;
            self.sample_fences();
        }
    }

    fn sample_fences(&mut self) {
        let (groups, _) = self.fences.as_chunks::<LANES>();
        for (sample, group) in self.samples.iter_mut().zip(groups) {
            *sample = group[0];
        }
    }

    /// Checks the invariants; all keys must lie between the bounds.
    pub(crate) fn check(&self, lower: u64, upper: u64) -> Result<(), String> {
        let (fences, rest) = self.fences.split_at(self.leaves.len());
        if rest.iter().any(|&fence| fence != NO_KEY) {
            return Err("a branch has more fences than leaves".into());
        }
        if !fences.is_sorted_by(|a, b| a < b) || fences.first().is_some_and(|&first| first != lower) {
            return Err(format!("fences of leaves do not ascend from {lower}: {fences:?}"));
        }
        let (groups, _) = self.fences.as_chunks::<LANES>();
        if !groups.iter().map(|group| group[0]).eq(self.samples) {
            return Err("samples of a branch differ from its fences".into());
        }
        let range_of = |place: usize| fences[place]..=self.fence(place + 1).map_or(upper, |fence| fence - 1);
        for (place, leaf) in self.leaves.iter().enumerate() {
            leaf.check()?;
            let range = range_of(place);
            if self.held(place) == 0 {
                return Err(format!("a leaf of {range:?} is empty"));
            }
            if leaf.keys().iter().any(|key| !range.contains(key)) {
                return Err(format!("a leaf of {range:?} holds {:?}", leaf.keys()));
            }
        }
        self.layer.check(self.leaves.len(), range_of)
    }
}
