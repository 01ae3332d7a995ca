//! Late entries that are pending for a leaf.

use crate::near_sorted::hash::hash;
use crate::near_sorted::options::LEAF_WAITING;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::search::join::Unsorted;
use crate::search::keys::{EntryColumns, LANES, Vectors};
use crate::search::prefetch::prefetch;

/// Slots for the entries pending for one leaf, in order of arrival.
///
/// Their number and the fingerprints of their keys are stored apart from them, with those of all
/// leaves of the branch: small enough to stay cached, so that a lookup, which compares fingerprints
/// and seldom needs more, does not wait for memory. Adding an entry writes two other lines, one of
/// each column; readers of the leaf sort the entries. The pending entries of all leaves of a branch
/// are adjacent and apart from the leaves, so that adding to them touches few pages.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct WaitingRoom {
    keys: [u64; LEAF_WAITING],
    values: [u64; LEAF_WAITING],
}

/// Fingerprints of the entries pending for one leaf, followed by 0, which is no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Fingerprints([u16; LEAF_WAITING]);

/// The entries pending for one leaf, in order of arrival.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting<'b> {
    room: &'b WaitingRoom,
    len: usize,
}

/// Returns the fingerprint of a key, compared before the key itself.
#[inline(always)]
pub(crate) fn fingerprint(key: u64) -> u16 {
    let [.., low, high] = hash(key).to_le_bytes();
    u16::from_le_bytes([low, high]).max(1)
}

impl Fingerprints {
    pub(crate) const NONE: Self = Self([0; LEAF_WAITING]);

    /// Returns a bit for each fingerprint equal to this one, the lowest for the oldest entry.
    #[inline(always)]
    pub(crate) fn matching(&self, fingerprint: u16, vectors: impl Vectors) -> u32 {
        vectors.matching(&self.0, fingerprint)
    }

    /// Prefetches the fingerprints.
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

    /// Appends an entry after `len` others, hiding older ones of the same key. There must be room.
    #[inline(always)]
    pub(crate) fn push(&mut self, fingerprints: &mut Fingerprints, len: usize, (key, value): (u64, u64)) {
        fingerprints.0[len] = fingerprint(key);
        self.keys[len] = key;
        self.values[len] = value;
    }

    /// Returns the first `len` entries.
    #[inline(always)]
    pub(crate) fn waiting(&self, len: usize) -> Waiting<'_> {
        Waiting { room: self, len }
    }

    /// Returns both columns.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    pub(crate) fn columns_mut(&mut self) -> (&mut [u64; LEAF_WAITING], &mut [u64; LEAF_WAITING]) {
        (&mut self.keys, &mut self.values)
    }

    /// Returns the value of the newest of these entries that has the key, if any.
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

    /// Prefetches the slot after `len` entries.
    #[inline(always)]
    pub(crate) fn prefetch_room(&self, len: usize) {
        prefetch(&self.keys[len.min(LEAF_WAITING - 1)]);
        prefetch(&self.values[len.min(LEAF_WAITING - 1)]);
    }

    /// Prefetches the first `count` entries.
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
    /// Returns the number of entries; keys that arrived twice count twice.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Returns the columns, oldest entry first.
    #[inline(always)]
    pub(crate) fn columns(self) -> EntryColumns<'b> {
        (&self.room.keys[..self.len], &self.room.values[..self.len])
    }

    /// Returns the complete columns, including the slots after the last entry.
    #[inline(always)]
    pub(crate) fn all(self) -> (&'b [u64; LEAF_WAITING], &'b [u64; LEAF_WAITING]) {
        (&self.room.keys, &self.room.values)
    }

    /// Returns the complete columns, in the form that joins take.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    pub(crate) fn unsorted(self) -> Unsorted<'b> {
        Unsorted {
            keys: &self.room.keys,
            values: &self.room.values,
            len: self.len,
        }
    }

    /// Checks the fingerprints.
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
                // An entry with another key's fingerprint does not match.
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
