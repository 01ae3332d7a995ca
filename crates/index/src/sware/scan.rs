//! Ranges that merge what waits in the leaves they pass, as a query of the SWARE paper sorts what it meets unsorted in the
//! buffer (Raman et al., ICDE 2023, §IV-C): who reads the same keys again finds them in order.
//!
//! To merge costs once, to join costs each time, and how often a leaf will be read nobody knows. So what waits is joined, as if
//! rented, until that has cost about what merging does, and merged then, as if bought: whatever comes, both cost at most about
//! twice what they cost who knows it (Karlin, Manasse, Rudolph, Sleator, "Competitive Snoopy Caching", Algorithmica 3, 1988).

use std::ops::{Range, RangeBounds};

use super::bplus_tree::BPlusTree;
use super::near_sorted::NearSortedTree;
use super::search::{Columns, NO_KEY, Searching, vectorised};
use super::serial_map::inclusive;
use super::window::Stretch;

/// So often scans join what waits for a leaf that has room, and is read in part, before it is merged: two would do.
const PASSES: usize = 4;
/// So often, at least, scans join leaves without room before these are written anew: a window has some nine leaves, of which a
/// short range has read few.
const PASSES_A_WINDOW: usize = 16;
/// So often scans join leaves without room for each leaf that is written anew with them. To write a leaf that comes from memory
/// costs more than to read it, and to join it as well next to nothing.
const PASSES_A_LEAF: usize = 2;
/// Where all is in the caches: so many leaves are written anew for each time that scans join one.
const LEAVES_A_PASS: usize = 4;
/// What a scan has read is in the caches, or not far away, until so many leaves have been read: 2 MiB. Who reads it again by then
/// is likely to read it once more.
pub(super) const LATELY: u64 = 512;

/// Whether a scan merges what waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Merging {
    /// All of it.
    Now,
    /// Where that costs no more than to join it, and where scans have joined it often enough.
    WhenItPays,
}

/// The branch that a scan has come to.
#[derive(Debug, Clone, Copy)]
struct Passed {
    at: usize,
    /// Whether another scan has read of it a short while ago.
    lately: bool,
}

impl Merging {
    /// Whether to merge what waits for a leaf into it, if scans have joined it so often.
    #[inline(always)]
    fn pays_within(self, passes: usize) -> bool {
        self == Self::Now || passes >= PASSES
    }

    /// Whether to write leaves anew, if scans have joined some of them so often.
    #[inline(always)]
    fn pays_anew(self, passes: usize, leaves: usize, lately: bool) -> bool {
        let has_paid = if lately {
            passes * LEAVES_A_PASS >= leaves
        } else {
            passes >= leaves * PASSES_A_LEAF
        };
        self == Self::Now || passes >= PASSES_A_WINDOW && has_paid
    }
}

impl NearSortedTree {
    /// Calls `visit` with the keys of the range and their values, ascending, a slice of both at a time, as
    /// [`visit`](Self::visit) does, and merges what waits for the leaves that it passes, if that pays: at once where it costs no
    /// more than joining both, which is what `visit` does; where it costs more, when a range is read again a short while after,
    /// and otherwise when some scans have joined them. The next range, of
    /// either kind, that passes what was merged before more keys come late pays nothing for it. Time O(log n) and that of the
    /// leaves.
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
        if let Some(bounds) = inclusive(bounds) {
            self.scan_between(bounds, Merging::WhenItPays, &mut visit);
        }
    }

    /// Merges what waits in the leaves of a range, so that to read it takes, from now on and until more keys come late, what it
    /// takes where nothing waits: for those who are about to read it many times, or from several threads. Time O(n) for the n
    /// entries of the range. There is no need to call it.
    pub fn prepare_range(&mut self, bounds: impl RangeBounds<u64>) {
        if let Some(bounds) = inclusive(bounds) {
            self.scan_between(bounds, Merging::Now, &mut |_, _| {});
        }
    }

    fn scan_between(
        &mut self,
        (lower, upper): (u64, u64),
        merging: Merging,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        if lower < self.tail.fence {
            let upper = upper.min(self.tail.fence - 1);
            self.tree.scan_between((lower, upper), merging, visit);
        }
        if upper >= self.tail.fence && lower <= self.tail.end {
            self.tail.merge_late(&mut self.tree.scratch.run);
            self.tail.visit(lower, upper, visit);
        }
        let ahead = (lower.max(self.tail.end), upper.min(NO_KEY - 1));
        self.ahead.scan(ahead, merging, visit);
        self.visit_greatest(upper, visit);
    }
}

