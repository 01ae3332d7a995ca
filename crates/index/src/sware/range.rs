//! Ranges: one leaf at a time from either end, and slices of columns for those who want all of it.

use std::ops::{Bound, Range, RangeBounds};

use super::bplus_tree::BPlusTree;
use super::branch::Branch;
use super::leaf::{LEAF_ENTRIES, Leaf};
use super::near_sorted::NearSortedTree;
use super::pending::Columns;
use super::search::{NO_KEY, Searching, vectorised};
use super::serial_map::{Bounds, OneAtATime, SerialMap};
use crate::mem::{self, End, Leaves};

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

/// What waits between two bounds, and room to join it with the newest.
#[derive(Debug, Default)]
struct Joining {
    /// The newest of a branch, sorted.
    newest: Vec<(u64, u64)>,
    keys: Vec<u64>,
    values: Vec<u64>,
    joined: Option<Box<Joined>>,
}

impl Joining {
    /// Takes the newest entries of a branch between the bounds.
    fn take_newest(&mut self, branch: &Branch, lower: u64, upper: u64) {
        self.newest.clear();
        let newest = branch.pending.newest().iter();
        self.newest
            .extend(newest.filter(|(key, _)| (lower..=upper).contains(key)));
        self.newest.sort_by_key(|entry| entry.0);
        // Of equal neighbours the later one arrived last.
        self.newest.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                *earlier = *later;
            }
            is_same
        });
    }

    /// Joins what waits for a leaf with the newest of the same range, which win.
    fn join_late(&mut self, (keys, values): Columns<'_>, newest: Range<usize>) {
        self.keys.clear();
        self.values.clear();
        let mut from = 0;
        for &(key, value) in &self.newest[newest] {
            let to = from + keys[from..].partition_point(|&late| late < key);
            self.keys.extend_from_slice(&keys[from..to]);
            self.values.extend_from_slice(&values[from..to]);
            self.keys.push(key);
            self.values.push(value);
            from = to + usize::from(keys.get(to) == Some(&key));
        }
        self.keys.extend_from_slice(&keys[from..]);
        self.values.extend_from_slice(&values[from..]);
    }
}

/// Entries copied at once, more than needed: what is between two late entries is seldom longer.
const COPIED: usize = 32;
/// Room for a leaf, what waits for it, and what is copied too much.
const JOINED: usize = 3 * LEAF_ENTRIES;

/// Keys and values of a leaf joined with what waits for it.
#[derive(Debug)]
struct Joined {
    keys: [u64; JOINED],
    values: [u64; JOINED],
    len: usize,
}

impl Joined {
    fn new() -> Box<Self> {
        Box::new(Self {
            keys: [0; JOINED],
            values: [0; JOINED],
            len: 0,
        })
    }

    /// Joins a stretch of a leaf with what waits for it, which wins.
    #[inline(always)]
    fn join(&mut self, leaf: &Leaf, stretch: Range<usize>, late: Columns<'_>) {
        self.len = 0;
        let mut from = stretch.start;
        for (&key, &value) in late.0.iter().zip(late.1) {
            let to = leaf.rank(key).max(from);
            self.copy(leaf, from..to);
            self.keys[self.len] = key;
            self.values[self.len] = value;
            self.len += 1;
            from = to + usize::from(leaf.keys().get(to) == Some(&key));
        }
        self.copy(leaf, from..stretch.end);
    }

    /// Copies a stretch of a leaf behind the entries there are, whole groups of it, so that the length decides nothing.
    #[inline(always)]
    fn copy(&mut self, leaf: &Leaf, stretch: Range<usize>) {
        let end = self.len + stretch.len();
        let (mut from, mut at) = (stretch.start, self.len);
        while at < end {
            copy_group(&leaf.all_keys()[from..], &mut self.keys[at..]);
            copy_group(&leaf.all_values()[from..], &mut self.values[at..]);
            from += COPIED;
            at += COPIED;
        }
        self.len = end;
    }

    fn columns(&self) -> Columns<'_> {
        (&self.keys[..self.len], &self.values[..self.len])
    }
}

#[inline(always)]
fn copy_group(from: &[u64], to: &mut [u64]) {
    match (from.first_chunk::<COPIED>(), to.first_chunk_mut::<COPIED>()) {
        (Some(from), Some(to)) => *to = *from,
        _ => {
            let count = from.len().min(to.len());
            to[..count].copy_from_slice(&from[..count]);
        }
    }
}

impl Branch {
    /// Visits the entries of one leaf between the bounds; `newest` are those of its range.
    #[inline(always)]
    fn visit_leaf(
        &self,
        place: usize,
        (lower, upper): (u64, u64),
        newest: Range<usize>,
        joining: &mut Joining,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        let mut late = self.pending.of_leaf_between(place, lower, upper);
        if !newest.is_empty() {
            joining.join_late(late, newest);
            late = (&joining.keys, &joining.values);
        }
        match self.leaves().get(place) {
            None if late.0.is_empty() => {}
            None => visit(late.0, late.1),
            Some(leaf) => {
                let stretch = leaf.between(lower, upper);
                let (keys, values) = if late.0.is_empty() {
                    (&leaf.keys()[stretch.clone()], &leaf.values()[stretch])
                } else {
                    let joined = joining.joined.get_or_insert_with(Joined::new);
                    joined.join(leaf, stretch, late);
                    joined.columns()
                };
                if !keys.is_empty() {
                    visit(keys, values);
                }
            }
        }
    }

