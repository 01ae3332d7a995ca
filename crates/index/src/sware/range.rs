//! Ranges: one leaf at a time from either end, and slices of columns for those who want all of it.

use std::ops::{Bound, RangeBounds};

use super::bplus_tree::BPlusTree;
use super::branch::Branch;
use super::near_sorted::NearSortedTree;
use super::search::NO_KEY;
use super::serial_map::{OneAtATime, SerialMap};
use crate::mem::{Leaves, Range};

/// The least and the greatest key within the bounds; none if no key can be.
pub(super) fn inclusive(bounds: impl RangeBounds<u64>) -> Option<(u64, u64)> {
    let lower = match bounds.start_bound() {
        Bound::Unbounded => 0,
        Bound::Included(&key) => key,
        Bound::Excluded(&key) => key.checked_add(1)?,
    };
    let upper = match bounds.end_bound() {
        Bound::Unbounded => u64::MAX,
        Bound::Included(&key) => key,
        Bound::Excluded(&key) => key.checked_sub(1)?,
    };
    (lower <= upper).then_some((lower, upper))
}

/// Merges a stretch of a leaf with what pends of the same range, which wins; both ascend.
fn merged(keys: &[u64], values: &[u64], pending: &[(u64, u64)], visit: &mut impl FnMut(&[u64], &[u64])) {
    let mut from = 0;
    for &(key, value) in pending {
        let to = from + keys[from..].partition_point(|&stored| stored < key);
        if to > from {
            visit(&keys[from..to], &values[from..to]);
        }
        visit(&[key], &[value]);
        from = to + usize::from(keys.get(to) == Some(&key));
    }
    if from < keys.len() {
        visit(&keys[from..], &values[from..]);
    }
}

impl Branch {
    /// Visits the entries of one leaf between the bounds.
    fn visit_leaf(
        &self,
        place: usize,
        (lower, upper): (u64, u64),
        pending: &[(u64, u64)],
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        match self.leaves().get(place) {
            None => merged(&[], &[], pending, visit),
            Some(leaf) => {
                let (keys, values) = leaf.between(lower, upper);
                merged(keys, values, pending, visit);
            }
        }
    }

    /// Replaces `late` by what pends between the bounds, ascending; `newest` are entries that hide all others, in order
    /// of arrival.
    fn late_between(&self, lower: u64, upper: u64, newest: &[(u64, u64)], late: &mut Vec<(u64, u64)>) {
        late.clear();
        self.pending.sorted_between(lower, upper, late);
        let before = late.len();
        late.extend(newest.iter().filter(|(key, _)| (lower..=upper).contains(key)));
        if late.len() > before {
            late.sort_by_key(|entry| entry.0);
            // Of equal neighbours the later one arrived last.
            late.dedup_by(|later, earlier| {
                let is_same = later.0 == earlier.0;
                if is_same {
                    *earlier = *later;
                }
                is_same
            });
        }
    }

    fn read_leaf(
        &self,
        place: usize,
        bounds: (u64, u64),
        newest: &[(u64, u64)],
        entries: &mut Vec<(u64, u64)>,
    ) {
        let mut late = Vec::new();
        self.late_between(bounds.0, bounds.1, newest, &mut late);
        self.visit_leaf(place, bounds, &late, &mut |keys, values| {
            entries.extend(keys.iter().copied().zip(values.iter().copied()));
        });
    }
}

impl BPlusTree {
    /// The entries of a range of keys, from either end.
    pub fn range(&self, bounds: impl RangeBounds<u64>) -> Range<'_, u64> {
        Range::new(self, bounds)
    }

    /// Calls `visit` with the keys of the range and their values, ascending, a slice of both at a time. Faster than
    /// [`range`](Self::range) for long ranges.
    pub fn visit(&self, bounds: impl RangeBounds<u64>, mut visit: impl FnMut(&[u64], &[u64])) {
        let Some((lower, upper)) = inclusive(bounds) else {
            return;
        };
        self.visit_between(lower, upper, &[], &mut visit);
        if upper == NO_KEY
            && let Some(value) = self.greatest
        {
            visit(&[NO_KEY], &[value]);
        }
    }

    /// Visits all but the greatest of all keys.
    pub(super) fn visit_between(
        &self,
        lower: u64,
        upper: u64,
        newest: &[(u64, u64)],
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        if lower == NO_KEY {
            return;
        }
        let upper = upper.min(NO_KEY - 1);
        let mut late = Vec::new();
        for at in self.index.find(lower)..self.branches.len() {
            if self.index.fence(at).is_none_or(|fence| fence > upper) {
                return;
            }
            let branch = &self.branches[at];
            let branch_end = self
                .index
                .fence(at + 1)
                .map_or(upper, |fence| upper.min(fence - 1));
            branch.late_between(
                lower.max(self.index.fence(at).unwrap_or(0)),
                branch_end,
                newest,
                &mut late,
            );
            let mut rest = late.as_slice();
            let first = branch.find(lower);
            for place in first..branch.leaves().len().max(first + 1) {
                let end = branch
                    .fence(place + 1)
                    .map_or(branch_end, |fence| upper.min(fence - 1));
                let (here, later) = rest.split_at(rest.partition_point(|entry| entry.0 <= end));
                branch.visit_leaf(place, (lower, end), here, visit);
                rest = later;
                if end == upper {
                    break;
                }
            }
        }
    }
}

