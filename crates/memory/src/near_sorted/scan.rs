//! Ranges that merge what waits in the leaves they pass, as a query of the SWARE paper sorts what it meets unsorted in the
//! buffer (Raman et al., ICDE 2023, §IV-C): who reads the same keys again finds them in order.
//!
//! To merge costs once, to join costs each time, and how often a leaf will be read nobody knows. So what waits is joined, as if
//! rented, until that has cost about what merging does, and merged then, as if bought: whatever comes, both cost at most about
//! twice what they cost who knows it (Karlin, Manasse, Rudolph, Sleator, "Competitive Snoopy Caching", Algorithmica 3, 1988).

use std::ops::RangeBounds;

use super::near_sorted_tree::NearSortedTree;
use super::search::{Columns, NO_KEY, Searching, vectorised};
use super::tree::bplus_tree::BPlusTree;
use crate::map::serial_map::inclusive;

/// So many scans join what waits for a leaf before one merges it. Where it has no room its neighbours are written anew with it,
/// which takes as long as a few joins; where a scan needs a part of it, merging takes as long as two.
const PASSES: u8 = 4;

impl NearSortedTree {
    /// Calls `visit` with the keys of the range and their values, ascending, a slice of both at a time, as
    /// [`visit`](Self::visit) does, and merges what waits for the leaves that it passes, if that pays: at once where it costs no
    /// more than joining both, which is what `visit` does, and otherwise when some scans have joined them. The next range, of
    /// either kind, that passes what was merged before more keys come late pays nothing for it. Time O(log n) and that of the
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

    /// Merges what waits in the leaves of a range, so that to read it takes, from now on and until more keys come late, what it
    /// takes where nothing waits: for those who are about to read it many times, or from several threads. Time O(n) for the n
    /// entries of the range. There is no need to call it.
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
            self.tail.merge_late(&mut self.tree.scratch.run);
            self.tail.visit(lower, upper, visit);
        }
        let ahead = (lower.max(self.tail.end), upper.min(NO_KEY - 1));
        self.ahead.scan(ahead, passes, visit);
        self.visit_greatest(upper, visit);
    }
}

impl BPlusTree {
    /// Visits all but the greatest of all keys. What waits for a leaf is merged if so many scans have joined it before, and where
    /// that costs no more than to join it once more.
    pub(super) fn scan_between(
        &mut self,
        (lower, upper): (u64, u64),
        passes: u8,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        if lower < NO_KEY {
            vectorised(Scan {
                tree: self,
                bounds: (lower, upper.min(NO_KEY - 1)),
                passes,
                visit,
            });
        }
    }

    #[inline(always)]
    fn scan_between_here(
        &mut self,
        (lower, upper): (u64, u64),
        passes: u8,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        // What is staged is looked through while the first leaf comes from memory.
        let first = &self.branches[self.index.find(lower)];
        first.prefetch_outline(first.find(lower));
        self.insert_staged(lower, upper);
        let first = &self.branches[self.index.find(lower)];
        first.prefetch_joined(first.find(lower), (lower, upper));
        let mut from = Some(lower);
        while let Some(lower) = from {
            from = self.scan_branch((lower, upper), passes, visit);
        }
    }

