//! Ranges of the plain tree: one leaf at a time from either end, and slices of columns for a reader
//! of the complete range.

use std::ops::RangeBounds;

use super::branch::{ASKED_AT_ONCE, Branch};
use super::layered_tree::LayeredTree;
use super::packed_tree::PackedTree;
use crate::map::exclusive_map::{ExclusiveMap, exclusive_operations, inclusive};
use crate::map::range::Range;
use crate::near_sorted::run::collecting;
use crate::search::dispatch::{Searching, vectorised};
use crate::search::keys::NO_KEY;

impl PackedTree {
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
        if lower < NO_KEY {
            vectorised(Visit {
                tree: &self.packed,
                bounds: (lower, upper.min(NO_KEY - 1)),
                visit: &mut visit,
            });
        }
        self.packed.visit_greatest(upper, &mut visit);
    }
}

/// Visits the entries of a leaf between the bounds.
#[inline(always)]
fn visit_leaf(
    branch: &Branch<()>,
    place: usize,
    (lower, upper): (u64, u64),
    visit: &mut impl FnMut(&[u64], &[u64]),
) {
    let Some(leaf) = branch.leaves().get(place) else {
        return;
    };
    let stretch = leaf.between(lower, upper);
    if !stretch.is_empty() {
        visit(&leaf.keys()[stretch.clone()], &leaf.values()[stretch]);
    }
}

fn read_leaf(branch: &Branch<()>, place: usize, bounds: (u64, u64), entries: &mut Vec<(u64, u64)>) {
    visit_leaf(branch, place, bounds, &mut collecting(entries));
}

struct Visit<'t, V> {
    tree: &'t LayeredTree<()>,
    bounds: (u64, u64),
    visit: &'t mut V,
}

impl<V: FnMut(&[u64], &[u64])> Searching for Visit<'_, V> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let (tree, (lower, upper)) = (self.tree, self.bounds);
        let (first_at, first) = tree.find(lower);
        for at in first_at..tree.branches.len() {
            if tree.index.fence(at).is_some_and(|fence| fence > upper) {
                break;
            }
            let branch = &tree.branches[at];
            let first = if at == first_at { first } else { 0 };
            let last = branch.find(upper);
            for place in first..branch.leaves().len().min(last + 1) {
                // Prefetches the pages of a few leaves at once: the processor translates their
                // addresses together.
                if (place - first).is_multiple_of(ASKED_AT_ONCE) {
                    let ahead = place + 1..(place + ASKED_AT_ONCE).min(last) + 1;
                    branch.leaves()[ahead]
                        .iter()
                        .for_each(|leaf| leaf.prefetch_page());
                }
                visit_leaf(branch, place, (lower, upper), self.visit);
            }
        }
    }
}

impl ExclusiveMap for PackedTree {
    exclusive_operations!();

    fn read_up(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        self.packed.read_up((lower, upper), entries, read_leaf)
    }

    fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        self.packed.read_down((lower, upper), entries, read_leaf)
    }
}
