//! Tables with a key ([`TableSchema::with_key`](crate::TableSchema::with_key)): a row takes the place of the one that has
//! its key.
//!
//! Rules:
//! 1. Commits to tables with a key take turns ([`Shared::keyed`]): no row comes or goes between the
//!    reading of the rows that are replaced and the commit that replaces them.
//! 2. Rows that are replaced are deleted in the commit that has the new ones. A deletion covers all
//!    rows of its times, so those that keep their place are appended again, in the same commit and
//!    in their order.
//! 3. Rows that are newer than all rows of the table replace none, and nothing is read for them.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow_ord::partition::partition;
use arrow_ord::sort::{SortColumn, lexsort_to_indices};
use arrow_schema::ArrowError;
use arrow_select::concat::{concat, concat_batches};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;
use bedload_columns::times;

use super::Table;
use crate::engine::{Appended, Group};
use crate::error::{Error, Result};
use crate::rows::{check_columns, to_stored};
use crate::table::Layout;

/// As many rows of other times may be read for each time that is looked for, and [`READ_ALWAYS`]
/// besides: one long scan takes less time than many short ones.
const READ_EACH: u64 = 8;
const READ_ALWAYS: u64 = 1024;

/// The changes that a batch makes to a table with a key.
pub(super) struct Upsert {
    /// Times of which all rows are deleted.
    deleted: Vec<RangeInclusive<i64>>,
    /// Rows that are deleted with them and appended again.
    again: Option<RecordBatch>,
    /// The rows of the batch, each key once.
    rows: RecordBatch,
    /// Rows of the table and of the batch that gave way to others.
    pub(super) replaced: u64,
}

impl Table {
    /// Whether a row takes the place of another one. Rows of a sparse table do that by themselves.
    pub(super) fn has_key(&self) -> bool {
        self.schema().key().is_some() && self.layout() == Layout::Indexed
    }

    /// Appends the rows of a batch to a table with a key.
    pub(super) fn append_keyed(&self, batch: &RecordBatch) -> Result<Appended> {
        let _turn = self.shared.keyed.lock();
        let upsert = Upsert::of(self, batch)?;
        let engine = &self.shared.engine;
        let mut appended = if upsert.deleted.is_empty() {
            engine.append(&self.table, &upsert.rows, self.snap)?
        } else {
            let mut group = Group::default();
            upsert.add_to(&mut group, self)?;
            engine.commit_group(group)?
        };
        appended.rows = batch.num_rows() as u64;
        appended.replaced = upsert.replaced;
        Ok(appended)
    }
}

impl Upsert {
    /// Finds out what a batch does. The caller has the turn.
    pub(super) fn of(table: &Table, batch: &RecordBatch) -> Result<Self> {
        let stored = to_stored(batch)?;
        let batch = stored.as_ref().unwrap_or(batch);
        check_columns(table.schema(), batch)?;
        let new = ticks(table, batch)?;
        let mut late: Vec<i64> = match latest(table)? {
            Some(latest) => new.iter().copied().filter(|&time| time <= latest).collect(),
            None => Vec::new(),
        };
        late.sort_unstable();
        late.dedup();
        let mut stretches = Vec::new();
        read(table, &late, &mut stretches)?;
        if stretches.is_empty() && new.windows(2).all(|pair| pair[0] < pair[1]) {
            return Ok(Self::unchanged(batch));
        }
        let old = concat_batches(table.schema().arrow(), &stretches).map_err(failed)?;
        let kept = kept(table, &old, batch)?;
        let count = kept.iter().filter(|&&kept| !kept).count();
        if count == 0 {
            return Ok(Self::unchanged(batch));
        }
        let (kept_old, kept_new) = kept.split_at(old.num_rows());
        let mut deleted = Vec::new();
        let mut again = vec![false; old.num_rows()];
        let times = ticks(table, &old)?;
        let mut begin = 0;
        for stretch in &stretches {
            let rows = begin..begin + stretch.num_rows();
            begin = rows.end;
            for run in replaced_runs(&times, kept_old, rows) {
                deleted.push(times[run.start]..=times[run.end - 1]);
                again[run.clone()].copy_from_slice(&kept_old[run]);
            }
        }
        let again = filter_record_batch(&old, &BooleanArray::from(again)).map_err(failed)?;
        let rows = filter_record_batch(batch, &BooleanArray::from(kept_new.to_vec())).map_err(failed)?;
        Ok(Self {
            deleted,
            again: (again.num_rows() > 0).then_some(again),
            rows,
            replaced: count as u64,
        })
    }

