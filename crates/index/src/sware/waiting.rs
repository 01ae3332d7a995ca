//! Late entries that wait to be merged into a leaf.

use super::options::LEAF_WAITING;
use super::search::Columns;
use super::stage::hash;
use crate::mem::prefetch::prefetch;

/// What waits for one leaf, in order of arrival.
///
/// To add an entry, three cache lines are written to: the first, and one of each column. A lookup compares with the
/// fingerprints in the first, and seldom needs more; whoever reads the leaf sorts what waits for it. What waits for the leaves
/// of a branch stands together and apart from the leaves, so that the processor needs few pages to add to it.
///
/// Invariant: fingerprints of the first `len` entries are those of their keys, those behind them 0, which none is.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Waiting {
    fingerprints: [u8; LEAF_WAITING],
    len: usize,
    keys: [u64; LEAF_WAITING],
    values: [u64; LEAF_WAITING],
}

/// What is compared before keys are.
#[inline(always)]
pub(super) fn fingerprint(key: u64) -> u8 {
    let [.., byte] = hash(key).to_le_bytes();
    byte.max(1)
}

/// The bytes of a word that may be equal to another one, by their highest bits; among them are all that are.
#[inline(always)]
fn equal_bytes(word: [u8; 8], byte: u8) -> u64 {
    const LOWEST: u64 = u64::from_le_bytes([1; 8]);
    const HIGHEST: u64 = LOWEST << 7;
    let zero_if_equal = u64::from_le_bytes(word) ^ (u64::from(byte) * LOWEST);
    zero_if_equal.wrapping_sub(LOWEST) & !zero_if_equal & HIGHEST
}

impl Waiting {
    pub(super) const NONE: Self = Self {
        fingerprints: [0; LEAF_WAITING],
        len: 0,
        keys: [0; LEAF_WAITING],
        values: [0; LEAF_WAITING],
    };

    /// How many wait; one that arrived again is counted again.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The oldest first.
    #[inline(always)]
    pub(super) fn columns(&self) -> Columns<'_> {
        (&self.keys[..self.len], &self.values[..self.len])
    }

    /// The whole columns, with whatever stands behind the last entry.
    #[inline(always)]
    pub(super) fn all(&self) -> (&[u64; LEAF_WAITING], &[u64; LEAF_WAITING]) {
        (&self.keys, &self.values)
    }

    /// Adds an entry, over older ones of the same key. There must be room.
    #[inline(always)]
    pub(super) fn push(&mut self, key: u64, value: u64) {
        self.fingerprints[self.len] = fingerprint(key);
        self.keys[self.len] = key;
        self.values[self.len] = value;
        self.len += 1;
    }

    /// Forgets everything.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.fingerprints = [0; LEAF_WAITING];
        self.len = 0;
    }

    /// Asks for what is known of what waits.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        prefetch(&self.fingerprints);
    }

    /// Asks for the place of the next entry.
    #[inline(always)]
    pub(super) fn prefetch_room(&self) {
        prefetch(&self.keys[self.len.min(LEAF_WAITING - 1)]);
        prefetch(&self.values[self.len.min(LEAF_WAITING - 1)]);
    }

    /// Asks for the first half of what may wait.
    #[inline(always)]
    pub(super) fn prefetch_entries(&self) {
        self.prefetch();
        for line in 0..LEAF_WAITING / 16 {
            prefetch(&self.keys[line * 8]);
            prefetch(&self.values[line * 8]);
        }
    }

    /// Whether a key with this fingerprint may wait.
    #[inline(always)]
    pub(super) fn may_have(&self, fingerprint: u8) -> bool {
        let words = self.fingerprints.as_chunks::<8>().0.iter();
        words.fold(0, |equal, &word| equal | equal_bytes(word, fingerprint)) != 0
    }

    /// The value of a key with this fingerprint, if it waits: that of the newest entry.
    pub(super) fn find(&self, fingerprint: u8, key: u64) -> Option<u64> {
        for (number, &word) in self.fingerprints.as_chunks::<8>().0.iter().enumerate().rev() {
            let mut equal = equal_bytes(word, fingerprint);
            while let Some(bit) = equal.checked_ilog2() {
                let place = number * 8 + bit as usize / 8;
                // A byte that is not equal may be one behind the last entry.
                if place < self.len && self.keys[place] == key {
                    return Some(self.values[place]);
                }
                equal ^= 1 << bit;
            }
        }
        None
    }

    /// What does not hold of the invariant.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_used = |&fingerprint: &u8| fingerprint != 0;
        let (used, unused) = self.fingerprints.split_at(self.len);
        if !used.iter().all(is_used) || unused.iter().any(is_used) {
            return Err("there are more or fewer fingerprints than entries that wait for a leaf".into());
        }
        let (keys, values) = self.columns();
        for &key in keys {
            let newest = keys.iter().rposition(|&other| other == key);
            if self.find(fingerprint(key), key) != newest.map(|newest| values[newest]) {
                return Err(format!("{key}, which waits for a leaf, is not found"));
            }
        }
        Ok(())
    }
}