impl BPlusTree {
    pub(super) fn read_up_below(
        &self,
        lower: u64,
        upper: u64,
        newest: &[(u64, u64)],
        entries: &mut Vec<(u64, u64)>,
    ) -> Option<u64> {
        if lower == NO_KEY {
            entries.extend(self.greatest.map(|value| (NO_KEY, value)));
            return None;
        }
        let at = self.index.find(lower);
        let branch = &self.branches[at];
        let place = branch.find(lower);
        let next = branch
            .fence(place + 1)
            .or_else(|| self.index.fence(at + 1))
            .unwrap_or(NO_KEY);
        branch.read_leaf(place, (lower, upper.min(next - 1)), newest, entries);
        (next <= upper).then_some(next)
    }

    pub(super) fn read_down_below(
        &self,
        lower: u64,
        upper: u64,
        newest: &[(u64, u64)],
        entries: &mut Vec<(u64, u64)>,
    ) -> Option<u64> {
        let below = upper.min(NO_KEY - 1);
        let mut rest = None;
        if lower <= below {
            let at = self.index.find(below);
            let branch = &self.branches[at];
            let place = branch.find(below);
            let fence = if place == 0 {
                self.index.fence(at)
            } else {
                branch.fence(place)
            }
            .unwrap_or(0);
            branch.read_leaf(place, (lower.max(fence), below), newest, entries);
            rest = (lower < fence).then(|| fence - 1);
        }
        if upper == NO_KEY {
            entries.extend(self.greatest.map(|value| (NO_KEY, value)));
        }
        rest
    }
}

impl SerialMap for BPlusTree {
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(key)
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        self.remove(key)
    }

    fn check_structure(&self) -> Result<(), String> {
        self.check_structure()
    }

    fn read_up(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        self.read_up_below(lower, upper, &[], entries)
    }

    fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        self.read_down_below(lower, upper, &[], entries)
    }
}

impl NearSortedTree {
    /// The entries of a range of keys, from either end.
    pub fn range(&self, bounds: impl RangeBounds<u64>) -> Range<'_, u64> {
        Range::new(self, bounds)
    }

    /// Calls `visit` with the keys of the range and their values, ascending, a slice of both at a time. Faster than
    /// [`range`](Self::range) for long ranges.
    pub fn visit(&self, bounds: impl RangeBounds<u64>, mut visit: impl FnMut(&[u64], &[u64])) {
        let Some((lower, upper)) = inclusive(bounds) else {
            return;
        };
        if lower < self.tail_fence {
            let newest = self.late.entries();
            self.tree
                .visit_between(lower, upper.min(self.tail_fence - 1), newest, &mut visit);
        }
        let (keys, values) = self.tail.between(lower.min(NO_KEY - 1), upper.min(NO_KEY - 1));
        if !keys.is_empty() {
            visit(keys, values);
        }
        self.ahead
            .visit(lower.max(self.tail_end), upper.min(NO_KEY - 1), &mut visit);
        if upper == NO_KEY
            && let Some(value) = self.tree.greatest
        {
            visit(&[NO_KEY], &[value]);
        }
    }

    fn read_tail(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) {
        let (keys, values) = self.tail.between(lower, upper.min(NO_KEY - 1));
        entries.extend(keys.iter().copied().zip(values.iter().copied()));
    }
}

impl SerialMap for NearSortedTree {
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(key)
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        self.remove(key)
    }

    fn check_structure(&self) -> Result<(), String> {
        self.check_structure()
    }

    fn read_up(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        if lower < self.tail_fence {
            let below = self.tail_fence - 1;
            let newest = self.late.entries();
            let next = self.tree.read_up_below(lower, upper.min(below), newest, entries);
            return next.or_else(|| (upper > below).then_some(self.tail_fence));
        }
        if lower <= self.tail_end {
            self.read_tail(lower, upper, entries);
            return (upper > self.tail_end).then(|| self.tail_end + 1);
        }
        let next = self.ahead.read_up(lower, upper, entries);
        if next.is_none() && upper == NO_KEY {
            entries.extend(self.tree.greatest.map(|value| (NO_KEY, value)));
        }
        next
    }

    fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        if upper > self.tail_end && upper >= self.tail_fence {
            let end = lower.max(self.tail_end + 1);
            let next = self.ahead.read_down(end, upper, entries);
            if upper == NO_KEY {
                entries.extend(self.tree.greatest.map(|value| (NO_KEY, value)));
            }
            return next.or_else(|| (lower < end).then_some(self.tail_end));
        }
        if upper >= self.tail_fence {
            self.read_tail(lower, upper, entries);
            return (lower < self.tail_fence).then(|| self.tail_fence - 1);
        }
        self.tree
            .read_down_below(lower, upper, self.late.entries(), entries)
    }
}

macro_rules! leaves {
    ($($tree:ty),*) => {$(
        impl Leaves<[u64; 1]> for $tree {
            fn read_least(
                &self,
                lower: Bound<[u64; 1]>,
                upper: Bound<[u64; 1]>,
                entries: &mut Vec<([u64; 1], u64)>,
            ) -> Option<[u64; 1]> {
                OneAtATime(self).read_least(lower, upper, entries)
            }

            fn read_greatest(
                &self,
                lower: Bound<[u64; 1]>,
                upper: Bound<[u64; 1]>,
                entries: &mut Vec<([u64; 1], u64)>,
            ) -> Option<[u64; 1]> {
                OneAtATime(self).read_greatest(lower, upper, entries)
            }
        }
    )*};
}

leaves!(BPlusTree, NearSortedTree);
