//! Tables with a key ([`TableSchema::with_key`](crate::TableSchema::with_key)): a row takes the place of the one that has
//! its key.
//!
//! Rules:
//! 1. Commits to tables with a key take turns ([`Shared::keyed`]): no row comes or goes between the
//!    reading of the rows that are replaced and the commit that replaces them.
//! 2. Rows that are replaced are removed in the commit that has the new ones, by their places or,
//!    where all rows of some times are, by these times.
//! 3. Rows that are newer than all rows of the table replace none, and nothing is read for them.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_ord::ord::{DynComparator, make_comparator};
use arrow_schema::{ArrowError, SortOptions};
use arrow_select::filter::filter_record_batch;
use bedload_columns::times;

use super::Table;
use crate::engine::{Appended, Group};
use crate::error::{Error, Result};
use crate::rows::{DELETION_WEIGHT, Place, check_columns, to_stored};
use crate::table::Layout;

/// As many rows of other times may be read for each time that is looked for, and [`READ_ALWAYS`]
/// besides: one long scan takes less time than many short ones.
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
    /// Whether a row takes the place of another one. Rows of a sparse table do that by themselves.
    pub(super) fn has_key(&self) -> bool {
        self.schema().key().is_some() && self.layout() == Layout::Indexed
    }

    /// Appends the rows of a batch to a table with a key.
    pub(super) fn append_keyed(&self, batch: &RecordBatch) -> Result<Appended> {
        let _turn = self.shared.keyed.lock();
        let upsert = Upsert::of(self, batch)?;
        let engine = &self.shared.engine;
        let mut appended = if upsert.gone.count == 0 {
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
        let new = NewKeys::of(table, batch)?;
        let late = match latest(table)? {
            Some(latest) => new.rows.partition_point(|&row| new.times[row] <= latest),
            None => 0,
        };
        let mut wanted: Vec<i64> = new.rows[..late].iter().map(|&row| new.times[row]).collect();
        wanted.dedup();
        let mut gone = Gone::default();
        read(table, &wanted, &new, &mut gone)?;
        let doubled = batch.num_rows() - new.rows.len();
        let rows = if doubled == 0 {
            batch.clone()
        } else {
            let mut is_last = vec![false; batch.num_rows()];
            new.rows.iter().for_each(|&row| is_last[row] = true);
            filter_record_batch(batch, &BooleanArray::from(is_last)).map_err(failed)?
        };
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
        for times in &self.gone.times {
            group.delete(&table.table, times.clone());
        }
        if !self.gone.rows.is_empty() {
            group.replace(&table.table, self.gone.rows[..].into());
        }
        let engine = &table.shared.engine;
        engine.group_append(group, &table.table, &self.rows, table.snap)
    }
}

/// The rows of a table that give way to others.
#[derive(Debug, Default)]
struct Gone {
    /// Times of which every row gives way.
    times: Vec<RangeInclusive<i64>>,
    /// The other rows, by their places, ascending.
    rows: Vec<Place>,
    count: u64,
}

impl Gone {
    /// Adds those of some rows, by their places, that give way. The table has no other rows between
    /// the first and the last, nor at their times.
    fn add(&mut self, rows: &[(Place, bool)]) {
        let mut begin = 0;
        for run in rows.chunk_by(|before, after| before.1 == after.1) {
            let end = begin + run.len();
            if run[0].1 {
                self.add_run(&rows[..begin], run, &rows[end..]);
            }
            begin = end;
        }
    }

    /// Adds rows that follow one another, and all give way, between others.
    fn add_run(&mut self, before: &[(Place, bool)], run: &[(Place, bool)], after: &[(Place, bool)]) {
        let time_of = |row: &(Place, bool)| row.0.0;
        let cut_below = before.last().map(time_of);
        let cut_above = after.first().map(time_of);
        let begin = run.partition_point(|row| cut_below.is_some_and(|cut| time_of(row) <= cut));
        let end = run.partition_point(|row| cut_above.is_none_or(|cut| time_of(row) < cut));
        let whole = begin..end.max(begin);
        let mut alone = |rows: &[(Place, bool)]| self.rows.extend(rows.iter().map(|row| row.0));
        if whole.len() < DELETION_WEIGHT {
            alone(run);
        } else {
            alone(&run[..whole.start]);
            alone(&run[whole.end..]);
            self.times
                .push(time_of(&run[whole.start])..=time_of(&run[whole.end - 1]));
        }
        self.count += run.len() as u64;
    }
}

/// The keys of a batch.
struct NewKeys {
    times: Vec<i64>,
    /// The columns of the key, but for the time.
    columns: Vec<ArrayRef>,
    /// The last row of each key, sorted by time and key.
    rows: Vec<usize>,
}

