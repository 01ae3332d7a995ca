//! Runs of columns, as a tree wants to know them.

use std::ops::Bound;

use arrow_array::ArrayRef;
use bedload_pages::{PageId, PageRead, PageStore, Result};
use bedload_trees::be_tree::{MergeTarget, RowForm, RunProblem, RunSlice, Runs, TreeRun};
use bedload_trees::{I64Order, Position};

use super::index::{LeafEntry, RunIndex};
use super::merge::ColumnMerge;
use super::place::{Place, Places};
use crate::column;

/// Which columns the runs of a table have, and how long their leaves are.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, TimestampSecondArray, UInt64Array};
/// use bedload_columns::{ColumnRunWriter, ColumnRuns, RunIndex};
/// use bedload_pages::HeapPages;
///
/// let pages = HeapPages::new(8192);
/// let kind = ColumnRuns::new(7, 1, 0);
/// let mut writer = ColumnRunWriter::new(&pages, kind)?;
/// let time: ArrayRef = Arc::new(TimestampSecondArray::from(vec![10, 20, 30]));
/// let sequence: ArrayRef = Arc::new(UInt64Array::from(vec![2, 0, 1]));
/// writer.push(vec![time.clone(), sequence])?;
/// let run = writer.finish()?.expect("it has rows");
///
/// let index = RunIndex::read(&pages, &run, 7)?;
/// let leaf = index.open(&pages, 0)?;
/// assert_eq!(&leaf.decode(0, 0..3)?, &time);
/// # Ok::<(), bedload_pages::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct ColumnRuns {
    pub(super) owner: u32,
    pub(super) columns: usize,
    pub(super) time: usize,
    pub(super) leaf_rows: usize,
    pub(super) leaf_bytes: usize,
}

/// The mark of such runs in a tree's meta page: more columns of variable width than any row has.
const FORM: u32 = u32::MAX;

impl ColumnRuns {
    /// Runs of the table number `owner`, which has so many columns. One of them, `time`, has timestamps and no nulls.
    pub const fn new(owner: u32, columns: usize, time: usize) -> Self {
        Self {
            owner,
            columns,
            time,
            leaf_rows: 1 << 14,
            leaf_bytes: 2 << 20,
        }
    }

    /// The most rows of a leaf, from 1 to [`MAX_ROWS`](crate::MAX_ROWS). Default: 16,384.
    pub const fn leaf_rows(mut self, rows: usize) -> Self {
        assert!(
            rows > 0 && rows <= crate::MAX_ROWS,
            "a leaf has from 1 to 65,536 rows"
        );
        self.leaf_rows = rows;
        self
    }

    /// The most bytes of a leaf, not compressed, if its rows are alike; a leaf has one row at least. Default: 2 MiB.
    pub const fn leaf_bytes(mut self, bytes: usize) -> Self {
        self.leaf_bytes = bytes;
        self
    }

    /// The table that the rows belong to.
    pub const fn owner(&self) -> u32 {
        self.owner
    }

    /// The column of times.
    pub const fn time(&self) -> usize {
        self.time
    }

    /// The places of rows: the table's columns, then the sequence numbers. `None` if they are not that.
    pub fn places(&self, columns: &[ArrayRef]) -> Option<Places> {
        if columns.len() != self.columns + 1 {
            return None;
        }
        Places::of_columns(columns.get(self.time)?, columns.last()?)
    }

    /// How many of these rows a leaf takes.
    pub(super) fn leaf_rows_of(&self, columns: &[ArrayRef]) -> usize {
        let rows = columns[0].len().max(1);
        let bytes: usize = columns.iter().map(|column| column::content_bytes(column)).sum();
        (self.leaf_bytes / (bytes / rows).max(1)).clamp(1, self.leaf_rows)
    }

    /// The entry of a leaf with these rows.
    pub(super) fn entry(&self, page: PageId, columns: &[ArrayRef]) -> Option<LeafEntry> {
        let places = self.places(columns)?;
        let (min_sequence, max_sequence) = places.sequence_bounds()?;
        Some(LeafEntry {
            page,
            rows: u32::try_from(places.len()).ok()?,
            first: places.get(0),
            last: places.get(places.len() - 1),
            min_sequence,
            max_sequence,
        })
    }
}

/// The place that a position names.
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

/// About how many rows of a leaf lie before a time, were they evenly spread.
fn share(leaf: &LeafEntry, time: i64) -> u64 {
    let all = u128::from(leaf.last.time.abs_diff(leaf.first.time)) + 1;
    let before = u128::from(time.abs_diff(leaf.first.time));
    u64::try_from(u128::from(leaf.rows) * before.min(all) / all).unwrap_or(u64::MAX)
}
