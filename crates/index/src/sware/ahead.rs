//! Entries that are ahead of their time.

use std::collections::BTreeMap;

use super::search::NO_KEY;

/// An ordered queue: entries are put in anywhere and taken from the front.
#[derive(Debug)]
pub(super) struct Ahead {
    entries: BTreeMap<u64, u64>,
    /// The least key; [`NO_KEY`] if there is none.
    first: u64,
}

impl Default for Ahead {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            first: NO_KEY,
        }
    }
}

impl Ahead {
    /// The least key; [`NO_KEY`] if there is none.
    #[inline(always)]
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn insert(&mut self, key: u64, value: u64) {
        self.entries.insert(key, value);
        self.first = self.first.min(key);
    }

    pub(super) fn get(&self, key: u64) -> Option<u64> {
        self.entries.get(&key).copied()
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<u64> {
        let removed = self.entries.remove(&key);
        self.note_first();
        removed
    }

    /// Takes the least entry out, if its key is at most this one.
    pub(super) fn pop_up_to(&mut self, key: u64) -> Option<(u64, u64)> {
        if self.first > key {
            return None;
        }
        let popped = self.entries.pop_first();
        self.note_first();
        popped
    }

    /// The entries between the bounds, ascending.
    pub(super) fn between(&self, lower: u64, upper: u64) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let bounds = if lower <= upper { lower..=upper } else { 0..=0 };
        let entries = (lower <= upper).then(|| self.entries.range(bounds));
        entries.into_iter().flatten().map(|(&key, &value)| (key, value))
    }

    pub(super) fn bytes(&self) -> usize {
        /// What a `BTreeMap` of 16-byte entries takes for one when it is filled at random.
        const ENTRY_BYTES: usize = 27;
        self.entries.len() * ENTRY_BYTES
    }

    fn note_first(&mut self) {
        self.first = self.entries.first_key_value().map_or(NO_KEY, |(&key, _)| key);
    }
}
