//! Late entries that wait in the leaf to which they belong.

use super::leaf::Leaf;
use super::options::{LEAF_ENTRIES, LEAF_WAITING};
use super::search::Columns;
use super::stage::hash;
use crate::mem::prefetch::prefetch;

/// What is compared before keys are.
#[inline(always)]
fn fingerprint(key: u64) -> u8 {
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

/// To let an entry wait, three cache lines are written to: the header, and one of each column. A lookup compares with the
/// fingerprints in the header, and seldom needs more; whoever reads the leaf sorts what waits there.
impl Leaf {
    /// How many entries wait; one that arrived again is counted again.
    #[inline(always)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Those that wait and those in order.
    #[inline(always)]
    pub(super) fn held(&self) -> usize {
        self.len() + self.waiting
    }

    /// What waits, the newest first.
    #[inline(always)]
    pub(super) fn waiting_columns(&self) -> Columns<'_> {
        let from = LEAF_ENTRIES - self.waiting;
        (&self.keys[from..], &self.values[from..])
    }

    /// Lets an entry wait, over older ones of the same key. There must be room.
    #[inline(always)]
    pub(super) fn push_late(&mut self, key: u64, value: u64) {
        let place = LEAF_ENTRIES - 1 - self.waiting;
        self.fingerprints[self.waiting] = fingerprint(key);
        self.keys[place] = key;
        self.values[place] = value;
        self.waiting += 1;
    }

    /// Asks for the place of the next entry that is to wait.
    #[inline(always)]
    pub(super) fn prefetch_room(&self) {
        let place = LEAF_ENTRIES - 1 - self.waiting.min(LEAF_WAITING);
        prefetch(&self.keys[place]);
        prefetch(&self.values[place]);
    }

    /// The value of a key, if it waits.
    #[inline(always)]
    pub(super) fn get_waiting(&self, key: u64) -> Option<u64> {
        let fingerprint = fingerprint(key);
        let words = self.fingerprints.as_chunks::<8>().0.iter();
        let equal = words.fold(0, |equal, &word| equal | equal_bytes(word, fingerprint));
        if equal == 0 {
            return None;
        }
        self.find_waiting(fingerprint, key)
    }

    /// The newest entry of this key among those with its fingerprint.
    #[cold]
    fn find_waiting(&self, fingerprint: u8, key: u64) -> Option<u64> {
        for (number, &word) in self.fingerprints.as_chunks::<8>().0.iter().enumerate().rev() {
            let mut equal = equal_bytes(word, fingerprint);
            while let Some(bit) = equal.checked_ilog2() {
                let place = LEAF_ENTRIES - 1 - (number * 8 + bit as usize / 8);
                if self.keys[place] == key {
                    return Some(self.values[place]);
                }
                equal ^= 1 << bit;
            }
        }
        None
    }

    /// What does not hold of the invariants of what waits.
    pub(super) fn check_waiting(&self) -> Result<(), String> {
        let is_used = |&fingerprint: &u8| fingerprint != 0;
        let (used, unused) = self.fingerprints.split_at(self.waiting);
        if !used.iter().all(is_used) || unused.iter().any(is_used) {
            return Err("there are more or fewer fingerprints than entries that wait in a leaf".into());
        }
        let (keys, values) = self.waiting_columns();
        for &key in keys {
            let newest = keys.iter().position(|&other| other == key);
            if self.get_waiting(key) != newest.map(|newest| values[newest]) {
                return Err(format!("{key}, which waits in a leaf, is not found"));
            }
        }
        Ok(())
    }
}
