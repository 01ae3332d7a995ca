//! The interface of column runs to a Bε-tree.

use std::ops::Bound;

use bedload_pages::{PageId, PageRead, PageStore, Result};
use bedload_trees::be_tree::{MergeTarget, RowForm, RunProblem, RunSlice, Runs, TreeRun};
use bedload_trees::{I64Order, Position};

use super::index::{LeafEntry, RunIndex};
use super::kind::ColumnRuns;
use super::merge::ColumnMerge;
use super::place::Place;

/// Marks such runs in a tree's meta page: more columns of variable width than any row has.
const FORM: u32 = u32::MAX;

/// Converts a tree's position to a row's.
pub(super) fn place_of(position: Position<'_>) -> Place {
    Place {
        time: position.key.first_chunk().map_or(0, |&key| I64Order::value(key)),
        sequence: position.tie,
    }
}

impl Runs<I64Order> for ColumnRuns {
    type Merge<'t, S>
        = ColumnMerge<'t, S>
    where
        S: PageStore + 't;

    fn form(&self) -> RowForm {
        RowForm {
            fixed_bytes: u32::try_from(self.columns).unwrap_or(u32::MAX),
            variable_columns: FORM,
        }
    }

    fn admits(&self, form: RowForm) -> bool {
        // Columns may have been added to the table since the tree was created.
        form.variable_columns == FORM && form.fixed_bytes <= Runs::form(self).fixed_bytes
    }

    fn pages_max<S: PageRead>(&self, store: &S) -> u32 {
        let leaves = self.leaves_max(store.payload_max());
        u32::try_from(leaves).unwrap_or(u32::MAX).saturating_add(1)
    }

    fn pages<S: PageRead>(&self, run: &TreeRun<'_, I64Order, S>) -> Result<Vec<PageId>> {
        Ok(RunIndex::read(run.store, &run.run, self.owner)?.pages().collect())
    }

    fn estimate_rank<S: PageRead>(
        &self,
        run: &TreeRun<'_, I64Order, S>,
        position: Position<'_>,
    ) -> Result<u64> {
        let index = RunIndex::read(run.store, &run.run, self.owner)?;
        let place = place_of(position);
        let rows = |leaf: &LeafEntry| u64::from(leaf.rows);
        let before = index.leaves().iter().take_while(|leaf| leaf.last < place);
        let (mut rank, whole) = before.fold((0, 0), |(rank, leaves), leaf| (rank + rows(leaf), leaves + 1));
        if let Some(leaf) = index.leaves().get(whole).filter(|leaf| leaf.first < place) {
            rank += share(leaf, place.time);
        }
        Ok(rank)
    }

    fn merge<'t, S: PageStore>(
        &'t self,
        newest_first: &[RunSlice<'_, 't, I64Order, S>],
        target: MergeTarget<'t, I64Order, S>,
    ) -> Result<ColumnMerge<'t, S>> {
        let bound = |bound: Bound<Position<'_>>| bound.map(place_of);
        let slices = newest_first
            .iter()
            .map(|slice| (slice.run.run, bound(slice.from), bound(slice.to)));
        ColumnMerge::new(target.store, *self, slices)
    }

    fn check<S: PageRead>(
        &self,
        run: &TreeRun<'_, I64Order, S>,
        (low, high): (Option<Position<'_>>, Option<Position<'_>>),
    ) -> Result<Vec<RunProblem>> {
        super::check::check(
            run.store,
            &run.run,
            *self,
            (low.map(place_of), high.map(place_of)),
        )
    }
}

/// Estimates the rows of a leaf before a time, assuming an even spread.
fn share(leaf: &LeafEntry, time: i64) -> u64 {
    let all = u128::from(leaf.last.time.abs_diff(leaf.first.time)) + 1;
    let before = u128::from(time.abs_diff(leaf.first.time));
    u64::try_from(u128::from(leaf.rows) * before.min(all) / all).unwrap_or(u64::MAX)
}
