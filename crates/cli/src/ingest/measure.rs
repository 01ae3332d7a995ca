//! The sortedness of the rows of a run.
//!
//! Order of arrival is counted as rows are appended; K and L are found by one scan of the table
//! afterwards, which tells by each row's sequence number where in the run it arrived. So no row
//! need be remembered, but for times: of a run into a table with a key, where rows take the place
//! of others, of a dry run, and of a run into a sparse table that may be undone, even if its order
//! is not measured.

use std::ops::{Bound, RangeInclusive};

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_cast::cast;
use arrow_schema::DataType;
use bedload::{Appended, Layout, Table};
use bedload_sortedness::{Arrivals, Displacement, Sortedness};

use super::target::Target;
use crate::exit::{Failure, Result, Status};
use crate::interrupt;
use crate::store::time_name;

/// Times of a run less than this many intervals apart belong to one stretch: reading as many rows
/// as a batch has costs next to nothing.
const GAP_INTERVALS: i64 = 8192;

/// The order of a run's rows, measured while it goes on.
#[derive(Default)]
pub(super) struct Measure {
    rows: u64,
    arrivals: Arrivals<i64>,
    first_tick: Option<i64>,
    last_tick: Option<i64>,
    batches: Vec<Numbered>,
    /// Whether the order is asked for.
    with_order: bool,
    /// The times of the run, where they are remembered.
    kept: Option<Vec<i64>>,
    on_grid: OnGrid,
    replaced: u64,
}

/// Counts of rows that a sparse table does not keep as they came.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct OnGrid {
    /// Rows that were moved to a time of the grid.
    pub(crate) moved: u64,
    /// Rows whose place a later one of the same batch took.
    pub(crate) collided: u64,
}

/// Where the sequence numbers of a batch begin, and its rows in the run.
struct Numbered {
    first_sequence: u64,
    first_place: u64,
    rows: u64,
}

impl Measure {
    /// Nothing yet, of a run into a table; without `with_order` only rows are counted, and
    /// [`finish`](Self::finish) must not be called. `undoing` says whether anything is undone if
    /// the run fails.
    pub(super) fn of(target: &Target, with_order: bool, undoing: bool) -> Self {
        let table = target.table();
        let is_sparse = table.layout() != Layout::Indexed;
        // Rows that replace others, or are not written, are not found by a scan.
        let has_no_scan = is_sparse || table.schema().key().is_some() || target.is_dry_run();
        Self {
            with_order,
            kept: ((is_sparse && undoing) || (has_no_scan && with_order)).then(Vec::new),
            ..Self::default()
        }
    }

    /// Rows appended so far.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the counts of rows that did not fit the grid of a sparse table.
    pub(super) fn on_grid(&self) -> OnGrid {
        self.on_grid
    }

    /// Takes note of rows that were moved to times of the grid before the table had them.
    pub(super) fn moved(&mut self, rows: u64) {
        self.on_grid.moved += rows;
    }

    /// Rows whose place others of the same key took.
    pub(super) fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Where in a sparse table the run wrote: stretches of times that have no wide gaps, ascending.
    pub(super) fn stretches(&self, table: &Table) -> Vec<RangeInclusive<i64>> {
        let Layout::Sparse(grid) = table.layout() else {
            return Vec::new();
        };
        let mut times = self.kept.clone().unwrap_or_default();
        times.sort_unstable();
        let mut stretches: Vec<RangeInclusive<i64>> = Vec::new();
        let gap = grid.interval().saturating_mul(GAP_INTERVALS);
        for time in times {
            // It may have been moved to the grid.
            let moved = |by: i64| time.saturating_add(by);
            let (from, to) = (moved(-grid.interval()), moved(grid.interval()));
            match stretches.last_mut() {
                Some(last) if last.end().saturating_add(gap) >= from => *last = *last.start()..=to,
                _ => stretches.push(from..=to),
            }
        }
        stretches
    }

    /// Takes note of a batch with these times.
    pub(super) fn appended(&mut self, appended: &Appended, times: &ArrayRef) -> Result<()> {
        let first_place = self.rows;
        self.rows += appended.rows;
        self.replaced += appended.replaced;
        self.on_grid.moved += appended.moved;
        self.on_grid.collided += appended.collided;
        if self.kept.is_none() && !self.with_order {
            return Ok(());
        }
        let ticks = cast(times, &DataType::Int64).map_err(|error| Failure::input(error.to_string()))?;
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(ticks.as_primitive::<Int64Type>().values());
            return Ok(());
        }
        for &tick in ticks.as_primitive::<Int64Type>().values() {
            self.arrivals.push(tick);
            self.first_tick = Some(self.first_tick.map_or(tick, |first| first.min(tick)));
            self.last_tick = Some(self.last_tick.map_or(tick, |last| last.max(tick)));
        }
        match self.batches.last_mut() {
            Some(last) if last.first_sequence + last.rows == appended.first_sequence => {
                last.rows += appended.rows
            }
            _ => self.batches.push(Numbered {
                first_sequence: appended.first_sequence,
                first_place,
                rows: appended.rows,
            }),
        }
        Ok(())
    }

    /// Scans the table for the rows of the run.
    pub(super) fn finish(&self, table: &Table) -> Result<Sortedness> {
        if let Some(kept) = &self.kept {
            return Ok(Sortedness::of_keys(kept));
        }
        let mut displacement = Displacement::new();
        if let (Some(first), Some(last)) = (self.first_tick, self.last_tick) {
            let range = (Bound::Included(first), Bound::Included(last));
            let scan = table
                .range(range)?
                .columns(&[time_name(table.schema())])?
                .with_sequence();
            for batch in scan {
                interrupt::check()?;
                let batch = batch?;
                let sequences = batch.column(batch.num_columns() - 1).as_primitive::<UInt64Type>();
                for place in sequences
                    .values()
                    .iter()
                    .filter_map(|&sequence| self.place(sequence))
                {
                    displacement
                        .push(place)
                        .map_err(|error| lost(&error.to_string()))?;
                }
            }
        }
        if displacement.rows() != self.rows || !displacement.is_complete() {
            return Err(lost(&format!(
                "{} of {} rows were found again",
                displacement.rows(),
                self.rows
            )));
        }
        Ok(Sortedness::of_parts(&self.arrivals, &displacement))
    }

    /// The place in the run of the row with this number, if it is one of the run.
    fn place(&self, sequence: u64) -> Option<u64> {
        let after = self
            .batches
            .partition_point(|batch| batch.first_sequence <= sequence);
        let batch = &self.batches[after.checked_sub(1)?];
        let offset = sequence - batch.first_sequence;
        (offset < batch.rows).then_some(batch.first_place + offset)
    }
}

/// Rows that were acknowledged and are not there, or twice, are damage, whatever the reason.
fn lost(what: &str) -> Failure {
    Failure::new(
        Status::Damaged,
        format!("the table does not hold the rows of this run once each: {what}"),
    )
}
