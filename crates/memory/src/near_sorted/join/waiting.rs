//! Late entries that wait to be merged into a leaf.

use crate::near_sorted::hash::hash;
use crate::near_sorted::options::LEAF_WAITING;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::search::join::Unsorted;
use crate::search::keys::{EntryColumns, LANES, Vectors};
use crate::search::prefetch::prefetch;

/// Room for what waits for one leaf, in order of arrival.
///
/// How many entries wait, and fingerprints of their keys, stand apart from them, with those of all leaves of the branch: few
/// enough for the caches, so that a lookup, which compares with the fingerprints and seldom needs more, does not wait for
/// memory. To add an entry, two other lines are written to, one of each column; whoever reads the leaf sorts what waits for
/// it. What waits for the leaves of a branch stands together and apart from the leaves, so that the processor needs few pages
/// to add to it.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct WaitingRoom {
    keys: [u64; LEAF_WAITING],
    values: [u64; LEAF_WAITING],
}

/// Fingerprints of what waits for one leaf, and 0, which none is, behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Fingerprints([u16; LEAF_WAITING]);

/// What waits for one leaf, in order of arrival.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting<'b> {
    room: &'b WaitingRoom,
    len: usize,
}

/// What is compared before keys are.
#[inline(always)]
pub(crate) fn fingerprint(key: u64) -> u16 {
    let [.., low, high] = hash(key).to_le_bytes();
    u16::from_le_bytes([low, high]).max(1)
}

impl Fingerprints {
    pub(crate) const NONE: Self = Self([0; LEAF_WAITING]);

    /// Bits of those that are this one, the lowest that of the oldest entry.
    #[inline(always)]
    pub(crate) fn matching(&self, fingerprint: u16, vectors: impl Vectors) -> u32 {
        vectors.matching(&self.0, fingerprint)
    }

    /// Asks for them.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.0);
    }
}

impl WaitingRoom {
    pub(crate) const EMPTY: Self = Self {
        keys: [0; LEAF_WAITING],
        values: [0; LEAF_WAITING],
    };

    /// Adds an entry behind so many, over older ones of the same key. There must be room.
    #[inline(always)]
    pub(crate) fn push(&mut self, fingerprints: &mut Fingerprints, len: usize, (key, value): (u64, u64)) {
        fingerprints.0[len] = fingerprint(key);
        self.keys[len] = key;
        self.values[len] = value;
    }

    /// So many entries.
    #[inline(always)]
    pub(crate) fn waiting(&self, len: usize) -> Waiting<'_> {
        Waiting { room: self, len }
    }

    /// Both columns.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    pub(crate) fn columns_mut(&mut self) -> (&mut [u64; LEAF_WAITING], &mut [u64; LEAF_WAITING]) {
        (&mut self.keys, &mut self.values)
    }

    /// The value of a key, if one of these entries has it: that of the newest.
    #[inline(always)]
    pub(crate) fn newest(&self, key: u64, mut entries: u32) -> Option<u64> {
        while let Some(place) = entries.checked_ilog2() {
            if self.keys[place as usize] == key {
                return Some(self.values[place as usize]);
            }
            entries ^= 1 << place;
        }
        None
    }

    /// Asks for the place of an entry behind so many.
    #[inline(always)]
    pub(crate) fn prefetch_room(&self, len: usize) {
        prefetch(&self.keys[len.min(LEAF_WAITING - 1)]);
        prefetch(&self.values[len.min(LEAF_WAITING - 1)]);
    }

    /// Asks for so many entries.
    #[inline(always)]
    pub(crate) fn prefetch_entries(&self, count: usize) {
        let lines = self
            .keys
            .as_chunks::<LANES>()
            .0
            .iter()
            .zip(self.values.as_chunks::<LANES>().0);
        for (keys, values) in lines.take(count.div_ceil(LANES)) {
            prefetch(keys);
            prefetch(values);
        }
    }
}

impl<'b> Waiting<'b> {
    /// How many wait; one that arrived again is counted again.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// The oldest first.
    #[inline(always)]
    pub(crate) fn columns(self) -> EntryColumns<'b> {
        (&self.room.keys[..self.len], &self.room.values[..self.len])
    }

    /// The whole columns, with whatever stands behind the last entry.
    #[inline(always)]
    pub(crate) fn all(self) -> (&'b [u64; LEAF_WAITING], &'b [u64; LEAF_WAITING]) {
        (&self.room.keys, &self.room.values)
    }

    /// The whole columns, as they are joined with a leaf.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    pub(crate) fn unsorted(self) -> Unsorted<'b> {
        Unsorted {
            keys: &self.room.keys,
            values: &self.room.values,
            len: self.len,
        }
    }

    /// What does not hold of the fingerprints.
    pub(crate) fn check(self, fingerprints: &Fingerprints) -> Result<(), String> {
        let (keys, _) = self.columns();
        let mut expected = Fingerprints::NONE;
        for (expected, &key) in expected.0.iter_mut().zip(keys) {
            *expected = fingerprint(key);
        }
        if *fingerprints != expected {
            return Err(format!(
                "{fingerprints:?} are those of {keys:?}, which wait for a leaf"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bedload_testkit::Rng;

    use super::*;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    use crate::search::dispatch::Wide;
    use crate::search::keys::Compiled;

    #[test]
    fn the_newest_of_equal_keys_is_found_by_its_fingerprint() {
        let mut rng = Rng::new(1);
        for round in 0..if cfg!(miri) { 10 } else { 2_000 } {
            let (mut room, mut fingerprints) = (WaitingRoom::EMPTY, Fingerprints::NONE);
            let count = round % (LEAF_WAITING + 1);
            let mut entries = Vec::new();
            for place in 0..count {
                let entry = (rng.below(40), place as u64);
                room.push(&mut fingerprints, place, entry);
                entries.push(entry);
            }
            for key in 0..40 {
                let entries = entries.iter().enumerate();
                let there = entries.filter(|(_, entry)| entry.0 == key);
                let newest = there.clone().next_back().map(|(_, entry)| entry.1);
                let bits = there.fold(0, |bits, (place, _)| bits | 1_u32 << place);
                let fingerprint = fingerprint(key);
                let matching = fingerprints.matching(fingerprint, Compiled);
                assert_eq!(matching & bits, bits, "each that has the key has its fingerprint");
                assert_eq!(room.newest(key, matching), newest);
                // One that has the fingerprint of another key is not taken for it.
                let all = (1_u64 << count) - 1;
                assert_eq!(room.newest(key, u32::try_from(all).expect("32 bits")), newest);
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                if let Some(wide) = Wide::detect() {
                    assert_eq!(fingerprints.matching(fingerprint, wide), matching);
                }
            }
        }
    }
}