    fn unchanged(batch: &RecordBatch) -> Self {
        Self {
            deleted: Vec::new(),
            again: None,
            rows: batch.clone(),
            replaced: 0,
        }
    }

    /// How many rows the commit writes, those that are appended again among them.
    pub(super) fn written(&self) -> u64 {
        let again = self.again.as_ref().map_or(0, RecordBatch::num_rows);
        (again + self.rows.num_rows()) as u64
    }

    /// Adds the changes to a commit, which has no others of the table.
    pub(super) fn add_to(&self, group: &mut Group, table: &Table) -> Result<()> {
        for times in &self.deleted {
            group.delete(&table.table, times.clone());
        }
        for rows in self.again.iter().chain([&self.rows]) {
            table
                .shared
                .engine
                .group_append(group, &table.table, rows, table.snap)?;
        }
        Ok(())
    }
}

/// The newest time of a table.
fn latest(table: &Table) -> Result<Option<i64>> {
    let mut newest = table.range(..)?.columns(&[time_name(table)])?.rev().limit(1);
    let Some(batch) = newest.next().transpose()? else {
        return Ok(None);
    };
    Ok(times(batch.column(0)).and_then(|times| times.first().copied()))
}

/// Reads the rows of some times, ascending, and perhaps of times between them. Each batch that is
/// added has all rows from its first time to its last.
fn read(table: &Table, wanted: &[i64], stretches: &mut Vec<RecordBatch>) -> Result<()> {
    let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else {
        return Ok(());
    };
    let range = || table.range(first..=last);
    let rows = range()?.count()?;
    if rows == 0 {
        return Ok(());
    }
    if wanted.len() > 1 && rows > READ_EACH * wanted.len() as u64 + READ_ALWAYS {
        let (low, high) = wanted.split_at(wanted.len() / 2);
        read(table, low, stretches)?;
        return read(table, high, stretches);
    }
    let batches: Vec<RecordBatch> = range()?.collect::<Result<_>>()?;
    stretches.push(concat_batches(table.schema().arrow(), &batches).map_err(failed)?);
    Ok(())
}

/// For each row of the table's and then of the batch's, whether it is the last one of its key.
fn kept(table: &Table, old: &RecordBatch, new: &RecordBatch) -> Result<Vec<bool>> {
    let schema = table.schema();
    let key = schema.key().unwrap_or_default();
    let rows = old.num_rows() + new.num_rows();
    let mut columns = Vec::with_capacity(key.len() + 2);
    for &column in std::iter::once(&schema.time_column()).chain(key) {
        columns.push(concat(&[old.column(column), new.column(column)]).map_err(failed)?);
    }
    let places = u32::try_from(rows).map_err(|_| Error::TooLarge {
        what: "the batch".into(),
        len_bytes: rows,
        limit_bytes: u32::MAX as usize,
    })?;
    let arrival: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..places));
    let by: Vec<SortColumn> = columns
        .iter()
        .chain([&arrival])
        .map(|values| SortColumn {
            values: values.clone(),
            options: None,
        })
        .collect();
    let order = lexsort_to_indices(&by, None).map_err(failed)?;
    let sorted: Vec<ArrayRef> = columns
        .iter()
        .map(|column| take(column, &order, None).map_err(failed))
        .collect::<Result<_>>()?;
    let mut kept = vec![false; rows];
    for key in partition(&sorted).map_err(failed)?.ranges() {
        kept[order.value(key.end - 1) as usize] = true;
    }
    Ok(kept)
}

/// Within `rows`, which have all rows of their times: the runs of rows at each time of which one is
/// not kept.
fn replaced_runs(times: &[i64], kept: &[bool], rows: Range<usize>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut begin = rows.start;
    while begin < rows.end {
        let time = times[begin];
        let end = begin + times[begin..rows.end].partition_point(|&at| at == time);
        if kept[begin..end].contains(&false) {
            match runs.last_mut() {
                Some(run) if run.end == begin => run.end = end,
                _ => runs.push(begin..end),
            }
        }
        begin = end;
    }
    runs
}

fn time_name(table: &Table) -> &str {
    let schema = table.schema();
    schema.arrow().field(schema.time_column()).name()
}

/// The ticks of a batch with the columns of the table.
fn ticks(table: &Table, batch: &RecordBatch) -> Result<Vec<i64>> {
    let times = times(batch.column(table.schema().time_column()));
    times
        .map(|times| times.to_vec())
        .ok_or_else(|| Error::schema("the time column has no times"))
}

fn failed(error: ArrowError) -> Error {
    Error::schema(error.to_string())
}
