//! Ranges that merge the pending entries of the leaves they pass, as a query of the SWARE paper
//! sorts the unsorted part of the buffer that it meets (Raman et al., ICDE 2023, §IV-C): the next
//! read of the same keys finds them in order.
//!
//! A merge costs once, a join costs on each read, and the number of reads to come is unknown. So
//! pending entries are joined ("rented") until that has cost about as much as a merge, then merged
//! ("bought"): the total is at most about twice the optimum with foresight (Karlin, Manasse,
//! Rudolph, Sleator, "Competitive Snoopy Caching", Algorithmica 3, 1988).

use super::tree::PendingTree;
use crate::near_sorted::join::joining::LateEntries;
use crate::search::dispatch::{Searching, vectorised};
use crate::search::keys::NO_KEY;

/// Scans that join a leaf's pending entries before one merges them. Rewriting a leaf without room
/// together with its neighbours takes as long as a few joins; merging a leaf of which a scan needs
/// a part takes as long as two.
pub(crate) const PASSES: u8 = 4;

impl PendingTree {
    /// Visits all entries except the greatest possible key. Merges a leaf's pending entries after
    /// `passes` scans have joined them, or where merging costs no more than another join.
    pub(crate) fn scan_between(
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
        // Searches the stage while the first leaf comes from memory.
        let first = &self.packed.branches[self.packed.index.find(lower)];
        first.prefetch_outline(first.find(lower));
        self.insert_staged(lower, upper);
        let first = &self.packed.branches[self.packed.index.find(lower)];
        first.prefetch_joined(first.find(lower), (lower, upper));
        let mut from = Some(lower);
        while let Some(lower) = from {
            from = self.scan_branch((lower, upper), passes, visit);
        }
    }

    /// Visits the entries between the bounds that belong to the branch of the lower one, or some of
    /// them; returns the key at which to continue.
    #[inline(always)]
    fn scan_branch(
        &mut self,
        (lower, upper): (u64, u64),
        passes: u8,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) -> Option<u64> {
        let at = self.packed.index.find(lower);
        let (first, last) = (
            self.packed.branches[at].find(lower),
            self.packed.branches[at].find(upper),
        );
        let next_branch = self.packed.index.fence(at + 1).filter(|&fence| fence <= upper);
        for place in first..self.packed.branches[at].leaves().len().min(last + 1) {
            let branch = &mut self.packed.branches[at];
            let mut joins_next = branch.prefetch_behind(first, place, last, upper).is_some();
            if branch.waiting_for(place).is_some() {
                let is_due = branch.pass(place) >= passes;
                let fence = branch.fence(place).unwrap_or(0);
                let is_whole = lower <= fence && (place < last || next_branch.is_some());
                if self.has_room(at, place) {
                    // All of the leaf is read and joined anyway: writing the result to a leaf costs
                    // no more.
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
            let branch = &self.packed.branches[at];
            let late = LateEntries {
                waiting: branch.waiting_for(place),
                newer: (&[], &[]),
            };
            let next = branch.leaves().get(place + 1).filter(|_| joins_next);
            self.scratch
                .joining
                .visit(&branch.leaves()[place], (lower, upper), late, next, visit);
        }
        next_branch
    }

    /// Moves the staged entries between the bounds to their leaves' pending entries.
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
    tree: &'t mut PendingTree,
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

    use super::*;
    use crate::near_sorted::options::TreeOptions;
    use crate::near_sorted::run::collecting;

    /// For any bounds, and while branches split: merged entries are visited once, in order, and are
    /// pending no more.
    #[test]
    fn what_is_written_anew_is_visited_once() {
        let mut rng = Rng::new(5);
        let (rounds, most) = if cfg!(miri) { (6, 150) } else { (300, 9_000) };
        for round in 0..rounds {
            let small = TreeOptions::new()
                .leaf_entries(4 + rng.index(12))
                .branch_leaves(4 + rng.index(9))
                .pending_entries(1 + rng.index(7))
                .staged_entries(5);
            let options = if round % 3 == 0 { TreeOptions::new() } else { small };
            let mut tree = PendingTree::with_options(options);
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
                tree.check().expect("the structure holds");
                if passes == 0 {
                    let first = tree.packed.index.find(lower);
                    let whole = first + 1..tree.packed.index.find(upper);
                    let waiting = |at: usize| tree.packed.branches[at].waiting();
                    assert_eq!(whole.map(waiting).sum::<usize>(), 0, "{lower}..={upper}");
                }
            }
            let mut all = Vec::new();
            tree.visit_between(0, NO_KEY, &mut collecting(&mut all));
            assert!(model.into_iter().eq(all), "all of round {round}");
            tree.merge_all();
            tree.check().expect("the structure holds");
            assert!(tree.packed.branches.iter().all(|branch| branch.waiting() == 0));
        }
    }
}
