//! Ranges that merge what waits in the leaves they pass, as a query of the SWARE paper sorts what it meets unsorted in the
//! buffer (Raman et al., ICDE 2023, §IV-C): who reads the same keys again finds them in order.

use std::ops::RangeBounds;

use super::bplus_tree::BPlusTree;
use super::near_sorted::NearSortedTree;
use super::search::{NO_KEY, Searching, vectorised};
use super::serial_map::inclusive;

impl NearSortedTree {
    /// Calls `visit` with the keys of the range and their values, ascending, a slice of both at a time, as
    /// [`visit`](Self::visit) does, and merges what waits in the leaves that it passes. That takes little longer than joining
    /// both, which is what `visit` does, and the next range, of either kind, that passes these leaves before more keys come late
    /// pays nothing for it. Time O(log n) and that of the leaves.
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
        if lower < self.tail_fence {
            self.tree
                .scan_between(lower, upper.min(self.tail_fence - 1), &mut visit);
        }
        self.visit_tail(lower, upper, &mut visit);
        self.ahead
            .scan(lower.max(self.tail_end), upper.min(NO_KEY - 1), &mut visit);
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
        let first_at = self.index.find(lower);
        let first = self.branches[first_at].find(lower);
        // What is staged is looked through while the first leaf comes from memory.
        if let Some(leaf) = self.branches[first_at].leaves().get(first) {
            leaf.prefetch_all();
        }
        let (first_at, first) = if self.insert_staged(lower, upper) {
            let at = self.index.find(lower);
            (at, self.branches[at].find(lower))
        } else {
            (first_at, first)
        };
        for at in first_at..self.branches.len() {
            if self.index.fence(at).is_some_and(|fence| fence > upper) {
                return;
            }
            let first = if at == first_at { first } else { 0 };
            for place in first..self.branches[at].leaves().len() {
                let branch = &mut self.branches[at];
                let is_last = branch.fence(place + 1).is_none_or(|fence| fence > upper);
                let may_wait = branch.waiting() > 0;
                let (leaf, next) = branch.leaf_and_next(place);
                let next = next.filter(|_| !is_last);
                if let Some(next) = next {
                    next.prefetch_outline();
                }
                if may_wait && leaf.waiting() > 0 {
                    let (in_order, waiting) = (leaf.len(), leaf.waiting());
                    self.scratch.merge_leaf(leaf, next);
                    self.entries += leaf.len() - in_order;
                    branch.forget_waiting(waiting);
                } else if let Some(next) = next {
                    next.prefetch_columns();
                }
                let leaf = &self.branches[at].leaves()[place];
                let stretch = leaf.between(lower, upper);
                if !stretch.is_empty() {
                    visit(&leaf.keys()[stretch.clone()], &leaf.values()[stretch]);
                }
                if is_last {
                    break;
                }
            }
        }
    }

    /// Lets what is staged between the bounds wait in the leaves; says whether there was anything.
    #[inline(always)]
    fn insert_staged(&mut self, lower: u64, upper: u64) -> bool {
        let mut run = std::mem::take(&mut self.scratch.run);
        self.stage.take_between(lower, upper, &mut run);
        let is_any = !run.keys.is_empty();
        if is_any {
            self.insert_run(run.columns());
        }
        self.scratch.run = run;
        is_any
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
