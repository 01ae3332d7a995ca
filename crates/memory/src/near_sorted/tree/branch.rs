//! Branches: the fences of up to 64 leaves, the leaves, and what a layer keeps beside them.

use std::collections::VecDeque;
use std::ops::Range;

use super::layer::Layer;
use super::leaf::Leaf;
use crate::near_sorted::options::BRANCH_LEAVES;
use crate::search::keys::{Compiled, LANES, NO_KEY, Vectors};

/// Leaves whose pages are prefetched at once by a reader that goes from one to the next.
pub(crate) const ASKED_AT_ONCE: usize = 4;

/// Invariants: a fence for each leaf, then [`NO_KEY`]; the keys of a leaf are at least its fence and below the next; the
/// first fence is that of the branch; a leaf is empty only while the layer holds entries for it.
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

    /// A branch of these leaves and their fences.
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

    /// Which leaf a key belongs to; 0 of a branch without leaves.
    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> usize {
        self.find_with(key, Compiled).unwrap_or(0)
    }

    /// Which leaf a key belongs to, if there are any.
    #[inline(always)]
    pub(crate) fn find_with(&self, key: u64, vectors: impl Vectors) -> Option<usize> {
        let group = vectors.count_up_to(&self.samples, key).checked_sub(1)?;
        let (groups, _) = self.fences.as_chunks::<LANES>();
        Some(group * LANES + vectors.count_up_to(&groups[group], key) - 1)
    }

    /// How many entries are in a leaf and held for it.
    #[inline(always)]
    pub(crate) fn held(&self, place: usize) -> usize {
        self.leaves[place].len() + self.layer.held(place)
    }

    /// Puts another leaf in the place of one that is written anew; returns that one. Until the whole window has been
    /// [replaced](Self::replace), the fences are those of both, and nothing can be found by them.
    #[inline(always)]
    pub(crate) fn exchange(&mut self, place: usize, fence: u64, leaf: Leaf) -> Leaf {
        self.fences[place] = fence;
        std::mem::replace(&mut self.leaves[place], leaf)
    }

    /// Puts other leaves in the place of some for which nothing is held, and which belong to the same range. There must be room.
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

    /// Adds a leaf behind all others.
    pub(crate) fn push(&mut self, fence: u64, leaf: Leaf) {
        self.fences[self.leaves.len()] = fence;
        self.leaves.push(leaf);
        self.sample_fences();
    }

    /// Puts a leaf at its place.
    pub(crate) fn insert(&mut self, place: usize, fence: u64, leaf: Leaf) {
        self.layer.insert(place, self.leaves.len());
        self.fences.copy_within(place..self.leaves.len(), place + 1);
        self.fences[place] = fence;
        self.leaves.insert(place, leaf);
        self.sample_fences();
    }

    /// Takes the leaf at this place away, for which nothing is held; the one before it, or if there
    /// is none the one behind it, gets its range.
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

    /// Takes all leaves away, with their fences. Nothing is held for them.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (u64, Leaf)> + use<L> {
        let fences = std::mem::replace(&mut self.fences, [NO_KEY; BRANCH_LEAVES]);
        self.sample_fences();
        let leaves = std::mem::replace(&mut self.leaves, Vec::with_capacity(BRANCH_LEAVES));
        fences.into_iter().zip(leaves)
    }

    /// Takes the leaves from this place on away, with their fences. Nothing is held for them.
    pub(crate) fn split_off(&mut self, place: usize) -> Self {
        let right = self.leaves.split_off(place);
        let branch = Self::of(self.fences[place..].iter().copied().zip(right));
        self.fences[place..].fill(NO_KEY);
        self.sample_fences();
        branch
    }

    /// Bytes of the heap, but for the pages of leaves.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.leaves.capacity() * size_of::<Leaf>() + self.layer.bytes()
    }

    /// The branch before this one is gone: the first leaf takes what lies below.
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

    /// What does not hold of the invariants; all keys must lie between the bounds.
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
