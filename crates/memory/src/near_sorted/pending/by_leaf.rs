//! Entries that wait for the leaves of a branch, and what a branch does with them.

use std::ops::{Range, RangeInclusive};

use crate::near_sorted::join::waiting::{Fingerprints, Waiting, WaitingRoom, fingerprint};
use crate::near_sorted::options::{BRANCH_LEAVES, TreeOptions};
use crate::near_sorted::tree::branch::{ASKED_AT_ONCE, Branch};
use crate::near_sorted::tree::layer::Layer;
use crate::near_sorted::tree::leaf::Leaf;
use crate::search::keys::{Compiled, LANES, NO_KEY, Vectors};
use crate::search::prefetch::prefetch;

/// The layer of pending entries. Invariants: `late[slots[place]]` waits for the leaf at that place, each slot is there once, and
/// what belongs to none is empty; `waiting` is how many wait in all; `passes` is 0 where nothing waits.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PendingByLeaf {
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
}

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

impl PendingByLeaf {
    #[inline(always)]
    fn slot(&self, place: usize) -> usize {
        usize::from(self.slots[place])
    }

    #[inline(always)]
    fn count(&self, slot: usize) -> usize {
        usize::from(self.counts[slot])
    }

    /// What waits for a leaf, if anything does.
    #[inline(always)]
    fn waiting_for(&self, place: usize) -> Option<Waiting<'_>> {
        match self.count(self.slot(place)) {
            0 => None,
            count => Some(self.late[self.slot(place)].waiting(count)),
        }
    }
}

impl Layer for PendingByLeaf {
    fn new() -> Self {
        Self {
            slots: SLOTS,
            counts: [0; BRANCH_LEAVES],
            passes: [0; BRANCH_LEAVES],
            waiting: 0,
            fingerprints: Vec::new(),
            late: Vec::new(),
        }
    }

    fn insert(&mut self, place: usize, leaves: usize) {
        self.slots[place..=leaves].rotate_right(1);
    }

    fn remove(&mut self, place: usize, leaves: usize) {
        self.slots[place..leaves].rotate_left(1);
    }

    fn replace(&mut self, places: Range<usize>, added: usize, leaves: usize) {
        let removed = places.len();
        if added > removed {
            self.slots[places.end..leaves + added - removed].rotate_right(added - removed);
        } else {
            self.slots[places.start + added..leaves].rotate_left(removed - added);
        }
    }

    #[inline(always)]
    fn held(&self, place: usize) -> usize {
        self.count(self.slot(place))
    }

    fn bytes(&self) -> usize {
        self.late.capacity() * size_of::<WaitingRoom>()
            + self.fingerprints.capacity() * size_of::<Fingerprints>()
    }

