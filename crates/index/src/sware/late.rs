//! The newest late entries, before they are put into the tables of their branches together.

use super::search::NO_KEY;

/// Entries that are collected: as many as the processor can look for at once without delay.
const LATE_ENTRIES: usize = 64;

/// Entries in order of arrival; of equal keys the last one counts.
///
/// Invariant: keys from `len` on are [`NO_KEY`].
#[derive(Debug)]
pub(super) struct Late {
    keys: [u64; LATE_ENTRIES],
    entries: Vec<(u64, u64)>,
}

impl Late {
    pub(super) fn new() -> Self {
        Self {
            keys: [NO_KEY; LATE_ENTRIES],
            entries: Vec::with_capacity(LATE_ENTRIES),
        }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() == LATE_ENTRIES
    }

    #[inline(always)]
    pub(super) fn push(&mut self, key: u64, value: u64) {
        self.keys[self.entries.len()] = key;
        self.entries.push((key, value));
    }

    #[inline(always)]
    pub(super) fn get(&self, key: u64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let is_there = self
            .keys
            .iter()
            .fold(false, |is_there, &late| is_there | (late == key));
        if is_there { self.newest(key) } else { None }
    }

    #[cold]
    fn newest(&self, key: u64) -> Option<u64> {
        self.entries
            .iter()
            .rev()
            .find(|entry| entry.0 == key)
            .map(|entry| entry.1)
    }

    /// The entries, in order of arrival.
    pub(super) fn entries(&self) -> &[(u64, u64)] {
        &self.entries
    }

    pub(super) fn clear(&mut self) {
        self.keys.fill(NO_KEY);
        self.entries.clear();
    }
}
