//! Columns of entries with ascending keys.

use crate::search::keys::EntryColumns;

/// Entries with ascending keys.
#[derive(Debug, Default)]
pub(crate) struct SortedRun {
    pub(crate) keys: Vec<u64>,
    pub(crate) values: Vec<u64>,
}

impl SortedRun {
    pub(crate) const fn new() -> Self {
        Self {
            keys: Vec::new(),
            values: Vec::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn columns(&self) -> EntryColumns<'_> {
        (&self.keys, &self.values)
    }

    pub(crate) fn bytes(&self) -> usize {
        (self.keys.capacity() + self.values.capacity()) * size_of::<u64>()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.keys.truncate(len);
        self.values.truncate(len);
    }

    pub(crate) fn forget_first(&mut self, count: usize) {
        self.keys.drain(..count);
        self.values.drain(..count);
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
    }

    /// Returns whether another entry fits without reallocation.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.keys.len() < self.keys.capacity() && self.values.len() < self.values.capacity()
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, (key, value): (u64, u64)) {
        self.keys.push(key);
        self.values.push(value);
    }

    /// Appends entries sorted by key, equal keys in order of arrival; the last of each key wins.
    pub(crate) fn extend_sorted(&mut self, entries: &[(u64, u64)]) {
        for (place, &entry) in entries.iter().enumerate() {
            if entries.get(place + 1).is_none_or(|next| next.0 != entry.0) {
                self.push(entry);
            }
        }
    }
}

/// Returns a visitor that appends the visited entries.
pub(crate) fn collecting(entries: &mut Vec<(u64, u64)>) -> impl FnMut(&[u64], &[u64]) {
    |keys, values| entries.extend(keys.iter().copied().zip(values.iter().copied()))
}
