//! The destination of a scan.

use super::key::Key;
use crate::search::columns::Words;
use crate::search::copy::copy_words;
use crate::sync::primitive::AtomicU64;

/// The beginning of two slices, filled further and further. Entries that do not count after all are
/// taken back.
pub(crate) struct Output<'s, K> {
    keys: &'s mut [K],
    values: &'s mut [u64],
    filled: usize,
}

impl<'s, K: Key> Output<'s, K> {
    pub(crate) fn new(keys: &'s mut [K], values: &'s mut [u64]) -> Self {
        let room = keys.len().min(values.len());
        Self {
            keys: &mut keys[..room],
            values: &mut values[..room],
            filled: 0,
        }
    }

    /// How many entries there are.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// For how many entries more there is room.
    pub(crate) fn room(&self) -> usize {
        self.keys.len() - self.filled
    }

    /// Appends entries as long as there is room.
    #[inline]
    pub(crate) fn extend(&mut self, entries: impl Iterator<Item = (K::Words, u64)>) {
        let places = self.keys[self.filled..]
            .iter_mut()
            .zip(&mut self.values[self.filled..]);
        self.filled += places
            .zip(entries)
            .map(|((key_place, value_place), (key, value))| {
                *key_place = K::from_words(key);
                *value_place = value;
            })
            .count();
    }

    /// Appends `count` entries of columns, from place `from` on; there is room, and they are there.
    #[inline]
    pub(crate) fn copy<const CAP: usize>(
        &mut self,
        keys: &<K::Words as Words>::KeyColumns<CAP>,
        values: &[AtomicU64; CAP],
        from: usize,
        count: usize,
    ) {
        let places = self.filled..self.filled + self.room().min(CAP);
        K::copy_keys(keys, from, count, &mut self.keys[places.clone()]);
        copy_words(values, from, count, &mut self.values[places]);
        self.filled += count;
    }

    /// Takes back all but the first `filled` entries.
    pub(crate) fn truncate(&mut self, filled: usize) {
        self.filled = self.filled.min(filled);
    }
}
