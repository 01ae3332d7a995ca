//! Ranges that merge what waits in the leaves they pass, as a query of the SWARE paper sorts what it meets unsorted in the
//! buffer (Raman et al., ICDE 2023, §IV-C): who reads the same keys again finds them in order.

use std::ops::RangeBounds;

use super::bplus_tree::BPlusTree;
use super::join::part_between;
use super::near_sorted::NearSortedTree;
use super::search::{Columns, NO_KEY, Searching, vectorised};
use super::serial_map::inclusive;

/// Where a leaf has no room for what waits for it, and not more leaves of its branch than this follow in the range, it is
/// joined and left as it is: to write its neighbours anew takes longer than to read the range.
const FEW_LEAVES: usize = 8;

impl NearSortedTree {
    /// Calls `visit` with the keys of the range and their values, ascending, a slice of both at a time, as
    /// [`visit`](Self::visit) does, and merges what waits for the leaves that it passes; a few that have no room for it stay as
    /// they are. That takes up to half as long again as joining both, which is what `visit` does, and the next range, of either
    /// kind, that passes these leaves before more keys come late pays nothing for it. Time O(log n) and that of the leaves.
    ///
    /// ```
    /// use bedload_index::sware::NearSortedTree;
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
        let Some((lower, upper)) = inclusive(bounds) else {
            return;
        };
        if lower < self.tail.fence {
            self.tree
                .scan_between(lower, upper.min(self.tail.fence - 1), &mut visit);
        }
        if upper >= self.tail.fence && lower <= self.tail.end {
            self.tail.merge_late(&mut self.tree.scratch.run);
            self.tail.visit(lower, upper, &mut visit);
        }
        self.ahead
            .scan(lower.max(self.tail.end), upper.min(NO_KEY - 1), &mut visit);
        self.visit_greatest(upper, &mut visit);
    }

    /// Merges what waits in the leaves of a range, so that to read it takes, from now on and until more keys come late, what it
    /// takes where nothing waits: for those who are about to read it many times, or from several threads. Time O(n) for the n
    /// entries of the range. There is no need to call it.
    pub fn prepare_range(&mut self, bounds: impl RangeBounds<u64>) {
        self.scan(bounds, |_, _| {});
    }
}

impl BPlusTree {
    /// Visits all but the greatest of all keys, and merges what waits among them.
    pub(super) fn scan_between(&mut self, lower: u64, upper: u64, visit: &mut impl FnMut(&[u64], &[u64])) {
        if lower < NO_KEY {
            vectorised(Scan {
                tree: self,
                bounds: (lower, upper.min(NO_KEY - 1)),
                visit,
            });
        }
    }

    #[inline(always)]
    fn scan_between_here(&mut self, (lower, upper): (u64, u64), visit: &mut impl FnMut(&[u64], &[u64])) {
        // What is staged is looked through while the first leaf comes from memory.
        let first = &self.branches[self.index.find(lower)];
        first.prefetch_outline(first.find(lower));
        self.insert_staged(lower, upper);
        let mut from = Some(lower);
        while let Some(lower) = from {
            from = self.scan_branch((lower, upper), visit);
        }
    }

    /// Visits the entries between the bounds, as far as they belong to the branch of the lower one, or part of them; returns
    /// from where on others may follow.
    #[inline(always)]
    fn scan_branch(
        &mut self,
        (lower, upper): (u64, u64),
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) -> Option<u64> {
        let at = self.index.find(lower);
        let (first, last) = (self.branches[at].find(lower), self.branches[at].find(upper));
        let next_branch = self.index.fence(at + 1).filter(|&fence| fence <= upper);
        for place in first..self.branches[at].leaves().len().min(last + 1) {
            let branch = &self.branches[at];
            branch.prefetch_behind(first, place, last, upper);
            let leaf = &branch.leaves()[place];
            let waiting = branch.waiting_for(place);
            if waiting.is_some() && branch.held(place) <= self.options.leaf_entries {
                self.merge_within(at, place);
                let leaf = &self.branches[at].leaves()[place];
                let stretch = leaf.between(lower, upper);
                if !stretch.is_empty() {
                    visit(&leaf.keys()[stretch.clone()], &leaf.values()[stretch]);
                }
            } else if waiting.is_some() && last - place >= FEW_LEAVES {
                let window = self.window(at, place..last + 1, &[]);
                let from = lower.max(branch.fence(place).unwrap_or(0));
                self.write_anew(at, &window, (&[], &[]), &mut |keys, values| {
                    let (keys, values) = part_between((keys, values), from, upper);
                    if !keys.is_empty() {
                        visit(keys, values);
                    }
                });
                return next_branch;
            } else {
                let late: (_, Columns<'_>) = (waiting, (&[], &[]));
                self.scratch.joining.visit(leaf, (lower, upper), late, visit);
            }
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
    visit: &'t mut V,
}

impl<V: FnMut(&[u64], &[u64])> Searching for Scan<'_, V> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        self.tree.scan_between_here(self.bounds, self.visit);
    }
}
