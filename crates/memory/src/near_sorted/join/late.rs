//! The pending entries of a leaf, sorted.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "calls of functions compiled for more features")
)]

use super::waiting::Waiting;
use crate::near_sorted::options::LEAF_WAITING;
use crate::near_sorted::run::SortedRun;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::search::dispatch::Wide;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::search::keys::LANES;
use crate::search::keys::{EntryColumns, GROUP, NO_KEY, count_below};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::search::wide::count_below_with_vectors;

/// Maximum number of entries sorted by counting.
const COUNTED: usize = 64;

const _: () = assert!(
    LEAF_WAITING <= COUNTED && COUNTED <= u64::BITS as usize,
    "places have bits of a word"
);

type Column = [u64; COUNTED];

/// Buffers to sort the pending entries of a leaf.
#[derive(Debug)]
pub(crate) struct SortedLate {
    keys: Column,
    values: Column,
    /// Used for more than [`COUNTED`] entries.
    many: SortedRun,
}

impl SortedLate {
    pub(crate) const fn new() -> Self {
        Self {
            keys: [NO_KEY; COUNTED],
            values: [0; COUNTED],
            many: SortedRun::new(),
        }
    }

    /// Returns the bytes used on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.many.bytes()
    }

    /// Returns a leaf's pending entries and newer ones of its range, ascending; of equal keys the
    /// newest.
    #[inline(always)]
    pub(crate) fn of_leaf<'l>(
        &'l mut self,
        waiting: Option<Waiting<'_>>,
        newer: EntryColumns<'l>,
    ) -> EntryColumns<'l> {
        let Some(waiting) = waiting else {
            return newer;
        };
        let from = waiting.len();
        let len = from + newer.0.len();
        if len > COUNTED {
            return self.of_many(waiting.columns(), newer);
        }
        let (waiting_keys, waiting_values) = waiting.all();
        let (mut keys, mut values) = ([NO_KEY; COUNTED], [0; COUNTED]);
        for (place, (key, &waiting)) in keys.iter_mut().zip(waiting_keys).enumerate() {
            *key = if place < from { waiting } else { NO_KEY };
        }
        values[..LEAF_WAITING].copy_from_slice(waiting_values);
        for ((key, value), (&newer_key, &newer_value)) in keys[from..]
            .iter_mut()
            .zip(&mut values[from..])
            .zip(newer.0.iter().zip(newer.1))
        {
            (*key, *value) = (newer_key, newer_value);
        }
        self.sort(&keys, &values, len)
    }

    /// Sorts the first `len` entries by counting how many keys lie below each: of equal keys the
    /// last overwrites the others, and the resulting gaps are closed.
    #[inline(always)]
    fn sort(&mut self, keys: &Column, values: &Column, len: usize) -> EntryColumns<'_> {
        let taken = self.put_in_place(keys, values, len);
        let len = if taken.count_ones() as usize == len {
            len
        } else {
            self.close_up(taken)
        };
        (&self.keys[..len], &self.values[..len])
    }

    /// Writes entries to their ranks; returns the ranks taken, as bits.
    #[inline(always)]
    fn put_in_place(&mut self, keys: &Column, values: &Column, len: usize) -> u64 {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if Wide::detect().is_some() {
            // SAFETY: the processor has the features.
            return unsafe { self.put_in_place_with_vectors(keys, values, len) };
        }
        let groups = &keys.as_chunks::<GROUP>().0[..len.div_ceil(GROUP)];
        self.put_at(keys, values, len, |key| {
            groups.iter().map(|group| count_below(group, key)).sum()
        })
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "avx512f,popcnt")]
    fn put_in_place_with_vectors(&mut self, keys: &Column, values: &Column, len: usize) -> u64 {
        let groups = &keys.as_chunks().0[..len.div_ceil(LANES)];
        self.put_at(keys, values, len, |key| count_below_with_vectors(groups, key))
    }

    #[inline(always)]
    fn put_at(&mut self, keys: &Column, values: &Column, len: usize, rank_of: impl Fn(u64) -> usize) -> u64 {
        let mut taken = 0;
        for (&key, &value) in keys[..len].iter().zip(values) {
            let rank = rank_of(key) % COUNTED;
            self.keys[rank] = key;
            self.values[rank] = value;
            taken |= 1 << rank;
        }
        taken
    }

    #[cold]
    fn close_up(&mut self, mut taken: u64) -> usize {
        let mut closed = 0;
        while taken != 0 {
            let place = taken.trailing_zeros() as usize;
            self.keys[closed] = self.keys[place];
            self.values[closed] = self.values[place];
            closed += 1;
            taken &= taken - 1;
        }
        closed
    }

    #[cold]
    fn of_many(&mut self, (keys, values): EntryColumns<'_>, newer: EntryColumns<'_>) -> EntryColumns<'_> {
        let keys = keys.iter().chain(newer.0);
        let values = values.iter().chain(newer.1);
        let mut entries: Vec<(u64, u64)> = keys.copied().zip(values.copied()).collect();
        entries.sort_by_key(|entry| entry.0);
        self.many.clear();
        self.many.extend_sorted(&entries);
        self.many.columns()
    }
}
