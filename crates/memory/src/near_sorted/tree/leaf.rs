//! Leaves: separate columns of keys and values.

use std::ops::Range;

use super::leaf_pages::LeafPage;
use crate::near_sorted::options::LEAF_ENTRIES;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::search::join::{Lines, Sampled};
use crate::search::keys::{
    Compiled, EntryColumns, GROUP, LANES, MOST, NO_KEY, NO_SAMPLE, Vectors, count_below,
};
use crate::search::prefetch::prefetch;

const GROUPS: usize = LEAF_ENTRIES / GROUP;

const _: () = assert!(GROUP == 2 * LANES, "a group has two lines");

/// Entries with ascending keys.
///
/// The columns lie on a page of their own. A key's group is found through one cache line per leaf;
/// those of a branch are adjacent and small enough to stay cached, so that a lookup waits for
/// memory once, for the key's group and its values.
///
/// The sample of a group is the distance of its first key from the base, in steps of `2^step_bits`.
/// It ascends with the key, so the groups whose sample is at most a key's are those that begin at
/// or below the key, plus others that begin within the same step: no group is missed, and comparing
/// first keys rules out the surplus.
///
/// Invariants: `keys[..len]` ascend strictly; `keys[len..]` are [`NO_KEY`]; `samples[group]` is the
/// sample of the first key of that group of keys, at most [`MOST`], or [`NO_SAMPLE`] for a group
/// without keys; the base is at most the first key.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Leaf {
    samples: [u16; GROUPS],
    base: u64,
    page: LeafPage,
    len: u16,
    /// Low bits of the distance from the base that a sample omits.
    step_bits: u8,
}

const _: () = assert!(size_of::<Leaf>() == 64, "what is known of a leaf is one line");

impl Leaf {
    /// Creates an empty leaf on a page without keys.
    pub(crate) fn new(page: LeafPage) -> Self {
        Self {
            samples: [NO_SAMPLE; GROUPS],
            base: 0,
            page,
            len: 0,
            step_bits: 0,
        }
    }

    /// Creates a leaf on a page that has `len` keys.
    pub(crate) fn of(page: LeafPage, len: usize) -> Self {
        let mut leaf = Self::new(page);
        leaf.set_len(len);
        leaf.sample_from(0);
        leaf
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    #[inline(always)]
    pub(crate) fn keys(&self) -> &[u64] {
        &self.page.keys[..self.len()]
    }

    #[inline(always)]
    pub(crate) fn values(&self) -> &[u64] {
        &self.page.values[..self.len()]
    }

    /// Returns the complete column, including the slots after the last entry.
    #[inline(always)]
    pub(crate) fn all_keys(&self) -> &[u64; LEAF_ENTRIES] {
        &self.page.keys
    }

    #[inline(always)]
    pub(crate) fn all_values(&self) -> &[u64; LEAF_ENTRIES] {
        &self.page.values
    }

    #[inline(always)]
    fn key_groups(&self) -> &[[u64; GROUP]] {
        self.page.keys.as_chunks().0
    }

    /// Returns the sample of a key.
    #[inline(always)]
    fn sample_of(&self, key: u64) -> u16 {
        self.sample_at(key.saturating_sub(self.base))
    }

    /// Returns the sample of a key at this distance above the base.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "it is at most `MOST`")]
    fn sample_at(&self, distance: u64) -> u16 {
        (distance >> self.step_bits).min(MOST.into()) as u16
    }

    /// Returns the columns and samples, in the form that joins take.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    pub(crate) fn sampled(&self) -> Sampled<'_, LEAF_ENTRIES> {
        Sampled {
            keys: &self.page.keys,
            values: &self.page.values,
            samples: &self.samples,
            base: self.base,
            step_bits: self.step_bits,
        }
    }

    /// Returns the last group whose sample is at most that of a key.
    #[inline(always)]
    fn likely_group(&self, key: u64, vectors: impl Vectors) -> usize {
        vectors.last_sample_up_to(&self.samples, self.sample_of(key))
    }

