//! Ranges of the tree for nearly sorted keys, with and without merging pending entries.

use std::ops::RangeBounds;

use super::near_sorted_tree::NearSortedTree;
use super::options::LEAF_ENTRIES;
use super::pending::scan::PASSES;
use crate::map::exclusive_map::{ExclusiveMap, exclusive_operations, inclusive};
use crate::map::range::Range;
use crate::near_sorted::run::collecting;
use crate::search::keys::NO_KEY;

impl NearSortedTree {
    /// Calls `visit` with slices of the keys of the range and their values, ascending, as
    /// [`visit`](Self::visit) does, and merges the pending entries of the leaves that it passes
    /// where that pays: at once where merging costs no more than joining, which is what `visit`
    /// does, otherwise after a few scans have joined them. The next range over a merged leaf, of
    /// either kind, pays nothing for it until more keys come late. Time O(log n) and that of the
    /// leaves.
    ///
    /// ```
    /// use bedload_memory::near_sorted::NearSortedTree;
    ///
    /// let mut tree = NearSortedTree::new();
    /// for key in (0..10_000).map(|key| key * 7_919 % 10_000) {
    ///     tree.insert(key, key);
    /// }
    /// let mut sum = 0;
    /// tree.scan(100..200, |_, values| sum += values.iter().sum::<u64>());
    /// assert_eq!(sum, (100..200).sum());
    /// ```
    pub fn scan(&mut self, bounds: impl RangeBounds<u64>, mut visit: impl FnMut(&[u64], &[u64])) {
        if let Some(bounds) = inclusive(bounds) {
            self.scan_between(bounds, PASSES, &mut visit);
        }
    }

    /// Merges the pending entries of the leaves of a range, so that reading it costs nothing extra
    /// until more keys come late. Useful before many reads of a range, or reads from several
    /// threads; never necessary. Time O(n) for the n entries of the range.
    pub fn prepare_range(&mut self, bounds: impl RangeBounds<u64>) {
        if let Some(bounds) = inclusive(bounds) {
            self.scan_between(bounds, 0, &mut |_, _| {});
        }
    }

    fn scan_between(
        &mut self,
        (lower, upper): (u64, u64),
        passes: u8,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        if lower < self.tail.fence {
            let upper = upper.min(self.tail.fence - 1);
            self.tree.scan_between((lower, upper), passes, visit);
        }
        if upper >= self.tail.fence && lower <= self.tail.end {
            if passes == 0 || self.tail.is_merge_worth(lower, upper) {
                self.tail.merge_late(&mut self.tree.scratch.run);
            }
            self.tail.visit(lower, upper, visit);
        }
        let ahead = (lower.max(self.tail.end), upper.min(NO_KEY - 1));
        self.ahead.scan(ahead, passes, visit);
        self.tree.packed.visit_greatest(upper, visit);
    }
}

impl NearSortedTree {
    /// Returns the entries of a range of keys, from either end.
    pub fn range(&self, bounds: impl RangeBounds<u64>) -> Range<'_, u64> {
        Range::new(self, bounds)
    }

    /// Calls `visit` with slices of the keys of the range and their values, ascending. Faster than
    /// [`range`](Self::range) for long ranges.
    pub fn visit(&self, bounds: impl RangeBounds<u64>, mut visit: impl FnMut(&[u64], &[u64])) {
        let Some((lower, upper)) = inclusive(bounds) else {
            return;
        };
        if lower < self.tail.fence {
            self.tree
                .visit_between(lower, upper.min(self.tail.fence - 1), &mut visit);
        }
        self.tail.visit(lower, upper, &mut visit);
        self.ahead
            .visit(lower.max(self.tail.end), upper.min(NO_KEY - 1), &mut visit);
        self.tree.packed.visit_greatest(upper, &mut visit);
    }
}

impl ExclusiveMap for NearSortedTree {
    exclusive_operations!();

    fn read_up(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        if lower < self.tail.fence {
            let below = self.tail.fence - 1;
            let next = self.tree.read_up_below(lower, upper.min(below), entries);
            return next.or_else(|| (upper > below).then_some(self.tail.fence));
        }
        if lower <= self.tail.end {
            let (from, to) = self.tail.part_up(lower, upper, LEAF_ENTRIES);
            self.tail.visit(from, to, &mut collecting(entries));
            return (to < upper).then_some(to + 1);
        }
        let next = self.ahead.read_up(lower, upper, entries);
        if next.is_none() && upper == NO_KEY {
            entries.extend(self.tree.packed.greatest.map(|value| (NO_KEY, value)));
        }
        next
    }

    fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        if upper > self.tail.end && upper >= self.tail.fence {
            let end = lower.max(self.tail.end + 1);
            let next = self.ahead.read_down(end, upper, entries);
            if upper == NO_KEY {
                entries.extend(self.tree.packed.greatest.map(|value| (NO_KEY, value)));
            }
            return next.or_else(|| (lower < end).then_some(self.tail.end));
        }
        if upper >= self.tail.fence {
            let (from, to) = self.tail.part_down(lower, upper, LEAF_ENTRIES);
            self.tail.visit(from, to, &mut collecting(entries));
            return (lower < from).then(|| from - 1);
        }
        self.tree.read_down_below(lower, upper, entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_after_each_late_key_moves_each_entry_a_few_times() {
        const KEYS: u64 = if cfg!(miri) { 300 } else { 20_000 };
        // Ever later keys, and keys anywhere, before the only one in order.
        let descending = (0..KEYS).rev();
        let anywhere = (0..KEYS).map(|key| key * 7_919 % KEYS);
        for keys in [descending.collect::<Vec<u64>>(), anywhere.collect()] {
            let mut tree = NearSortedTree::new();
            tree.insert(KEYS, KEYS);
            for &key in &keys {
                tree.insert(key, key);
                let mut found = Vec::new();
                tree.scan(key..=key, |keys, values| {
                    found.extend(keys.iter().copied().zip(values.iter().copied()));
                });
                assert_eq!(found, [(key, key)]);
            }
            let moved = tree.arrivals().moved;
            assert!(moved < 40 * KEYS, "{moved} moved for {KEYS} keys");
            let mut sum = 0;
            tree.scan(.., |_, values| sum += values.iter().sum::<u64>());
            assert_eq!(sum, KEYS * (KEYS + 1) / 2);
        }
    }
}
