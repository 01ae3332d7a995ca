//! Leaves: keys and values in columns of their own.

use std::ops::Range;

use super::options::LEAF_ENTRIES;
use super::search::{Columns, GROUP, LANES, NO_KEY, count_below, count_up_to};
use crate::mem::prefetch::prefetch;

const GROUPS: usize = LEAF_ENTRIES / GROUP;

/// Entries with ascending keys.
///
/// Invariants: `keys[..len]` ascend strictly; `keys[len..]` are [`NO_KEY`]; `samples[group]` is the first key of that
/// group of keys.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Leaf {
    samples: [u64; GROUPS],
    keys: [u64; LEAF_ENTRIES],
    values: [u64; LEAF_ENTRIES],
    len: usize,
}

impl Leaf {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            samples: [NO_KEY; GROUPS],
            keys: [NO_KEY; LEAF_ENTRIES],
            values: [0; LEAF_ENTRIES],
            len: 0,
        })
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn keys(&self) -> &[u64] {
        &self.keys[..self.len]
    }

    #[inline(always)]
    pub(super) fn values(&self) -> &[u64] {
        &self.values[..self.len]
    }

    /// The whole column, with whatever stands behind the last entry.
    #[inline(always)]
    pub(super) fn all_keys(&self) -> &[u64; LEAF_ENTRIES] {
        &self.keys
    }

    /// The first keys of all groups of the column.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    pub(super) fn all_samples(&self) -> &[u64; GROUPS] {
        &self.samples
    }

    #[inline(always)]
    pub(super) fn all_values(&self) -> &[u64; LEAF_ENTRIES] {
        &self.values
    }

    /// How many keys lie below this one, which is not [`NO_KEY`].
    #[inline(always)]
    pub(super) fn rank(&self, key: u64) -> usize {
        let group = count_up_to(&self.samples, key).saturating_sub(1);
        let (groups, _) = self.keys.as_chunks::<GROUP>();
        group * GROUP + count_below(&groups[group], key)
    }

    /// Where the keys between the bounds stand, of which neither is [`NO_KEY`]. Mostly these are all.
    #[inline(always)]
    pub(super) fn between(&self, lower: u64, upper: u64) -> Range<usize> {
        let keys = self.keys();
        let to = if keys.last().is_some_and(|&last| last > upper) {
            self.find(upper).map_or_else(|rank| rank, |rank| rank + 1)
        } else {
            keys.len()
        };
        let from = if keys.first().is_some_and(|&first| first < lower) {
            self.rank(lower)
        } else {
            0
        };
        from.min(to)..to
    }

    /// Where the key is, or where it belongs.
    #[inline(always)]
    pub(super) fn find(&self, key: u64) -> Result<usize, usize> {
        let rank = self.rank(key);
        if self.keys.get(rank) == Some(&key) {
            Ok(rank)
        } else {
            Err(rank)
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, key: u64) -> Option<u64> {
        let group = count_up_to(&self.samples, key).saturating_sub(1);
        let (keys, _) = self.keys.as_chunks::<GROUP>();
        let (values, _) = self.values.as_chunks::<GROUP>();
        // All values of the group are read, so that they come from memory together with the keys.
        let (mut is_there, mut found) = (false, 0);
        for (&there, &value) in keys[group].iter().zip(&values[group]) {
            is_there |= there == key;
            found |= if there == key { value } else { 0 };
        }
        is_there.then_some(found)
    }

    #[inline(always)]
    pub(super) fn set_value(&mut self, rank: usize, value: u64) {
        self.values[rank] = value;
    }

    /// Asks for keys and values.
    #[inline(always)]
    pub(super) fn prefetch_columns(&self) {
        for number in 0..LEAF_ENTRIES / LANES {
            self.prefetch_lines(number);
        }
    }

    /// Asks for all but the columns. The length stands behind them, so that both pages on which the leaf stands are met
    /// here: until the processor has found a page it goes on for a few hundred instructions only, so they had better be
    /// looked for together.
    #[inline(always)]
    pub(super) fn prefetch_outline(&self) {
        prefetch(&self.len);
        for line in self.samples.as_chunks::<LANES>().0 {
            prefetch(line);
        }
    }

    /// Asks for the lines of keys and values with this number, if there are such.
    #[inline(always)]
    pub(super) fn prefetch_lines(&self, number: usize) {
        let keys = self.keys.as_chunks::<LANES>().0.get(number);
        let values = self.values.as_chunks::<LANES>().0.get(number);
        if let Some((keys, values)) = keys.zip(values) {
            prefetch(keys);
            prefetch(values);
        }
    }

    /// Adds an entry behind all others.
    #[inline(always)]
    pub(super) fn push(&mut self, key: u64, value: u64) {
        let len = self.len;
        self.keys[len] = key;
        self.values[len] = value;
        if len.is_multiple_of(GROUP) {
            self.samples[len / GROUP] = key;
        }
        self.len = len + 1;
    }

    /// Adds entries behind all others.
    pub(super) fn extend(&mut self, keys: &[u64], values: &[u64]) {
        let end = self.len + keys.len();
        self.keys[self.len..end].copy_from_slice(keys);
        self.values[self.len..end].copy_from_slice(values);
        let first = self.len;
        self.len = end;
        self.sample_from(first);
    }

    /// Puts an entry at its rank; those from there on move up.
    pub(super) fn insert(&mut self, rank: usize, key: u64, value: u64) {
        self.keys.copy_within(rank..self.len, rank + 1);
        self.values.copy_within(rank..self.len, rank + 1);
        self.keys[rank] = key;
        self.values[rank] = value;
        self.len += 1;
        self.sample_from(rank);
    }

    /// Takes the entry at this rank out; returns its value.
    pub(super) fn remove(&mut self, rank: usize) -> u64 {
        let value = self.values[rank];
        self.keys.copy_within(rank + 1..self.len, rank);
        self.values.copy_within(rank + 1..self.len, rank);
        self.keys[self.len - 1] = NO_KEY;
        self.sample_from(rank);
        self.len -= 1;
        value
    }

    /// Forgets the entries from this rank on.
    pub(super) fn truncate(&mut self, len: usize) {
        self.keys[len..self.len].fill(NO_KEY);
        let sampled = self.len.div_ceil(GROUP);
        self.samples[len.div_ceil(GROUP).min(sampled)..sampled].fill(NO_KEY);
        self.len = len;
    }

    /// Forgets all entries, to be [filled](Self::fill_up) anew. Until that is [ended](Self::end_filling) samples and the
    /// keys behind the last entry are what they were.
    #[inline(always)]
    pub(super) fn begin_filling(&mut self) {
        self.len = 0;
    }

    /// Fills the leaf with what `write` writes to the beginnings of both columns, as many entries as it returns.
    #[inline(always)]
    pub(super) fn fill_with(&mut self, write: impl FnOnce(&mut [u64], &mut [u64]) -> usize) {
        self.begin_filling();
        self.len = write(&mut self.keys, &mut self.values);
        self.end_filling();
    }

    /// Adds entries behind all others, as many as there may be; returns how many.
    #[inline(always)]
    pub(super) fn fill_up(&mut self, (keys, values): Columns<'_>, fill: usize) -> usize {
        let count = keys.len().min(fill - self.len);
        let end = self.len + count;
        self.keys[self.len..end].copy_from_slice(&keys[..count]);
        self.values[self.len..end].copy_from_slice(&values[..count]);
        self.len = end;
        count
    }

    #[inline(always)]
    pub(super) fn end_filling(&mut self) {
        self.keys[self.len..].fill(NO_KEY);
        let (groups, _) = self.keys.as_chunks::<GROUP>();
        for (sample, group) in self.samples.iter_mut().zip(groups) {
            *sample = group[0];
        }
    }

    /// Brings the samples of the groups from that of `rank` to that of the last entry up to date.
    #[inline(always)]
    fn sample_from(&mut self, rank: usize) {
        let first = rank / GROUP;
        let (groups, _) = self.keys[..self.len.next_multiple_of(GROUP)].as_chunks::<GROUP>();
        for (sample, group) in self.samples.iter_mut().zip(groups).skip(first) {
            *sample = group[0];
        }
    }

    /// What does not hold of the invariants.
    pub(super) fn check(&self) -> Result<(), String> {
        if !self.keys().is_sorted_by(|a, b| a < b) {
            return Err("keys of a leaf do not ascend".into());
        }
        if self.keys[self.len..].iter().any(|&key| key != NO_KEY) {
            return Err("a leaf has keys behind its last entry".into());
        }
        let (groups, _) = self.keys.as_chunks::<GROUP>();
        if self
            .samples
            .iter()
            .zip(groups)
            .any(|(&sample, group)| sample != group[0])
        {
            return Err("samples of a leaf differ from its keys".into());
        }
        Ok(())
    }
}
