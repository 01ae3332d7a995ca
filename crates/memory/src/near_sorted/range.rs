//! Ranges: one leaf at a time from either end, and slices of columns for those who want all of it.

use std::cell::Cell;
use std::ops::RangeBounds;

use super::join::scalar::Joining;
use super::near_sorted_tree::NearSortedTree;
use super::options::LEAF_ENTRIES;
use super::pending::stage::{Run, Stage};
use super::search::{Columns, NO_KEY, Searching, vectorised};
use super::tree::bplus_tree::BPlusTree;
use super::tree::branch::Branch;
use super::tree::leaf::Leaf;
use crate::map::range::{End, Leaves};
use crate::map::serial_map::{Bounds, OneAtATime, SerialMap, inclusive};

thread_local! {
    /// What the last reading of this thread leaves to the next one: to make 8 KiB of it takes as long as to read a leaf.
    static LEFT: Cell<Option<Box<Reading>>> = const { Cell::new(None) };
}

/// What is staged between two bounds, and room to join leaves with what is late.
#[derive(Debug)]
struct Reading {
    staged: Run,
    joining: Joining,
}

impl Reading {
    #[inline(always)]
    fn begin(stage: &Stage, lower: u64, upper: u64) -> Box<Self> {
        // There is nothing left in a thread that is about to end.
        let left = LEFT.try_with(Cell::take).ok().flatten();
        let mut reading = left.unwrap_or_else(Self::new);
        reading.staged.clear();
        stage.between(lower, upper, &mut reading.staged);
        reading
    }

    #[cold]
    fn new() -> Box<Self> {
        Box::new(Self {
            staged: Run::new(),
            joining: Joining::new(),
        })
    }

    #[inline(always)]
    fn end(self: Box<Self>) {
        let _ = LEFT.try_with(|left| left.set(Some(self)));
    }
}

/// Visits the entries of one leaf of a branch between the bounds; those staged are within them. Asks for the next leaf meanwhile.
#[inline(always)]
fn visit_place(
    joining: &mut Joining,
    branch: &Branch,
    place: usize,
    bounds: (u64, u64),
    staged: Columns<'_>,
    next: Option<&Leaf>,
    visit: &mut impl FnMut(&[u64], &[u64]),
) {
    if let Some(leaf) = branch.leaves().get(place) {
        joining.visit(leaf, bounds, (branch.waiting_for(place), staged), next, visit);
    } else if !staged.0.is_empty() {
        visit(staged.0, staged.1);
    }
}

/// Appends what is visited.
fn collecting(entries: &mut Vec<(u64, u64)>) -> impl FnMut(&[u64], &[u64]) {
    |keys, values| entries.extend(keys.iter().copied().zip(values.iter().copied()))
}

impl BPlusTree {
    /// The entries of a range of keys, from either end.
    pub fn range(&self, bounds: impl RangeBounds<u64>) -> crate::map::range::Range<'_, u64> {
        crate::map::range::Range::new(self, bounds)
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
        let first_at = self.index.find(lower);
        let first = self.branches[first_at].find(lower);
        // What is staged is looked through while the first leaf comes from memory.
        self.branches[first_at].prefetch_outline(first);
        let mut reading = Reading::begin(&self.stage, lower, upper);
        let Reading { staged, joining } = &mut *reading;
        let mut staged = staged.columns();
        self.branches[first_at].prefetch_joined(first, (lower, upper));
        for at in first_at..self.branches.len() {
            let fence = self.index.fence(at).unwrap_or(0);
            if fence > upper {
                break;
            }
            let branch = &self.branches[at];
            let branch_end = self
                .index
                .fence(at + 1)
                .map_or(upper, |fence| upper.min(fence - 1));
            let first = if at == first_at { first } else { 0 };
            let last = branch.find(upper);
            for place in first..branch.leaves().len().max(first + 1) {
                let end = branch
                    .fence(place + 1)
                    .map_or(branch_end, |fence| upper.min(fence - 1));
                let next = branch.prefetch_behind(first, place, last, upper);
                let count = staged.0.iter().take_while(|&&key| key <= end).count();
                let (keys, more_keys) = staged.0.split_at(count);
                let (values, more_values) = staged.1.split_at(count);
                staged = (more_keys, more_values);
                let staged = (keys, values);
                visit_place(joining, branch, place, (lower, end), staged, next, visit);
                if end == upper {
                    break;
                }
            }
        }
        reading.end();
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
    /// Appends the entries of the leaf at this branch and place between the bounds.
    fn read_place(&self, (at, place): (usize, usize), bounds: (u64, u64), entries: &mut Vec<(u64, u64)>) {
        let mut reading = Reading::begin(&self.stage, bounds.0, bounds.1);
        let Reading { staged, joining } = &mut *reading;
        visit_place(
            joining,
            &self.branches[at],
            place,
            bounds,
            staged.columns(),
            None,
            &mut collecting(entries),
        );
        reading.end();
    }

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
        self.read_place((at, place), (lower, upper.min(next - 1)), entries);
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
            self.read_place((at, place), (lower.max(fence), below), entries);
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
    pub fn range(&self, bounds: impl RangeBounds<u64>) -> crate::map::range::Range<'_, u64> {
        crate::map::range::Range::new(self, bounds)
    }

    /// Calls `visit` with the keys of the range and their values, ascending, a slice of both at a time. Faster than
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
        self.visit_greatest(upper, &mut visit);
    }

    /// Visits the greatest of all keys, if it is there and the bound admits it.
    pub(super) fn visit_greatest(&self, upper: u64, visit: &mut impl FnMut(&[u64], &[u64])) {
        if upper == NO_KEY
            && let Some(value) = self.tree.greatest
        {
            visit(&[NO_KEY], &[value]);
        }
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
            entries.extend(self.tree.greatest.map(|value| (NO_KEY, value)));
        }
        next
    }

    fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        if upper > self.tail.end && upper >= self.tail.fence {
            let end = lower.max(self.tail.end + 1);
            let next = self.ahead.read_down(end, upper, entries);
            if upper == NO_KEY {
                entries.extend(self.tree.greatest.map(|value| (NO_KEY, value)));
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
