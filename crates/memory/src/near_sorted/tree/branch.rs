//! Branches: the fences of up to 64 leaves, the leaves, and what waits to be merged into them.

use std::collections::VecDeque;
use std::ops::Range;

use super::leaf::Leaf;
use crate::near_sorted::options::{BRANCH_LEAVES, TreeOptions};
use crate::near_sorted::pending::waiting::{Fingerprints, Waiting, WaitingRoom, fingerprint};
use crate::near_sorted::search::{Compiled, LANES, NO_KEY, Vectors};
use crate::search::prefetch::prefetch;

/// Invariants: a fence for each leaf, then [`NO_KEY`]; the keys of a leaf, of which there are some, and of what waits for it,
/// are at least its fence and below the next; the first fence is that of the branch; `late[slots[place]]` waits for the leaf
/// at that place, each slot is there once, and what belongs to none is empty; `waiting` is how many wait in all; `passes` is 0
/// where nothing waits.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Branch {
    /// Every eighth fence.
    samples: [u64; BRANCH_LEAVES / LANES],
    fences: [u64; BRANCH_LEAVES],
    slots: [u8; BRANCH_LEAVES],
    /// How many entries wait, by slot.
    counts: [u8; BRANCH_LEAVES],
    /// How many scans have joined what waits since something does, by slot.
    passes: [u8; BRANCH_LEAVES],
    waiting: usize,
    /// Of what waits, by slot.
    fingerprints: Vec<Fingerprints>,
    /// Entries that hide those of the same key in the leaves, by slot; nothing until there are some.
    late: Vec<WaitingRoom>,
    leaves: Vec<Leaf>,
}

/// Leaves whose pages are asked for at once by whoever reads one after the other.
const ASKED_AT_ONCE: usize = 4;

/// The slots in order.
const SLOTS: [u8; BRANCH_LEAVES] = {
    let mut slots = [0; BRANCH_LEAVES];
    let mut place: u8 = 0;
    while (place as usize) < BRANCH_LEAVES {
        slots[place as usize] = place;
        place += 1;
    }
    slots
};

impl Branch {
    pub(crate) fn new() -> Self {
        Self {
            samples: [NO_KEY; BRANCH_LEAVES / LANES],
            fences: [NO_KEY; BRANCH_LEAVES],
            slots: SLOTS,
            counts: [0; BRANCH_LEAVES],
            passes: [0; BRANCH_LEAVES],
            waiting: 0,
            fingerprints: Vec::new(),
            late: Vec::new(),
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
    fn find_with(&self, key: u64, vectors: impl Vectors) -> Option<usize> {
        let group = vectors.count_up_to(&self.samples, key).checked_sub(1)?;
        let (groups, _) = self.fences.as_chunks::<LANES>();
        Some(group * LANES + vectors.count_up_to(&groups[group], key) - 1)
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: u64, vectors: impl Vectors) -> Option<u64> {
        let place = self.find_with(key, vectors)?;
        // Mostly nothing is found here. The processor expects that, and asks for the leaf meanwhile; where it has seen that
        // much is found, it does not.
        if self.waiting > 0 {
            let matching = self.fingerprints[self.slot(place)].matching(fingerprint(key), vectors);
            if matching != 0 {
                return self.get_waiting(place, key, matching);
            }
        }
        self.leaves.get(place)?.get(key, vectors)
    }

    /// Looks a key up that seems to be that of one of these entries that wait for its leaf. Of the newest keys most do: so which
    /// entry it is tells the fingerprint, and no search whose end nobody can predict.
    #[inline(never)]
    fn get_waiting(&self, place: usize, key: u64, matching: u32) -> Option<u64> {
        let waiting = self.late[self.slot(place)].newest(key, matching);
        waiting.or_else(|| self.leaves.get(place)?.get(key, Compiled))
    }

    #[inline(always)]
    fn slot(&self, place: usize) -> usize {
        usize::from(self.slots[place])
    }

    /// How many entries wait for all leaves.
    #[inline(always)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// What waits for a leaf, if anything does.
    #[inline(always)]
    pub(crate) fn waiting_for(&self, place: usize) -> Option<Waiting<'_>> {
        match self.count(self.slot(place)) {
            0 => None,
            count => Some(self.late[self.slot(place)].waiting(count)),
        }
    }

    #[inline(always)]
    fn count(&self, slot: usize) -> usize {
        usize::from(self.counts[slot])
    }

    /// A scan passes a leaf for which something waits; returns how many have done so before, since something does.
    #[inline(always)]
    pub(crate) fn pass(&mut self, place: usize) -> u8 {
        let slot = self.slot(place);
        let before = self.passes[slot];
        self.passes[slot] = before.saturating_add(1);
        before
    }

    /// How many entries are in a leaf and wait for it.
    #[inline(always)]
    pub(crate) fn held(&self, place: usize) -> usize {
        self.leaves[place].len() + self.count(self.slot(place))
    }

    /// Lets an entry wait for its leaf, over older ones of the same key; says whether there was room.
    #[inline(always)]
    pub(crate) fn push_late(&mut self, place: usize, entry: (u64, u64), options: &TreeOptions) -> bool {
        if self.late.is_empty() {
            self.late.reserve_exact(BRANCH_LEAVES);
            self.late.resize(BRANCH_LEAVES, WaitingRoom::EMPTY);
            self.fingerprints.reserve_exact(BRANCH_LEAVES);
            self.fingerprints.resize(BRANCH_LEAVES, Fingerprints::NONE);
        }
        let slot = self.slot(place);
        let count = self.count(slot);
        let has_room = count < options.pending_entries && place < self.leaves.len();
        if has_room {
            self.late[slot].push(&mut self.fingerprints[slot], count, entry);
            self.counts[slot] += 1;
            self.waiting += 1;
        }
        has_room
    }

    /// What waits for these leaves has been merged.
    #[inline(always)]
    pub(crate) fn forget_waiting(&mut self, places: Range<usize>) {
        if self.waiting == 0 {
            return;
        }
        for place in places {
            let slot = self.slot(place);
            self.waiting -= self.count(slot);
            self.counts[slot] = 0;
            self.passes[slot] = 0;
            self.fingerprints[slot] = Fingerprints::NONE;
        }
    }

    /// Gives back the room of what waits, if nothing does.
    pub(crate) fn shrink(&mut self) {
        if self.waiting == 0 {
            self.late = Vec::new();
            self.fingerprints = Vec::new();
        }
    }

    /// What is needed to merge what waits for a leaf with it, and the next leaf.
    #[inline(always)]
    pub(crate) fn leaf_to_merge(&mut self, place: usize) -> (&mut Leaf, Option<Waiting<'_>>, Option<&Leaf>) {
        let slot = self.slot(place);
        let count = self.count(slot);
        let waiting = (count > 0).then(|| self.late[slot].waiting(count));
        let (before, behind) = self.leaves.split_at_mut(place + 1);
        (&mut before[place], waiting, behind.first())
    }

    /// Asks for the fences, and how many entries wait.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.slots);
        prefetch(&self.counts);
        prefetch(&self.waiting);
        prefetch(&self.samples);
        for line in self.fences.as_chunks::<LANES>().0 {
            prefetch(line);
        }
    }

