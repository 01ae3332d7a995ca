//! What waits for a leaf, sorted.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "calls of functions compiled for more features")
)]

use super::pending::{LEAF_PENDING_ENTRIES, LeafColumn, Pending};
use super::search::{Columns, GROUP, NO_KEY, count_below};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::search::{LANES, count_below_with_vectors, has_wide_vectors};
use super::stage::Run;

/// Room to sort what waits for a leaf.
#[derive(Debug)]
pub(super) struct Late {
    keys: LeafColumn,
    values: LeafColumn,
    /// For more than that.
    many: Run,
}

impl Late {
    pub(super) const fn new() -> Self {
        Self {
            keys: [NO_KEY; LEAF_PENDING_ENTRIES],
            values: [0; LEAF_PENDING_ENTRIES],
            many: Run::new(),
        }
    }

    /// What waits for a leaf, and newer entries of its range, ascending; of equal keys the newest.
    #[inline(always)]
    pub(super) fn of_leaf<'l>(
        &'l mut self,
        pending: &Pending,
        place: usize,
        newer: Columns<'l>,
    ) -> Columns<'l> {
        if pending.waiting(place) == 0 {
            return newer;
        }
        let mut keys = [NO_KEY; LEAF_PENDING_ENTRIES];
        let mut values = [0; LEAF_PENDING_ENTRIES];
        let waiting = pending.copy(place, &mut keys, &mut values);
        let len = waiting + newer.0.len();
        if len > LEAF_PENDING_ENTRIES {
            return self.of_many((&keys[..waiting], &values[..waiting]), newer);
        }
        keys[waiting..len].copy_from_slice(newer.0);
        values[waiting..len].copy_from_slice(newer.1);
        self.sort(&keys, &values, len)
    }

    /// Sorts by counting how many keys lie below each: of equal ones the last is written over the others, and what is
    /// left free then is closed up.
    #[inline(always)]
    fn sort(&mut self, keys: &LeafColumn, values: &LeafColumn, len: usize) -> Columns<'_> {
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
    fn put_in_place(&mut self, keys: &LeafColumn, values: &LeafColumn, len: usize) {
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
    fn put_in_place_with_vectors(&mut self, keys: &LeafColumn, values: &LeafColumn, len: usize) {
        let groups = &keys.as_chunks().0[..len.div_ceil(LANES)];
        self.put_at(keys, values, len, |key| count_below_with_vectors(groups, key));
    }

    #[inline(always)]
    fn put_at(&mut self, keys: &LeafColumn, values: &LeafColumn, len: usize, rank_of: impl Fn(u64) -> usize) {
        for (&key, &value) in keys[..len].iter().zip(values) {
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
        let keys = keys.iter().chain(newer.0);
        let mut entries: Vec<(u64, u64)> = keys.copied().zip(values.iter().chain(newer.1).copied()).collect();
        entries.sort_by_key(|entry| entry.0);
        self.many.clear();
        self.many.extend_sorted(&entries);
        self.many.columns()
    }
}