    /// Returns the last group that begins at or below a key, which is not [`NO_KEY`]; the first if
    /// none does.
    #[inline(always)]
    pub(crate) fn group_of(&self, key: u64, vectors: impl Vectors) -> usize {
        let group = self.likely_group(key, vectors);
        if group > 0 && self.key_groups()[group][0] > key {
            return self.group_before(group, key);
        }
        group
    }

    /// Returns the last group before this one that begins at or below the key.
    #[cold]
    fn group_before(&self, group: usize, key: u64) -> usize {
        let begins_up_to = |group: &[u64; GROUP]| group[0] <= key;
        self.key_groups()[..group]
            .partition_point(begins_up_to)
            .saturating_sub(1)
    }

    /// Returns how many keys lie below this one, which is not [`NO_KEY`].
    #[inline(always)]
    pub(crate) fn rank(&self, key: u64) -> usize {
        let group = self.group_of(key, Compiled);
        group * GROUP + count_below(&self.key_groups()[group], key)
    }

    /// Returns the ranks of the keys between the bounds, neither of which is [`NO_KEY`]. Usually
    /// these are all.
    #[inline(always)]
    pub(crate) fn between(&self, lower: u64, upper: u64) -> Range<usize> {
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

    /// Returns the rank of the key, or the rank at which to insert it.
    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> Result<usize, usize> {
        let rank = self.rank(key);
        if self.page.keys.get(rank) == Some(&key) {
            Ok(rank)
        } else {
            Err(rank)
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: u64, vectors: impl Vectors) -> Option<u64> {
        // A key below the base is absent, whichever group is searched.
        let sample = self.sample_at(key.wrapping_sub(self.base));
        let group = vectors.last_sample_up_to(&self.samples, sample);
        if let Some(value) = self.get_in(group, key, vectors) {
            return Some(value);
        }
        if group > 0 && self.key_groups()[group][0] > key {
            return self.get_before(group, key);
        }
        None
    }

    #[cold]
    #[inline(never)]
    fn get_before(&self, group: usize, key: u64) -> Option<u64> {
        self.get_in(self.group_before(group, key), key, Compiled)
    }

    #[inline(always)]
    fn get_in(&self, group: usize, key: u64, vectors: impl Vectors) -> Option<u64> {
        let (values, _) = self.page.values.as_chunks();
        vectors.value_of(&self.key_groups()[group], &values[group], key)
    }

    #[inline(always)]
    pub(crate) fn set_value(&mut self, rank: usize, value: u64) {
        self.page.values[rank] = value;
    }

    /// Prefetches keys and values for a reader that needs them in no order. Lines are requested
    /// sequentially, so that the hardware prefetcher runs ahead.
    #[inline(always)]
    pub(crate) fn prefetch_columns(&self) {
        for column in [&self.page.keys, &self.page.values] {
            column.as_chunks::<LANES>().0.iter().for_each(prefetch);
        }
    }

    /// Returns the lines of both columns that have entries.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    pub(crate) fn lines(&self) -> Lines<'_> {
        let lines = self.len().div_ceil(LANES);
        let (keys, values) = (self.page.keys.as_chunks().0, self.page.values.as_chunks().0);
        (&keys[..lines], &values[..lines])
    }

    /// Prefetches keys and values between the bounds, for a reader that needs them in no order.
    #[inline(always)]
    pub(crate) fn prefetch_between(&self, lower: u64, upper: u64) {
        let (first, last) = (
            self.likely_group(lower, Compiled),
            self.likely_group(upper, Compiled),
        );
        for column in [&self.page.keys, &self.page.values] {
            for [low, high] in &column.as_chunks::<LANES>().0.as_chunks().0[first..=last] {
                prefetch(low);
                prefetch(high);
            }
        }
    }

    /// Prefetches the page: a processor waiting for it runs only a few hundred instructions ahead.
    #[inline(always)]
    pub(crate) fn prefetch_page(&self) {
        prefetch(&self.page.keys);
        prefetch(&self.page.values);
    }

    /// Appends an entry.
    #[inline(always)]
    pub(crate) fn push(&mut self, key: u64, value: u64) {
        let len = self.len();
        self.page.keys[len] = key;
        self.page.values[len] = value;
        self.len += 1;
        if len.is_multiple_of(GROUP) {
            self.sample_from(len);
        }
    }

    /// Appends entries.
    pub(crate) fn extend(&mut self, keys: &[u64], values: &[u64]) {
        let first = self.len();
        let end = first + keys.len();
        self.page.keys[first..end].copy_from_slice(keys);
        self.page.values[first..end].copy_from_slice(values);
        self.set_len(end);
        self.sample_from(first);
    }

    /// Inserts an entry at its rank, moving later ones up.
    pub(crate) fn insert(&mut self, rank: usize, key: u64, value: u64) {
        let len = self.len();
        let page = &mut *self.page;
        page.keys.copy_within(rank..len, rank + 1);
        page.values.copy_within(rank..len, rank + 1);
        page.keys[rank] = key;
        page.values[rank] = value;
        self.len += 1;
        self.sample_from(rank);
    }

    /// Removes the entry at this rank; returns its value.
    pub(crate) fn remove(&mut self, rank: usize) -> u64 {
        let len = self.len();
        let page = &mut *self.page;
        let value = page.values[rank];
        page.keys.copy_within(rank + 1..len, rank);
        page.values.copy_within(rank + 1..len, rank);
        page.keys[len - 1] = NO_KEY;
        self.len -= 1;
        self.sample_from(rank);
        self.end_samples();
        value
    }

    /// Drops the entries from this rank on.
    pub(crate) fn truncate(&mut self, len: usize) {
        let old_len = self.len();
        self.page.keys[len..old_len].fill(NO_KEY);
        self.set_len(len);
        self.end_samples();
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a leaf has room for fewer than 64 Ki entries"
    )]
    fn set_len(&mut self, len: usize) {
        self.len = len as u16;
    }

