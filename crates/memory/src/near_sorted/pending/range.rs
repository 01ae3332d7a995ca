//! Ranges of a tree with pending entries: one leaf at a time from either end, and slices of columns
//! for a reader of the complete range.

use std::cell::Cell;

use super::by_leaf::PendingByLeaf;
use super::stage::Stage;
use super::tree::PendingTree;
use crate::near_sorted::join::joining::{Joining, LateEntries};
use crate::near_sorted::run::{SortedRun, collecting};
use crate::near_sorted::tree::branch::Branch;
use crate::near_sorted::tree::leaf::Leaf;
use crate::search::dispatch::{Searching, vectorised};
use crate::search::keys::{EntryColumns, NO_KEY};

thread_local! {
    /// Buffers reused by the thread's next read: allocating these 8 KiB takes as long as reading a
    /// leaf.
    static LEFT: Cell<Option<Box<Reading>>> = const { Cell::new(None) };
}

/// The staged entries between two bounds, and buffers to join leaves with late entries.
#[derive(Debug)]
struct Reading {
    staged: SortedRun,
    joining: Joining,
}

impl Reading {
    #[inline(always)]
    fn begin(stage: &Stage, lower: u64, upper: u64) -> Box<Self> {
        // A thread that is ending has no buffers.
        let left = LEFT.try_with(Cell::take).ok().flatten();
        let mut reading = left.unwrap_or_else(Self::new);
        reading.staged.clear();
        stage.between(lower, upper, &mut reading.staged);
        reading
    }

    #[cold]
    fn new() -> Box<Self> {
        Box::new(Self {
            staged: SortedRun::new(),
            joining: Joining::new(),
        })
    }

    #[inline(always)]
    fn end(self: Box<Self>) {
        let _ = LEFT.try_with(|left| left.set(Some(self)));
    }
}

/// Visits the entries of one leaf of a branch between the bounds; the staged ones given lie within
/// them. Prefetches the next leaf meanwhile.
#[inline(always)]
fn visit_place(
    joining: &mut Joining,
    branch: &Branch<PendingByLeaf>,
    place: usize,
    bounds: (u64, u64),
    staged: EntryColumns<'_>,
    next: Option<&Leaf>,
    visit: &mut impl FnMut(&[u64], &[u64]),
) {
    if let Some(leaf) = branch.leaves().get(place) {
        let late = LateEntries {
            waiting: branch.waiting_for(place),
            newer: staged,
        };
        joining.visit(leaf, bounds, late, next, visit);
    } else if !staged.0.is_empty() {
        visit(staged.0, staged.1);
    }
}

impl PendingTree {
    /// Visits all entries except the greatest possible key.
    pub(crate) fn visit_between(&self, lower: u64, upper: u64, visit: &mut impl FnMut(&[u64], &[u64])) {
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
        let first_at = self.packed.index.find(lower);
        let first = self.packed.branches[first_at].find(lower);
        // Searches the stage while the first leaf comes from memory.
        self.packed.branches[first_at].prefetch_outline(first);
        let mut reading = Reading::begin(&self.stage, lower, upper);
        let Reading { staged, joining } = &mut *reading;
        let mut staged = staged.columns();
        self.packed.branches[first_at].prefetch_joined(first, (lower, upper));
        for at in first_at..self.packed.branches.len() {
            let fence = self.packed.index.fence(at).unwrap_or(0);
            if fence > upper {
                break;
            }
            let branch = &self.packed.branches[at];
            let branch_end = self
                .packed
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
    tree: &'t PendingTree,
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

impl PendingTree {
    /// Appends the entries of one leaf of a branch between the bounds.
    fn read_place(
        &self,
        branch: &Branch<PendingByLeaf>,
        place: usize,
        bounds: (u64, u64),
        entries: &mut Vec<(u64, u64)>,
    ) {
        let mut reading = Reading::begin(&self.stage, bounds.0, bounds.1);
        let Reading { staged, joining } = &mut *reading;
        let visit = &mut collecting(entries);
        visit_place(joining, branch, place, bounds, staged.columns(), None, visit);
        reading.end();
    }

    pub(crate) fn read_up_below(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        self.packed
            .read_up((lower, upper), entries, |branch, place, bounds, entries| {
                self.read_place(branch, place, bounds, entries);
            })
    }

    pub(crate) fn read_down_below(
        &self,
        lower: u64,
        upper: u64,
        entries: &mut Vec<(u64, u64)>,
    ) -> Option<u64> {
        self.packed
            .read_down((lower, upper), entries, |branch, place, bounds, entries| {
                self.read_place(branch, place, bounds, entries);
            })
    }
}
