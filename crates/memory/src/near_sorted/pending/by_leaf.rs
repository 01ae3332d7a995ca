//! Pending entries of the leaves of a branch, and the operations of a branch on them.

use std::ops::{Range, RangeInclusive};

use crate::near_sorted::join::waiting::{Fingerprints, Waiting, WaitingRoom, fingerprint};
use crate::near_sorted::options::{BRANCH_LEAVES, TreeOptions};
use crate::near_sorted::tree::branch::{ASKED_AT_ONCE, Branch};
use crate::near_sorted::tree::layer::Layer;
use crate::near_sorted::tree::leaf::Leaf;
use crate::search::keys::{Compiled, LANES, NO_KEY, Vectors};
use crate::search::prefetch::prefetch;

/// The layer of pending entries. Invariants: `late[slots[place]]` holds the entries pending for the
/// leaf at `place`; each slot occurs once, and slots without a leaf are empty; `waiting` is the
/// total number of pending entries; `passes` is 0 for leaves without pending entries.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PendingByLeaf {
    slots: [u8; BRANCH_LEAVES],
    /// Number of pending entries, by slot.
    counts: [u8; BRANCH_LEAVES],
    /// Number of scans that have joined the pending entries since the first arrived, by slot.
    passes: [u8; BRANCH_LEAVES],
    waiting: usize,
    /// Fingerprints of the pending entries, by slot.
    fingerprints: Vec<Fingerprints>,
    /// Pending entries, which hide those of the same key in the leaves, by slot; empty until there
    /// are some.
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

    /// Returns the entries pending for a leaf, if any.
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
        // Usually nothing matches. The branch predictor expects that, and the leaf is fetched
        // speculatively; where matches are frequent it is not.
        if self.layer.waiting > 0 {
            let matching =
                self.layer.fingerprints[self.layer.slot(place)].matching(fingerprint(key), vectors);
            if matching != 0 {
                return self.get_waiting(place, key, matching);
            }
        }
        self.leaves.get(place)?.get(key, vectors)
    }

    /// Looks up a key whose fingerprint matches these pending entries. Lookups of the newest keys
    /// usually succeed here, so the fingerprint selects the entry, instead of a search of
    /// unpredictable length.
    #[inline(never)]
    fn get_waiting(&self, place: usize, key: u64, matching: u32) -> Option<u64> {
        let waiting = self.layer.late[self.layer.slot(place)].newest(key, matching);
        waiting.or_else(|| self.leaves.get(place)?.get(key, Compiled))
    }

    /// Returns the number of entries pending for all leaves.
    #[inline(always)]
    pub(crate) fn waiting(&self) -> usize {
        self.layer.waiting
    }

    /// Returns the entries pending for a leaf, if any.
    #[inline(always)]
    pub(crate) fn waiting_for(&self, place: usize) -> Option<Waiting<'_>> {
        self.layer.waiting_for(place)
    }

    /// Counts a scan of a leaf with pending entries; returns how many came before it since the
    /// first entry arrived.
    #[inline(always)]
    pub(crate) fn pass(&mut self, place: usize) -> u8 {
        let slot = self.layer.slot(place);
        let before = self.layer.passes[slot];
        self.layer.passes[slot] = before.saturating_add(1);
        before
    }

    /// Adds a pending entry for a leaf, hiding older ones of the same key; returns whether there
    /// was room.
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

    /// Drops the pending entries of these leaves after they were merged.
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

    /// Frees the memory for pending entries if there are none.
    pub(crate) fn shrink(&mut self) {
        if self.layer.waiting == 0 {
            self.layer.late = Vec::new();
            self.layer.fingerprints = Vec::new();
        }
    }

    /// Returns a leaf, its pending entries, and the next leaf, for a merge.
    #[inline(always)]
    pub(crate) fn leaf_to_merge(&mut self, place: usize) -> (&mut Leaf, Option<Waiting<'_>>, Option<&Leaf>) {
        let slot = self.layer.slot(place);
        let count = self.layer.count(slot);
        let waiting = (count > 0).then(|| self.layer.late[slot].waiting(count));
        let (before, behind) = self.leaves.split_at_mut(place + 1);
        (&mut before[place], waiting, behind.first())
    }

    /// Prefetches the fences and the counts of pending entries.
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

    /// Prefetches the fingerprints of a leaf's pending entries.
    #[inline(always)]
    pub(crate) fn prefetch_waiting(&self, place: usize) {
        if let Some(fingerprints) = self.layer.fingerprints.get(self.layer.slot(place)) {
            fingerprints.prefetch();
        }
    }

    /// Prefetches the slot of a leaf's next pending entry.
    #[inline(always)]
    pub(crate) fn prefetch_room(&self, place: usize) {
        let slot = self.layer.slot(place);
        if let Some(room) = self.layer.late.get(slot) {
            room.prefetch_room(self.layer.count(slot));
        }
    }

    /// Prefetches the page of a leaf, and its pending entries.
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

    /// Returns a leaf if it has pending entries: joining needs its keys in no order. Sequential
    /// reads are prefetched better by the hardware.
    #[inline(always)]
    fn leaf_to_join(&self, place: usize) -> Option<&Leaf> {
        self.leaves
            .get(place)
            .filter(|_| self.layer.count(self.layer.slot(place)) > 0)
    }

    /// Prefetches the part of a leaf between the bounds, if the leaf has pending entries.
    #[inline(always)]
    pub(crate) fn prefetch_joined(&self, place: usize, (lower, upper): (u64, u64)) {
        if let Some(leaf) = self.leaf_to_join(place) {
            leaf.prefetch_between(lower, upper);
        }
    }

    /// Prefetches for a reader of the leaves up to the last one, with keys up to a bound: the pages
    /// of a few leaves at once, whose addresses the processor translates together, and the next
    /// leaf if it has pending entries. If all of the next leaf is needed it is returned instead:
    /// the join of this leaf prefetches it meanwhile. Call it at each leaf, starting with the
    /// first.
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
