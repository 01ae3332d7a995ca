//! What waits in a leaf, sorted.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "calls of functions compiled for more features")
)]

use super::leaf::Leaf;
use super::search::{Columns, GROUP, NO_KEY, count_below};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::search::{LANES, count_below_with_vectors, has_wide_vectors};
use super::stage::Run;

/// So many are sorted by counting.
const COUNTED: usize = 64;

type Column = [u64; COUNTED];

/// Room to sort what waits in a leaf.
#[derive(Debug)]
pub(super) struct Late {
    keys: Column,
    values: Column,
    /// For more than that.
    many: Run,
}

impl Late {
    pub(super) const fn new() -> Self {
        Self {
            keys: [NO_KEY; COUNTED],
            values: [0; COUNTED],
            many: Run::new(),
        }
    }

    /// What waits in a leaf, and newer entries of its range, ascending; of equal keys the newest.
    #[inline(always)]
    pub(super) fn of_leaf<'l>(&'l mut self, leaf: &Leaf, newer: Columns<'l>) -> Columns<'l> {
        let waiting = leaf.waiting();
        if waiting == 0 {
            return newer;
        }
        let len = waiting + newer.0.len();
        if len > COUNTED {
            return self.of_many(leaf.waiting_columns(), newer);
        }
        // The newest first, as what waits stands.
        let (mut keys, mut values) = ([NO_KEY; COUNTED], [0; COUNTED]);
        let from = newer.0.len();
        for (place, (&key, &value)) in newer.0.iter().zip(newer.1).rev().enumerate() {
            (keys[place], values[place]) = (key, value);
        }
        let (waiting_keys, waiting_values) = leaf.waiting_columns();
        keys[from..len].copy_from_slice(waiting_keys);
        values[from..len].copy_from_slice(waiting_values);
        self.sort(&keys, &values, len)
    }

    /// Sorts by counting how many keys lie below each: of equal ones the newest is written over the others, and what is left
    /// free then is closed up.
    #[inline(always)]
    fn sort(&mut self, keys: &Column, values: &Column, len: usize) -> Columns<'_> {
        self.keys[..len].fill(NO_KEY);
        self.put_in_place(keys, values, len);
        let len = if self.keys[..len].contains(&NO_KEY) {
            self.close_up(len)
        } else {
            len
        };
        (&self.keys[..len], &self.values[..len])
    }

    #[inline(always)]
    fn put_in_place(&mut self, keys: &Column, values: &Column, len: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if has_wide_vectors() {
            // SAFETY: the processor has the features.
            unsafe { self.put_in_place_with_vectors(keys, values, len) };
            return;
        }
        let groups = &keys.as_chunks::<GROUP>().0[..len.div_ceil(GROUP)];
        self.put_at(keys, values, len, |key| {
            groups.iter().map(|group| count_below(group, key)).sum()
        });
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "avx512f,popcnt")]
    fn put_in_place_with_vectors(&mut self, keys: &Column, values: &Column, len: usize) {
        let groups = &keys.as_chunks().0[..len.div_ceil(LANES)];
        self.put_at(keys, values, len, |key| count_below_with_vectors(groups, key));
    }

    #[inline(always)]
    fn put_at(&mut self, keys: &Column, values: &Column, len: usize, rank_of: impl Fn(u64) -> usize) {
        for (&key, &value) in keys[..len].iter().zip(&values[..len]).rev() {
            let rank = rank_of(key);
            self.keys[rank] = key;
            self.values[rank] = value;
        }
    }

    #[cold]
    fn close_up(&mut self, len: usize) -> usize {
        let mut closed = 0;
        for place in 0..len {
            let key = self.keys[place];
            self.keys[closed] = key;
            self.values[closed] = self.values[place];
            closed += usize::from(key != NO_KEY);
        }
        closed
    }

    #[cold]
    fn of_many(&mut self, (keys, values): Columns<'_>, newer: Columns<'_>) -> Columns<'_> {
        let keys = keys.iter().rev().chain(newer.0);
        let values = values.iter().rev().chain(newer.1);
        let mut entries: Vec<(u64, u64)> = keys.copied().zip(values.copied()).collect();
        entries.sort_by_key(|entry| entry.0);
        self.many.clear();
        self.many.extend_sorted(&entries);
        self.many.columns()
    }
}