    /// Asks for the fingerprints of what waits for a leaf.
    #[inline(always)]
    pub(crate) fn prefetch_waiting(&self, place: usize) {
        if let Some(fingerprints) = self.fingerprints.get(self.slot(place)) {
            fingerprints.prefetch();
        }
    }

    /// Asks for where the next entry goes that is to wait for a leaf.
    #[inline(always)]
    pub(crate) fn prefetch_room(&self, place: usize) {
        let slot = self.slot(place);
        if let Some(room) = self.late.get(slot) {
            room.prefetch_room(self.count(slot));
        }
    }

    /// Asks for the page of a leaf, and for what waits for it.
    #[inline(always)]
    pub(crate) fn prefetch_outline(&self, place: usize) {
        if let Some(leaf) = self.leaves.get(place) {
            leaf.prefetch_page();
            let slot = self.slot(place);
            if let Some(room) = self.late.get(slot) {
                room.prefetch_entries(self.count(slot));
            }
        }
    }

    /// A leaf, if something waits for it: to join them its keys are needed in no order. What is read in order the processor asks
    /// for itself, and better.
    #[inline(always)]
    fn leaf_to_join(&self, place: usize) -> Option<&Leaf> {
        self.leaves
            .get(place)
            .filter(|_| self.count(self.slot(place)) > 0)
    }

    /// Asks for what is between the bounds in a leaf for which something waits.
    #[inline(always)]
    pub(crate) fn prefetch_joined(&self, place: usize, (lower, upper): (u64, u64)) {
        if let Some(leaf) = self.leaf_to_join(place) {
            leaf.prefetch_between(lower, upper);
        }
    }

    /// Asks for what is needed next by whoever reads the leaves up to the last one, and of that the keys up to a bound: for the
    /// pages of a few at once, which the processor looks for together, and for the next one if something waits for it. If all of
    /// that one is needed it is not asked for, but returned: who joins this leaf asks for it meanwhile. To be called at each
    /// leaf from the first on.
    #[inline(always)]
    pub(crate) fn prefetch_behind(
        &self,
        first: usize,
        place: usize,
        last: usize,
        upper: u64,
    ) -> Option<&Leaf> {
        if (place - first).is_multiple_of(ASKED_AT_ONCE) {
            for behind in place + 1..(place + ASKED_AT_ONCE).min(last) + 1 {
                self.prefetch_outline(behind);
            }
        }
        let next = self.leaf_to_join(place + 1).filter(|_| place < last)?;
        let end = self.fence(last + 1).unwrap_or(NO_KEY);
        if place + 1 == last && end - 1 > upper {
            next.prefetch_between(0, upper);
            return None;
        }
        Some(next)
    }