    /// Drops all entries before the leaf is [filled](Self::fill_up) again. Until
    /// [`end_filling`](Self::end_filling), samples and the keys after the last entry are stale.
    #[inline(always)]
    pub(crate) fn begin_filling(&mut self) {
        self.len = 0;
    }

    /// Fills the leaf with the entries that `write` writes to the beginnings of both columns; it
    /// returns how many.
    #[inline(always)]
    pub(crate) fn fill_with(&mut self, write: impl FnOnce(&mut [u64], &mut [u64]) -> usize) {
        self.begin_filling();
        let page = &mut *self.page;
        let len = write(&mut page.keys, &mut page.values);
        self.set_len(len);
        self.end_filling();
    }

    /// Appends entries up to the given fill; returns how many.
    #[inline(always)]
    pub(crate) fn fill_up(&mut self, (keys, values): EntryColumns<'_>, fill: usize) -> usize {
        let first = self.len();
        let count = keys.len().min(fill - first);
        let end = first + count;
        self.page.keys[first..end].copy_from_slice(&keys[..count]);
        self.page.values[first..end].copy_from_slice(&values[..count]);
        self.set_len(end);
        count
    }

    #[inline(always)]
    pub(crate) fn end_filling(&mut self) {
        let len = self.len();
        self.page.keys[len..].fill(NO_KEY);
        self.sample_from(0);
        self.end_samples();
    }

    /// Updates the samples of groups that begin at or after this rank; those of all groups if the
    /// first one does, or if the last one begins too far from the base.
    #[inline(always)]
    fn sample_from(&mut self, rank: usize) {
        let mut first = rank.div_ceil(GROUP);
        let groups = self.len().div_ceil(GROUP);
        if first >= groups {
            return;
        }
        let (begins, _) = self.page.keys.as_chunks::<GROUP>();
        let last = begins[groups - 1][0];
        if first == 0 || last.saturating_sub(self.base) >> self.step_bits > MOST.into() {
            first = 0;
            self.base = begins[0][0];
            // Leaves room for twice the distance, as more may be appended.
            self.step_bits = bits_of(last - self.base).saturating_sub(bits_of(MOST.into()) - 1);
        }
        for group in first..groups {
            self.samples[group] = self.sample_of(self.key_groups()[group][0]);
        }
    }