impl NewKeys {
    fn of(table: &Table, batch: &RecordBatch) -> Result<Self> {
        let times = ticks(table, batch)?;
        let columns = key_columns(table)
            .map(|column| batch.column(column).clone())
            .collect();
        let mut new = Self {
            rows: (0..times.len()).collect(),
            times,
            columns,
        };
        if new.times.is_sorted_by(|before, after| before < after) {
            return Ok(new);
        }
        let keys = comparators(&new.columns, &new.columns)?;
        let by_key = |&left: &usize, &right: &usize| {
            (new.times[left].cmp(&new.times[right])).then_with(|| compare(&keys, left, right))
        };
        new.rows.sort_by(by_key);
        // Equal keys stand in the order of arrival: the last one is kept.
        new.rows.reverse();
        new.rows.dedup_by(|left, right| by_key(left, right).is_eq());
        new.rows.reverse();
        Ok(new)
    }

    /// Adds the places of rows, which are in the order of time, and whether the batch has the key
    /// of each.
    fn find_in(&self, old: &RecordBatch, found: &mut Vec<(Place, bool)>) -> Result<()> {
        let times = times(old.column(0)).ok_or_else(no_times)?;
        let last = old.num_columns() - 1;
        let sequences = old.column(last).as_primitive::<UInt64Type>().values();
        let keys = comparators(&self.columns, &old.columns()[1..last])?;
        let mut begin = 0;
        let mut of_time: &[usize] = &[];
        for (row, (&time, &sequence)) in times.iter().zip(sequences).enumerate() {
            if of_time.first().is_none_or(|&new| self.times[new] != time) {
                let rest = &self.rows[begin..];
                begin += rest.partition_point(|&new| self.times[new] < time);
                let rest = &self.rows[begin..];
                of_time = &rest[..rest.partition_point(|&new| self.times[new] == time)];
            }
            let has = of_time.binary_search_by(|&new| compare(&keys, new, row));
            found.push(((time, sequence), has.is_ok()));
        }
        Ok(())
    }
}

/// The columns of a table's key, but for the time.
fn key_columns(table: &Table) -> impl Iterator<Item = usize> {
    table.schema().key().unwrap_or_default().iter().copied()
}

/// Comparisons of the rows of some columns with those of others.
fn comparators(left: &[ArrayRef], right: &[ArrayRef]) -> Result<Vec<DynComparator>> {
    let pairs = left.iter().zip(right);
    pairs
        .map(|(left, right)| make_comparator(left, right, SortOptions::default()).map_err(failed))
        .collect()
}

fn compare(keys: &[DynComparator], left: usize, right: usize) -> Ordering {
    let mut orders = keys.iter().map(|key| key(left, right));
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The newest time of a table.
fn latest(table: &Table) -> Result<Option<i64>> {
    let mut newest = table.range(..)?.columns(&[time_name(table)])?.rev().limit(1);
    let Some(batch) = newest.next().transpose()? else {
        return Ok(None);
    };
    Ok(times(batch.column(0)).and_then(|times| times.first().copied()))
}

/// Finds the rows that give way to those of a batch: reads the rows of its times, ascending, and
/// perhaps of times between them.
fn read(table: &Table, wanted: &[i64], new: &NewKeys, gone: &mut Gone) -> Result<()> {
    let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else {
        return Ok(());
    };
    let range = table.range(first..=last)?;
    if wanted.len() > 1 {
        let rows = range.count_at_most()?.unwrap_or(u64::MAX);
        if rows == 0 {
            return Ok(());
        }
        if rows > READ_EACH * wanted.len() as u64 + READ_ALWAYS {
            let (low, high) = wanted.split_at(wanted.len() / 2);
            read(table, low, new, gone)?;
            return read(table, high, new, gone);
        }
    }
    let arrow = table.schema().arrow();
    let names = std::iter::once(table.schema().time_column()).chain(key_columns(table));
    let names: Vec<&str> = names.map(|column| arrow.field(column).name().as_str()).collect();
    let mut found = Vec::new();
    for batch in range.columns(&names)?.with_sequence() {
        new.find_in(&batch?, &mut found)?;
    }
    gone.add(&found);
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

#[cfg(test)]
mod tests {
    use bedload_testkit::Rng;

    use super::*;

    #[test]
    fn rows_give_way_by_times_or_alone_and_no_other_does() {
        let mut rng = Rng::new(3);
        let mut by_times = 0;
        for _ in 0..200 {
            let (mut time, mut gives_way) = (0, false);
            let rows: Vec<(Place, bool)> = (0..rng.below(1000))
                .map(|sequence| {
                    time += i64::from(rng.below(3) == 0);
                    if rng.below(60) == 0 {
                        gives_way = !gives_way;
                    }
                    ((time, sequence), gives_way)
                })
                .collect();
            let mut gone = Gone::default();
            gone.add(&rows);
            assert!(gone.rows.is_sorted());
            let mut count = 0;
            for &(place, gives_way) in &rows {
                let in_times = gone.times.iter().any(|times| times.contains(&place.0));
                let alone = gone.rows.binary_search(&place).is_ok();
                assert_eq!(in_times || alone, gives_way, "{place:?}");
                assert!(!(in_times && alone), "{place:?} is gone twice");
                by_times += u64::from(in_times);
                count += u64::from(gives_way);
            }
            assert_eq!(gone.count, count);
        }
        assert!(by_times > 1000, "{by_times}");
    }
}