    /// Puts another leaf in the place of one that is written anew; returns that one. Until the whole window has been
    /// [replaced](Self::replace), the fences are those of both, and nothing can be found by them.
    #[inline(always)]
    pub(crate) fn exchange(&mut self, place: usize, fence: u64, leaf: Leaf) -> Leaf {
        self.fences[place] = fence;
        std::mem::replace(&mut self.leaves[place], leaf)
    }

    /// Puts other leaves in the place of some for which nothing waits, and which belong to the same range. There must be room.
    pub(crate) fn replace(
        &mut self,
        places: Range<usize>,
        fenced: &mut VecDeque<(u64, Leaf)>,
        replaced: impl FnMut(Leaf),
    ) {
        let (old_len, added) = (self.leaves.len(), fenced.len());
        let removed = places.len();
        self.fences.copy_within(places.end..old_len, places.start + added);
        for (fence, (new, _)) in self.fences[places.start..].iter_mut().zip(&*fenced) {
            *fence = *new;
        }
        if added > removed {
            self.slots[places.end..old_len + added - removed].rotate_right(added - removed);
        } else {
            self.slots[places.start + added..old_len].rotate_left(removed - added);
        }
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
        self.slots[place..=self.leaves.len()].rotate_right(1);
        self.fences.copy_within(place..self.leaves.len(), place + 1);
        self.fences[place] = fence;
        self.leaves.insert(place, leaf);
        self.sample_fences();
    }

    /// Takes the leaf at this place away, for which nothing waits; the one before it, or if there is none the one behind it, gets its range.
    pub(crate) fn remove(&mut self, place: usize) -> Leaf {
        let fences_from = place.max(1);
        if fences_from < self.leaves.len() {
            self.fences.copy_within(fences_from + 1.., fences_from);
        }
        self.fences[self.leaves.len() - 1] = NO_KEY;
        self.sample_fences();
        self.slots[place..self.leaves.len()].rotate_left(1);
        self.leaves.remove(place)
    }

    /// Takes all leaves away, with their fences. Nothing waits for them.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (u64, Leaf)> + use<> {
        let fences = std::mem::replace(&mut self.fences, [NO_KEY; BRANCH_LEAVES]);
        self.sample_fences();
        let leaves = std::mem::replace(&mut self.leaves, Vec::with_capacity(BRANCH_LEAVES));
        fences.into_iter().zip(leaves)
    }

    /// Takes the leaves from this place on away, with their fences. Nothing waits for them.
    pub(crate) fn split_off(&mut self, place: usize) -> Self {
        let right = self.leaves.split_off(place);
        let branch = Self::of(self.fences[place..].iter().copied().zip(right));
        self.fences[place..].fill(NO_KEY);
        self.sample_fences();
        branch
    }

    /// Bytes of the heap, but for the pages of leaves.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.leaves.capacity() * size_of::<Leaf>()
            + self.late.capacity() * size_of::<WaitingRoom>()
            + self.fingerprints.capacity() * size_of::<Fingerprints>()
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
        for (place, leaf) in self.leaves.iter().enumerate() {
            leaf.check()?;
            let upper = self.fence(place + 1).map_or(upper, |fence| fence - 1);
            let range = fences[place]..=upper;
            if leaf.len() == 0 && self.waiting_for(place).is_none() {
                return Err(format!("a leaf of {range:?} is empty"));
            }
            if leaf.keys().iter().any(|key| !range.contains(key)) {
                return Err(format!("a leaf of {range:?} holds {:?}", leaf.keys()));
            }
            let Some(waiting) = self.waiting_for(place) else {
                continue;
            };
            waiting.check(&self.fingerprints[self.slot(place)])?;
            let (keys, _) = waiting.columns();
            if keys.iter().any(|key| !range.contains(key)) {
                return Err(format!("{keys:?} wait for a leaf of {range:?}"));
            }
        }
        let mut slots = self.slots;
        slots.sort_unstable();
        if slots != SLOTS {
            return Err(format!("slots of a branch are no permutation: {:?}", self.slots));
        }
        if self
            .counts
            .iter()
            .zip(self.passes)
            .any(|(&count, passes)| count == 0 && passes > 0)
        {
            return Err("scans have joined what does not wait".into());
        }
        let of_leaves: usize = (0..self.leaves.len())
            .filter_map(|place| self.waiting_for(place))
            .map(Waiting::len)
            .sum();
        let of_all: usize = self.counts.iter().copied().map(usize::from).sum();
        if of_leaves != self.waiting || of_all != self.waiting {
            return Err(format!(
                "{of_leaves} entries wait for the leaves of a branch, {of_all} in all, but {} are counted",
                self.waiting
            ));
        }
        Ok(())
    }
}
