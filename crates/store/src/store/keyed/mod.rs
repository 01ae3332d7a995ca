//! Tables with a key ([`TableSchema::with_key`](crate::TableSchema::with_key)): a row takes the place of the one that has
//! its key.
//!
//! Rules:
//! 1. Commits to tables with a key take turns ([`Shared::turn`]): no row comes or goes between the
//!    reading of the rows that are replaced and the commit that replaces them. A turn ends before
//!    the commit is durable and visible, so that one sync serves several. The next one reads its
//!    rows all the same ([`range`]): should they never become durable, no later commit does.
//! 2. Rows that are replaced are removed in the commit that has the new ones, by their places or,
//!    where all rows of some times are, by these times.
//! 3. Rows that are newer than all rows of the table replace none, and nothing is read for them.

mod gone;

use std::ops::RangeBounds;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::filter::filter_record_batch;
use bedload_columns::times;

use self::gone::Gone;
use super::Table;
use super::snapshot::scan;
use crate::engine::{Begun, Group};
use crate::error::{Error, Result};
use crate::rows::{Keys, check_columns, check_row_bytes, to_stored};
use crate::scan::Scan;
use crate::table::Layout;

/// This many rows of other times may be read for each time looked for, and [`READ_ALWAYS`] besides:
/// one long scan takes less time than many short ones.
const READ_EACH: u64 = 8;
const READ_ALWAYS: u64 = 1024;

/// The changes that a batch makes to a table with a key.
pub(super) struct Upsert {
    gone: Gone,
    /// The rows of the batch, each key once.
    rows: RecordBatch,
    /// Rows of the table and of the batch that gave way to others.
    pub(super) replaced: u64,
}

impl Table {
    /// Whether a row may replace another by its key. Sparse tables replace rows by themselves.
    pub(super) fn has_key(&self) -> bool {
        self.schema().key().is_some() && self.layout() == Layout::Indexed
    }

    /// Appends the rows of a batch to the log and the head of a table with a key.
    pub(super) fn begin_append_keyed(&self, batch: &RecordBatch) -> Result<Begun> {
        let _turn = self.shared.turn()?;
        let upsert = Upsert::of(self, batch)?;
        let engine = &self.shared.engine;
        let mut begun = if upsert.gone.count == 0 {
            engine.begin_append(&self.table, &upsert.rows, self.snap)?
        } else {
            let mut group = Group::default();
            upsert.add_to(&mut group, self)?;
            engine.begin_group(group)?
        };
        begun.appended.rows = batch.num_rows() as u64;
        begun.appended.replaced = upsert.replaced;
        Ok(begun)
    }
}

impl Upsert {
    /// Finds out what a batch does. The caller has the turn.
    pub(super) fn of(table: &Table, batch: &RecordBatch) -> Result<Self> {
        let stored = to_stored(batch)?;
        let batch = stored.as_ref().unwrap_or(batch);
        check_columns(table.schema(), batch)?;
        // Before rows are left out, as the error names the row of the caller's batch.
        check_row_bytes(&table.table.entry.schema, batch, 0, table.row_limit_bytes())?;
        let new_times = ticks(table, batch)?;
        let latest = latest(table)?;
        let mut wanted: Vec<i64> = new_times
            .iter()
            .copied()
            .filter(|&time| latest.is_some_and(|latest| time <= latest))
            .collect();
        let mut gone = Gone::default();
        let mut rows = batch.clone();
        if !wanted.is_empty() || !new_times.is_sorted_by(|before, after| before < after) {
            let columns = key_columns(table).map(|column| batch.column(column).clone());
            let keys = Keys::of(new_times, columns.collect()).map_err(failed)?;
            wanted.sort_unstable();
            wanted.dedup();
            find(table, &wanted, &keys, &mut gone)?;
            if keys.count() < batch.num_rows() {
                let are_last = BooleanArray::from(keys.are_last());
                rows = filter_record_batch(batch, &are_last).map_err(failed)?;
            }
        }
        let doubled = batch.num_rows() - rows.num_rows();
        Ok(Self {
            replaced: gone.count + doubled as u64,
            gone,
            rows,
        })
    }