    fn read_leaf(&self, place: usize, bounds: (u64, u64), entries: &mut Vec<(u64, u64)>) {
        let mut joining = Joining::default();
        joining.take_newest(self, bounds.0, bounds.1);
        let newest = 0..joining.newest.len();
        self.visit_leaf(place, bounds, newest, &mut joining, &mut |keys, values| {
            entries.extend(keys.iter().copied().zip(values.iter().copied()));
        });
    }
}

impl BPlusTree {
    /// The entries of a range of keys, from either end.
    pub fn range(&self, bounds: impl RangeBounds<u64>) -> mem::Range<'_, u64> {
        mem::Range::new(self, bounds)
    }

    /// Calls `visit` with the keys of the range and their values, ascending, a slice of both at a time. Faster than
    /// [`range`](Self::range) for long ranges.
    pub fn visit(&self, bounds: impl RangeBounds<u64>, mut visit: impl FnMut(&[u64], &[u64])) {
        let Some((lower, upper)) = inclusive(bounds) else {
            return;
        };
        self.visit_between(lower, upper, &mut visit);
        if upper == NO_KEY
            && let Some(value) = self.greatest
        {
            visit(&[NO_KEY], &[value]);
        }
    }

    /// Visits all but the greatest of all keys.
    pub(super) fn visit_between(&self, lower: u64, upper: u64, visit: &mut impl FnMut(&[u64], &[u64])) {
        if lower < NO_KEY {
            vectorised(Visit {
                tree: self,
                bounds: (lower, upper.min(NO_KEY - 1)),
                visit,
            });
        }
    }

    #[inline(always)]
    fn visit_between_here(&self, (lower, upper): (u64, u64), visit: &mut impl FnMut(&[u64], &[u64])) {
        let mut joining = Joining::default();
        for at in self.index.find(lower)..self.branches.len() {
            let fence = self.index.fence(at).unwrap_or(0);
            if fence > upper {
                return;
            }
            let branch = &self.branches[at];
            let branch_end = self
                .index
                .fence(at + 1)
                .map_or(upper, |fence| upper.min(fence - 1));
            joining.take_newest(branch, lower.max(fence), branch_end);
            let mut newest_from = 0;
            let first = branch.find(lower);
            for place in first..branch.leaves().len().max(first + 1) {
                let end = branch
                    .fence(place + 1)
                    .map_or(branch_end, |fence| upper.min(fence - 1));
                let newest_here = joining.newest[newest_from..].partition_point(|entry| entry.0 <= end);
                let newest = newest_from..newest_from + newest_here;
                newest_from = newest.end;
                branch.visit_leaf(place, (lower, end), newest, &mut joining, visit);
                if end == upper {
                    break;
                }
            }
        }
    }
}

struct Visit<'t, V> {
    tree: &'t BPlusTree,
    bounds: (u64, u64),
    visit: &'t mut V,
}

impl<V: FnMut(&[u64], &[u64])> Searching for Visit<'_, V> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        self.tree.visit_between_here(self.bounds, self.visit);
    }
}

impl BPlusTree {
    pub(super) fn read_up_below(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
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
        branch.read_leaf(place, (lower, upper.min(next - 1)), entries);
        (next <= upper).then_some(next)
    }

    pub(super) fn read_down_below(
        &self,
        lower: u64,
        upper: u64,
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
            branch.read_leaf(place, (lower.max(fence), below), entries);
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
        self.read_up_below(lower, upper, entries)
    }

    fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        self.read_down_below(lower, upper, entries)
    }
}

impl NearSortedTree {
    /// The entries of a range of keys, from either end.
    pub fn range(&self, bounds: impl RangeBounds<u64>) -> mem::Range<'_, u64> {
        mem::Range::new(self, bounds)
    }

    /// Calls `visit` with the keys of the range and their values, ascending, a slice of both at a time. Faster than
    /// [`range`](Self::range) for long ranges.
    pub fn visit(&self, bounds: impl RangeBounds<u64>, mut visit: impl FnMut(&[u64], &[u64])) {
        let Some((lower, upper)) = inclusive(bounds) else {
            return;
        };
        if lower < self.tail_fence {
            self.tree
                .visit_between(lower, upper.min(self.tail_fence - 1), &mut visit);
        }
        let in_tail = self.tail.between(lower.min(NO_KEY - 1), upper.min(NO_KEY - 1));
        if !in_tail.is_empty() {
            visit(&self.tail.keys()[in_tail.clone()], &self.tail.values()[in_tail]);
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
        let in_tail = self.tail.between(lower, upper.min(NO_KEY - 1));
        let (keys, values) = (&self.tail.keys()[in_tail.clone()], &self.tail.values()[in_tail]);
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
            let next = self.tree.read_up_below(lower, upper.min(below), entries);
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
        self.tree.read_down_below(lower, upper, entries)
    }
}

macro_rules! leaves {
    ($($tree:ty),*) => {$(
        impl Leaves<[u64; 1]> for $tree {
            fn read(
                &self,
                from: End,
                bounds: Bounds,
                entries: &mut Vec<([u64; 1], u64)>,
            ) -> Option<[u64; 1]> {
                OneAtATime(self).read(from, bounds, entries)
            }
        }
    )*};
}

leaves!(BPlusTree, NearSortedTree);