    /// Resets the samples of groups without keys, of which there may be more than before.
    #[inline(always)]
    fn end_samples(&mut self) {
        let groups = self.len().div_ceil(GROUP);
        self.samples[groups..].fill(NO_SAMPLE);
    }

    /// Checks the invariants.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.keys().is_sorted_by(|a, b| a < b) {
            return Err("keys of a leaf do not ascend".into());
        }
        if self.page.keys[self.len()..].iter().any(|&key| key != NO_KEY) {
            return Err("a leaf has keys behind its last entry".into());
        }
        let groups = self.len().div_ceil(GROUP);
        let expected = |(group, begins): (usize, &[u64; GROUP])| {
            if group < groups {
                self.sample_of(begins[0])
            } else {
                NO_SAMPLE
            }
        };
        if !self
            .key_groups()
            .iter()
            .enumerate()
            .map(expected)
            .eq(self.samples)
        {
            return Err("samples of a leaf differ from its keys".into());
        }
        Ok(())
    }
}

/// Returns the number of significant bits.
#[expect(clippy::cast_possible_truncation, reason = "64 at most")]
const fn bits_of(number: u64) -> u8 {
    (u64::BITS - number.leading_zeros()) as u8
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bedload_testkit::Rng;

    use super::super::leaf_pages::PagePool;
    use super::*;

    /// Keys at any distances, of which samples distinguish few.
    #[test]
    fn keys_are_found_whatever_their_distances() {
        let mut rng = Rng::new(3);
        let mut pool = PagePool::new();
        for round in 0..if cfg!(miri) { 4 } else { 200 } {
            let mut leaf = Leaf::new(pool.take());
            let mut model = BTreeMap::new();
            // Keys of one magnitude or of all, ascending in every other round.
            let mut least = 0;
            let mut key = |rng: &mut Rng| {
                let bits = if round % 4 < 2 { 62 } else { 2 + rng.index(60) };
                let key = if round % 2 == 0 {
                    rng.below(1 << bits)
                } else {
                    least + 1 + rng.below(1 << (bits / 2))
                };
                least = key;
                key
            };
            for _ in 0..if cfg!(miri) { 100 } else { 600 } {
                let key = key(&mut rng);
                match leaf.find(key) {
                    Ok(rank) => leaf.set_value(rank, !key),
                    Err(rank) if rank == leaf.len() && leaf.len() < LEAF_ENTRIES => leaf.push(key, !key),
                    Err(rank) if leaf.len() < LEAF_ENTRIES => leaf.insert(rank, key, !key),
                    Err(_) => {
                        let cut = rng.index(LEAF_ENTRIES);
                        let end = leaf.keys()[cut];
                        leaf.truncate(cut);
                        model.retain(|&key, _| key < end);
                        continue;
                    }
                }
                model.insert(key, !key);
                if rng.below(4) == 0 {
                    let rank = rng.index(leaf.len());
                    let removed = leaf.keys()[rank];
                    assert_eq!(model.remove(&removed), Some(leaf.remove(rank)), "{removed}");
                }
                leaf.check().expect("a sound leaf");
                let probe = if rng.below(2) == 0 {
                    key
                } else {
                    key ^ rng.below(1 << 8)
                };
                let below = model.range(..probe).count();
                assert_eq!(leaf.rank(probe), below, "keys below {probe} of {:?}", leaf.keys());
                let expected = model.get(&probe).copied();
                assert_eq!(
                    leaf.get(probe, Compiled),
                    expected,
                    "{probe} of {:?}",
                    leaf.keys()
                );
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                if let Some(wide) = crate::search::wide::Wide::detect() {
                    assert_eq!(leaf.get(probe, wide), expected, "{probe}, with vectors");
                }
            }
            assert!(leaf.keys().iter().eq(model.keys()), "keys of round {round}");
        }
    }
}