    /// How many rows the commit writes.
    pub(super) fn written(&self) -> u64 {
        self.rows.num_rows() as u64
    }

    /// Adds the changes to a commit, which has no others of the table.
    pub(super) fn add_to(&self, group: &mut Group, table: &Table) -> Result<()> {
        self.gone.remove_in(group, table);
        let engine = &table.shared.engine;
        engine.group_append(group, &table.table, &self.rows, table.snap)
    }
}

/// The columns of a table's key, but for the time.
fn key_columns(table: &Table) -> impl Iterator<Item = usize> {
    table.schema().key().unwrap_or_default().iter().copied()
}

/// The rows of some times, those of commits that are not visible yet among them. The caller has the
/// turn.
fn range(table: &Table, times: impl RangeBounds<i64>) -> Result<Scan> {
    let shared = &table.shared;
    scan(shared, (&shared.engine.view(), u64::MAX), &table.table, times)
}

/// The newest time of a table.
fn latest(table: &Table) -> Result<Option<i64>> {
    let mut newest = range(table, ..)?.columns(&[time_name(table)])?.rev().limit(1);
    let Some(batch) = newest.next().transpose()? else {
        return Ok(None);
    };
    Ok(times(batch.column(0)).and_then(|times| times.first().copied()))
}

/// Finds the rows of some times, ascending, that give way to those of a batch.
fn find(table: &Table, wanted: &[i64], keys: &Keys, gone: &mut Gone) -> Result<()> {
    let of_middle = match wanted {
        [] | [_] => 0,
        // Other times probably have about as many rows.
        _ => {
            let middle = wanted[wanted.len() / 2];
            range(table, middle..=middle)?
                .count_at_most()?
                .unwrap_or_default()
        }
    };
    let of_each = READ_EACH.saturating_add(of_middle);
    find_among(table, wanted, of_each, keys, gone)
}

/// Finds them among all rows from the first to the last of the times, if those are at most
/// `of_each` for each of the times; otherwise in either half.
fn find_among(table: &Table, wanted: &[i64], of_each: u64, keys: &Keys, gone: &mut Gone) -> Result<()> {
    let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else {
        return Ok(());
    };
    let scan = range(table, first..=last)?;
    if wanted.len() > 1 {
        let rows = scan.count_at_most()?.unwrap_or(u64::MAX);
        if rows == 0 {
            return Ok(());
        }
        let of_all = of_each.saturating_mul(wanted.len() as u64);
        if rows > of_all.saturating_add(READ_ALWAYS) {
            let (low, high) = wanted.split_at(wanted.len() / 2);
            find_among(table, low, of_each, keys, gone)?;
            return find_among(table, high, of_each, keys, gone);
        }
    }
    let arrow = table.schema().arrow();
    let names = std::iter::once(table.schema().time_column()).chain(key_columns(table));
    let names: Vec<&str> = names.map(|column| arrow.field(column).name().as_str()).collect();
    for batch in scan.columns(&names)?.with_sequence() {
        let batch = batch?;
        let (columns, sequences) = batch.columns().split_at(names.len());
        let times = times(&columns[0]).ok_or_else(no_times)?;
        let sequences = sequences[0].as_primitive::<UInt64Type>().values();
        let are_replaced = keys.have(&times, &columns[1..]).map_err(failed)?;
        let places = times.iter().copied().zip(sequences.iter().copied());
        places
            .zip(are_replaced)
            .for_each(|(place, is_replaced)| gone.add(place, is_replaced));
    }
    gone.end_range();
    Ok(())
}

fn time_name(table: &Table) -> &str {
    let schema = table.schema();
    schema.arrow().field(schema.time_column()).name()
}

/// The ticks of a batch with the columns of the table.
fn ticks(table: &Table, batch: &RecordBatch) -> Result<Vec<i64>> {
    let times = times(batch.column(table.schema().time_column()));
    times.map(|times| times.to_vec()).ok_or_else(no_times)
}

fn no_times() -> Error {
    Error::schema("the time column has no times")
}

fn failed(error: ArrowError) -> Error {
    Error::schema(error.to_string())
}
