//! Ranges of the plain tree: one leaf at a time from either end, and slices of columns for a reader that wants all of it.

use std::ops::RangeBounds;

use super::bplus_tree::BPlusTree;
use super::branch::{ASKED_AT_ONCE, Branch};
use super::packed_tree::PackedTree;
use crate::map::exclusive_map::{Bounds, ExclusiveMap, OneAtATime, inclusive};
use crate::map::range::{End, Leaves};
use crate::near_sorted::run::collecting;
use crate::search::dispatch::{Searching, vectorised};
use crate::search::keys::NO_KEY;

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
        if lower < NO_KEY {
            vectorised(Visit {
                tree: &self.packed,
                bounds: (lower, upper.min(NO_KEY - 1)),
                visit: &mut visit,
            });
        }
        if upper == NO_KEY
            && let Some(value) = self.packed.greatest
        {
            visit(&[NO_KEY], &[value]);
        }
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

struct Visit<'t, V> {
    tree: &'t PackedTree<()>,
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
                // The pages of a few at once, which the processor looks for together.
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

impl ExclusiveMap for BPlusTree {
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
        let tree = &self.packed;
        if lower == NO_KEY {
            entries.extend(tree.greatest.map(|value| (NO_KEY, value)));
            return None;
        }
        let (at, place) = tree.find(lower);
        let next = tree.fence_behind(at, place);
        let bounds = (lower, upper.min(next - 1));
        visit_leaf(&tree.branches[at], place, bounds, &mut collecting(entries));
        (next <= upper).then_some(next)
    }

    fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        let tree = &self.packed;
        let below = upper.min(NO_KEY - 1);
        let mut rest = None;
        if lower <= below {
            let (at, place) = tree.find(below);
            let fence = tree.fence_of(at, place);
            let bounds = (lower.max(fence), below);
            visit_leaf(&tree.branches[at], place, bounds, &mut collecting(entries));
            rest = (lower < fence).then(|| fence - 1);
        }
        if upper == NO_KEY {
            entries.extend(tree.greatest.map(|value| (NO_KEY, value)));
        }
        rest
    }
}

impl Leaves<[u64; 1]> for BPlusTree {
    fn read(&self, from: End, bounds: Bounds, entries: &mut Vec<([u64; 1], u64)>) -> Option<[u64; 1]> {
        OneAtATime(self).read(from, bounds, entries)
    }
}