impl BPlusTree {
    /// Visits all but the greatest of all keys, and merges what waits for leaves, all of it or where it pays.
    pub(super) fn scan_between(
        &mut self,
        (lower, upper): (u64, u64),
        merging: Merging,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        if lower < NO_KEY {
            vectorised(Scan {
                tree: self,
                bounds: (lower, upper.min(NO_KEY - 1)),
                merging,
                visit,
            });
        }
    }

    #[inline(always)]
    fn scan_between_here(
        &mut self,
        (lower, upper): (u64, u64),
        merging: Merging,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        // What is staged is looked through while the first leaf comes from memory.
        let first = &self.branches[self.index.find(lower)];
        first.prefetch_outline(first.find(lower));
        self.insert_staged(lower, upper);
        let first = &self.branches[self.index.find(lower)];
        first.prefetch_joined(first.find(lower), (lower, upper));
        let (mut from, mut passed) = (Some(lower), None);
        while let Some(lower) = from {
            from = self.scan_branch((lower, upper), (merging, &mut passed), visit);
        }
    }

    /// Visits the entries between the bounds, as far as they belong to the branch of the lower one, or part of them; returns
    /// from where on others may follow.
    #[inline(always)]
    fn scan_branch(
        &mut self,
        (lower, upper): (u64, u64),
        (merging, passed): (Merging, &mut Option<Passed>),
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) -> Option<u64> {
        let at = self.index.find(lower);
        let (first, last) = (self.branches[at].find(lower), self.branches[at].find(upper));
        let next_branch = self.index.fence(at + 1).filter(|&fence| fence <= upper);
        let end = self.branches[at].leaves().len().min(last + 1);
        let lately = self.pass_branch(at, first..end, passed);
        let mut considered = first;
        for place in first..end {
            let branch = &self.branches[at];
            let mut joins_next = branch.prefetch_behind(first, place, last, upper).is_some();
            if branch.waiting_for(place).is_some() {
                let fence = branch.fence(place).unwrap_or(0);
                if self.has_room(at, place) {
                    // All of the leaf is read and joined in any case, and it makes no odds where that is written.
                    let is_whole = lower <= fence && (place < last || next_branch.is_some());
                    if is_whole || merging.pays_within(branch.passes(place)) {
                        self.merge_within(at, place, joins_next);
                        joins_next = false;
                    }
                } else if considered <= place {
                    let Stretch { places, passes } = self.stretch(at, place, last);
                    considered = places.end;
                    if merging.pays_anew(passes, places.len(), lately) {
                        let window = self.window_around(at, places, &[]);
                        self.write_anew(at, &window, (&[], &[]));
                        // Leaves have moved, and are in the cache.
                        return Some(lower.max(fence));
                    }
                }
            }
            let branch = &mut self.branches[at];
            let late: (_, Columns<'_>) = (branch.waiting_for(place), (&[], &[]));
            let next = branch.leaves().get(place + 1).filter(|_| joins_next);
            let leaf = &branch.leaves()[place];
            self.scratch
                .joining
                .visit(leaf, (lower, upper), late, next, visit);
            if late.0.is_some() {
                branch.pass(place);
            }
        }
        next_branch
    }

    /// Whether another scan has read of this branch lately, which this one passes from now on.
    #[inline(always)]
    fn pass_branch(&mut self, at: usize, places: Range<usize>, passed: &mut Option<Passed>) -> bool {
        if let Some(passed) = passed.filter(|passed| passed.at == at) {
            return passed.lately;
        }
        let before = std::mem::replace(&mut self.branches[at].passed_at, self.passed);
        let lately = self.passed - before <= LATELY;
        self.passed += places.len() as u64;
        *passed = Some(Passed { at, lately });
        lately
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
    merging: Merging,
    visit: &'t mut V,
}

impl<V: FnMut(&[u64], &[u64])> Searching for Scan<'_, V> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        self.tree.scan_between_here(self.bounds, self.merging, self.visit);
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
                let merging = [Merging::Now, Merging::WhenItPays][rng.index(2)];
                let mut visited = Vec::new();
                tree.scan_between((lower, upper), merging, &mut |keys, values| {
                    assert!(!keys.is_empty(), "nothing is visited");
                    visited.extend(keys.iter().copied().zip(values.iter().copied()));
                });
                let expected = model.range(lower..=upper).map(|(&key, &value)| (key, value));
                assert!(expected.eq(visited), "{lower}..={upper} of round {round}");
                tree.check_structure().expect("the structure holds");
                if merging == Merging::Now {
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