    fn check(&self, leaves: usize, range_of: impl Fn(usize) -> RangeInclusive<u64>) -> Result<(), String> {
        for place in 0..leaves {
            let Some(waiting) = self.waiting_for(place) else {
                continue;
            };
            waiting.check(&self.fingerprints[self.slot(place)])?;
            let (keys, _) = waiting.columns();
            let range = range_of(place);
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
        let of_leaves: usize = (0..leaves)
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

impl Branch<PendingByLeaf> {
    #[inline(always)]
    pub(crate) fn get(&self, key: u64, vectors: impl Vectors) -> Option<u64> {
        let place = self.find_with(key, vectors)?;
        // Mostly nothing is found here. The processor expects that, and asks for the leaf meanwhile; where it has seen that
        // much is found, it does not.
        if self.layer.waiting > 0 {
            let matching =
                self.layer.fingerprints[self.layer.slot(place)].matching(fingerprint(key), vectors);
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
        let waiting = self.layer.late[self.layer.slot(place)].newest(key, matching);
        waiting.or_else(|| self.leaves.get(place)?.get(key, Compiled))
    }

    /// How many entries wait for all leaves.
    #[inline(always)]
    pub(crate) fn waiting(&self) -> usize {
        self.layer.waiting
    }

    /// What waits for a leaf, if anything does.
    #[inline(always)]
    pub(crate) fn waiting_for(&self, place: usize) -> Option<Waiting<'_>> {
        self.layer.waiting_for(place)
    }

    /// A scan passes a leaf for which something waits; returns how many have done so before, since something does.
    #[inline(always)]
    pub(crate) fn pass(&mut self, place: usize) -> u8 {
        let slot = self.layer.slot(place);
        let before = self.layer.passes[slot];
        self.layer.passes[slot] = before.saturating_add(1);
        before
    }

    /// Lets an entry wait for its leaf, over older ones of the same key; says whether there was room.
    #[inline(always)]
    pub(crate) fn push_late(&mut self, place: usize, entry: (u64, u64), options: &TreeOptions) -> bool {
        if self.layer.late.is_empty() {
            self.layer.late.reserve_exact(BRANCH_LEAVES);
            self.layer.late.resize(BRANCH_LEAVES, WaitingRoom::EMPTY);
            self.layer.fingerprints.reserve_exact(BRANCH_LEAVES);
            self.layer.fingerprints.resize(BRANCH_LEAVES, Fingerprints::NONE);
        }
        let slot = self.layer.slot(place);
        let count = self.layer.count(slot);
        let has_room = count < options.pending_entries && place < self.leaves.len();
        if has_room {
            self.layer.late[slot].push(&mut self.layer.fingerprints[slot], count, entry);
            self.layer.counts[slot] += 1;
            self.layer.waiting += 1;
        }
        has_room
    }

    /// What waits for these leaves has been merged.
    #[inline(always)]
    pub(crate) fn forget_waiting(&mut self, places: Range<usize>) {
        if self.layer.waiting == 0 {
            return;
        }
        for place in places {
            let slot = self.layer.slot(place);
            self.layer.waiting -= self.layer.count(slot);
            self.layer.counts[slot] = 0;
            self.layer.passes[slot] = 0;
            self.layer.fingerprints[slot] = Fingerprints::NONE;
        }
    }

    /// Gives back the room of what waits, if nothing does.
    pub(crate) fn shrink(&mut self) {
        if self.layer.waiting == 0 {
            self.layer.late = Vec::new();
            self.layer.fingerprints = Vec::new();
        }
    }

    /// What is needed to merge what waits for a leaf with it, and the next leaf.
    #[inline(always)]
    pub(crate) fn leaf_to_merge(&mut self, place: usize) -> (&mut Leaf, Option<Waiting<'_>>, Option<&Leaf>) {
        let slot = self.layer.slot(place);
        let count = self.layer.count(slot);
        let waiting = (count > 0).then(|| self.layer.late[slot].waiting(count));
        let (before, behind) = self.leaves.split_at_mut(place + 1);
        (&mut before[place], waiting, behind.first())
    }

    /// Asks for the fences, and how many entries wait.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.layer.slots);
        prefetch(&self.layer.counts);
        prefetch(&self.layer.waiting);
        prefetch(&self.samples);
        for line in self.fences.as_chunks::<LANES>().0 {
            prefetch(line);
        }
    }

    /// Asks for the fingerprints of what waits for a leaf.
    #[inline(always)]
    pub(crate) fn prefetch_waiting(&self, place: usize) {
        if let Some(fingerprints) = self.layer.fingerprints.get(self.layer.slot(place)) {
            fingerprints.prefetch();
        }
    }

    /// Asks for where the next entry goes that is to wait for a leaf.
    #[inline(always)]
    pub(crate) fn prefetch_room(&self, place: usize) {
        let slot = self.layer.slot(place);
        if let Some(room) = self.layer.late.get(slot) {
            room.prefetch_room(self.layer.count(slot));
        }
    }

    /// Asks for the page of a leaf, and for what waits for it.
    #[inline(always)]
    pub(crate) fn prefetch_outline(&self, place: usize) {
        if let Some(leaf) = self.leaves.get(place) {
            leaf.prefetch_page();
            let slot = self.layer.slot(place);
            if let Some(room) = self.layer.late.get(slot) {
                room.prefetch_entries(self.layer.count(slot));
            }
        }
    }

    /// A leaf, if something waits for it: to join them its keys are needed in no order. What is read in order the processor asks
    /// for itself, and better.
    #[inline(always)]
    fn leaf_to_join(&self, place: usize) -> Option<&Leaf> {
        self.leaves
            .get(place)
            .filter(|_| self.layer.count(self.layer.slot(place)) > 0)
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
}