    /// Visits the entries between the bounds, as far as they belong to the branch of the lower one, or part of them; returns
    /// from where on others may follow.
    #[inline(always)]
    fn scan_branch(
        &mut self,
        (lower, upper): (u64, u64),
        passes: u8,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) -> Option<u64> {
        let at = self.index.find(lower);
        let (first, last) = (self.branches[at].find(lower), self.branches[at].find(upper));
        let next_branch = self.index.fence(at + 1).filter(|&fence| fence <= upper);
        for place in first..self.branches[at].leaves().len().min(last + 1) {
            let branch = &mut self.branches[at];
            let mut joins_next = branch.prefetch_behind(first, place, last, upper).is_some();
            if branch.waiting_for(place).is_some() {
                let is_due = branch.pass(place) >= passes;
                let fence = branch.fence(place).unwrap_or(0);
                let is_whole = lower <= fence && (place < last || next_branch.is_some());
                if self.has_room(at, place) {
                    // All of the leaf is read and joined in any case, and it makes no odds where that is written.
                    if is_due || is_whole {
                        self.merge_within(at, place, joins_next);
                        joins_next = false;
                    }
                } else if is_due {
                    self.write_stretch(at, place, last);
                    // Leaves have moved.
                    return Some(lower.max(fence));
                }
            }
            let branch = &self.branches[at];
            let late: (_, Columns<'_>) = (branch.waiting_for(place), (&[], &[]));
            let next = branch.leaves().get(place + 1).filter(|_| joins_next);
            self.scratch
                .joining
                .visit(&branch.leaves()[place], (lower, upper), late, next, visit);
        }
        next_branch
    }

    /// Lets what is staged between the bounds wait for its leaves.
    #[inline(always)]
    fn insert_staged(&mut self, lower: u64, upper: u64) {
        let mut run = std::mem::take(&mut self.scratch.run);
        self.stage.take_between(lower, upper, &mut run);
        if !run.keys.is_empty() {
            self.insert_run(run.columns());
        }
        self.scratch.run = run;
    }
}

struct Scan<'t, V> {
    tree: &'t mut BPlusTree,
    bounds: (u64, u64),
    passes: u8,
    visit: &'t mut V,
}

impl<V: FnMut(&[u64], &[u64])> Searching for Scan<'_, V> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        self.tree.scan_between_here(self.bounds, self.passes, self.visit);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bedload_testkit::Rng;

    use super::super::options::TreeOptions;
    use super::*;

    /// Whatever the bounds, and wherever branches divide meanwhile: what is merged is visited once and in order, and no longer
    /// waits.
    #[test]
    fn what_is_written_anew_is_visited_once() {
        let mut rng = Rng::new(5);
        let (rounds, most) = if cfg!(miri) { (12, 300) } else { (300, 9_000) };
        for round in 0..rounds {
            let small = TreeOptions::new()
                .leaf_entries(4 + rng.index(12))
                .branch_leaves(4 + rng.index(9))
                .pending_entries(1 + rng.index(7))
                .staged_entries(5);
            let options = if round % 3 == 0 { TreeOptions::new() } else { small };
            let mut tree = BPlusTree::with_options(options);
            let mut model = BTreeMap::new();
            let count = rng.index(most) + 1;
            let end = [count as u64, 1 << 40][round % 2];
            for value in 0..count as u64 {
                let key = rng.below(end);
                tree.insert_late(key, value);
                model.insert(key, value);
            }
            for _ in 0..4 {
                let (from, to) = (rng.below(end), rng.below(end));
                let (lower, upper) = (from.min(to), from.max(to));
                let passes = [0, PASSES][rng.index(2)];
                let mut visited = Vec::new();
                tree.scan_between((lower, upper), passes, &mut |keys, values| {
                    assert!(!keys.is_empty(), "nothing is visited");
                    visited.extend(keys.iter().copied().zip(values.iter().copied()));
                });
                let expected = model.range(lower..=upper).map(|(&key, &value)| (key, value));
                assert!(expected.eq(visited), "{lower}..={upper} of round {round}");
                tree.check_structure().expect("the structure holds");
                if passes == 0 {
                    let first = tree.index.find(lower);
                    let whole = first + 1..tree.index.find(upper);
                    let waiting = |at: usize| tree.branches[at].waiting();
                    assert_eq!(whole.map(waiting).sum::<usize>(), 0, "{lower}..={upper}");
                }
            }
            assert!(tree.range(..).eq(model.into_iter()), "all of round {round}");
            tree.merge_all();
            tree.check_structure().expect("the structure holds");
            assert!(tree.branches.iter().all(|branch| branch.waiting() == 0));
        }
    }
}
