//! Random changes, to the store and to its model.

use std::ops::RangeInclusive;
use std::time::Duration;

use arrow_array::RecordBatch;

use super::super::model::{
    ADDED_MAX, ID_STEP, Kind, Row, added_columns, added_field, batch, number_of, width,
};
use super::{Models, Run, TABLES};
use crate::error::{Error, Result};
use crate::mark::Mark;
use crate::store::Table;

/// One change of the store, of which all is there or nothing.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Append(usize, Vec<Row>),
    /// Rows of several tables, and times that are deleted before.
    Group(Vec<(usize, Option<RangeInclusive<i64>>, Vec<Row>)>),
    Delete(usize, RangeInclusive<i64>),
    /// Takes back the rows since the mark, which begin with this id.
    Retract(Mark, i64),
    Keep(usize, Option<i64>),
    /// Adds columns to a table until it has so many of them.
    AddColumns(usize, usize),
    /// Drops an added column of a table, by its number.
    DropColumn(usize, usize),
    Flush,
}

impl Run {
    /// Rows of a table at these times, whose ids follow. They have values in all columns that were
    /// added to it, or in some.
    pub(super) fn rows(&mut self, number: usize, times: impl Iterator<Item = i64>) -> Vec<Row> {
        let mut width = self.models[number].columns_added;
        if self.below(3) == 0 {
            width = self.rng.index(width + 1);
        }
        let first = self.next + i64::try_from(width).unwrap_or_default();
        let rows: Vec<Row> = times
            .zip(0..)
            .map(|(time, number)| Row {
                time,
                id: first + number * ID_STEP,
            })
            .collect();
        self.next += i64::try_from(rows.len()).unwrap_or_default() * ID_STEP;
        rows
    }

    /// In order, a little late, or all over the place.
    pub(super) fn some_rows(&mut self, number: usize, count: i64) -> Vec<Row> {
        let first = self.now;
        match self.below(5) {
            0 | 1 => {
                self.now += count;
                self.rows(number, first..first + count)
            }
            2 => self.rows(number, (first - count..first).rev()),
            3 => {
                self.now += count / 2;
                let late = 1 + self.below(60);
                let times = (first..first + count).map(|at| first + (at - first) / 2 - at * 7919 % late);
                self.rows(number, times)
            }
            _ => self.rows(number, (0..count).map(|at| first - (at * 7919 + first) % 20_000)),
        }
    }

    /// A number of rows for a table: more than there is memory for, where that is taken.
    pub(super) fn count(&mut self, number: usize) -> i64 {
        match self.below(6) {
            0 if TABLES[number].1 != Kind::Keyed => 2000 + self.below(6000),
            0 | 1 => 100 + self.below(200),
            2 => 1,
            _ => 1 + self.below(40),
        }
    }

    pub(super) fn some_times(&mut self) -> RangeInclusive<i64> {
        let from = self.now - self.below(20_000);
        from..=from + self.below(3000)
    }

    pub(super) fn some_change(&mut self) -> Change {
        let number = self.rng.index(TABLES.len());
        match self.below(14) {
            0 => Change::Delete(number, self.some_times()),
            1 => Change::Flush,
            2 | 3 => {
                let mut parts = Vec::new();
                for (number, (_, kind)) in TABLES.iter().enumerate() {
                    let count = 1 + self.below(200);
                    let rows = self.some_rows(number, count);
                    // Nothing else of a table with a key is changed in the same commit.
                    let times = (*kind != Kind::Keyed).then(|| self.some_times());
                    parts.push((number, times, rows));
                }
                Change::Group(parts)
            }
            4 => {
                let keep = (self.below(4) > 0).then(|| 3000 + self.below(20_000));
                Change::Keep(number, keep)
            }
            5 if !self.marks.is_empty() => {
                let which = self.rng.index(self.marks.len());
                let (mark, first) = self.marks[which];
                self.marks.truncate(which);
                Change::Retract(mark, first)
            }
            6 if TABLES[number].1 != Kind::Grid && self.models[number].columns_added < ADDED_MAX => {
                let has = self.models[number].columns_added;
                Change::AddColumns(number, has + 1 + self.rng.index((ADDED_MAX - has).min(2)))
            }
            7 if !self.models[number].columns.is_empty() => {
                let which = self.rng.index(self.models[number].columns.len());
                Change::DropColumn(number, self.models[number].columns[which])
            }
            _ => {
                let count = self.count(number);
                Change::Append(number, self.some_rows(number, count))
            }
        }
    }

    fn perform(&self, change: &Change) -> Result<()> {
        match change {
            Change::Append(number, rows) => {
                let (table, rows) = self.table_and_batch(*number, rows);
                table.append(&rows).map(drop)
            }
            Change::Group(parts) => {
                let mut group = self.store().write_batch();
                for (number, times, rows) in parts {
                    if let Some(times) = times {
                        group.delete_range(&self.table(*number), times.clone())?;
                    }
                    let (table, rows) = self.table_and_batch(*number, rows);
                    group.append(&table, &rows)?;
                }
                group.commit().map(drop)
            }
            Change::Delete(number, times) => self.table(*number).delete_range(times.clone()),
            Change::Retract(mark, _) => self.table(0).retract_since(*mark),
            Change::Keep(number, keep) => {
                let keep = keep.map(|keep| Duration::from_millis(keep.unsigned_abs()));
                self.table(*number).set_retention(keep)
            }
            Change::AddColumns(number, to) => {
                let has = self.models[*number].columns_added;
                let added = (has..*to).map(added_field);
                let table = self.store().add_columns(TABLES[*number].0, added)?;
                let last = added_columns(table.schema().arrow()).pop();
                assert_eq!(last, Some(to - 1));
                Ok(())
            }
            Change::DropColumn(number, column) => {
                let names = self.table(*number).schema().names();
                let name = names.iter().find(|name| number_of(name) == Some(*column));
                let name = name.expect("it has the column");
                let table = self.store().drop_column(TABLES[*number].0, name)?;
                assert!(!table.schema().names().contains(name));
                Ok(())
            }
            Change::Flush => self.store().flush(),
        }
    }

    /// A handle of a table and a batch for it: one from before columns were added or dropped, if
    /// there is one that has all columns of the table in which the rows have values.
    pub(super) fn table_and_batch(&self, number: usize, rows: &[Row]) -> (Table, RecordBatch) {
        let width = rows.first().map_or(0, |row| width(row.id));
        let mut needed = self.models[number]
            .columns
            .iter()
            .filter(|&&column| column < width);
        let older = self.older[number].clone().filter(|table| {
            let columns = added_columns(table.schema().arrow());
            needed.all(|column| columns.contains(column))
        });
        let table = older.unwrap_or_else(|| self.table(number));
        let batch = batch(rows, table.schema());
        (table, batch)
    }

    /// Does a change; returns whether it is done. If that is unknown, the store is opened again.
    pub(super) fn change(&mut self, change: &Change) -> bool {
        self.say(change);
        if let Change::AddColumns(number, _) | Change::DropColumn(number, _) = change
            && self.older[*number].is_none()
        {
            self.older[*number] = Some(self.table(*number));
        }
        match self.perform(change) {
            Ok(()) => {
                model(change, &mut self.models);
                match change {
                    Change::Append(..) | Change::Group(_) | Change::Delete(..) | Change::Retract(..) => {
                        self.may_be_lost();
                    }
                    Change::Keep(..) | Change::AddColumns(..) | Change::DropColumn(..) | Change::Flush => {
                        self.is_durable()
                    }
                }
                true
            }
            Err(error) if matches!(error, Error::NoSpace { .. }) || error.is_for_want_of_descriptors() => {
                self.say(format!("not done: {error}"));
                self.failed += 1;
                false
            }
            Err(error) => {
                self.say(format!("failed: {error}"));
                self.unknown += 1;
                self.reopen(Some(change));
                false
            }
        }
    }

    /// Does changes without trouble.
    pub(super) fn do_change(&mut self, change: &Change) {
        let unknown = self.unknown;
        let is_done = self.change(change);
        assert!(is_done && unknown == self.unknown, "a sound disk");
    }
}

/// Does a change to the model.
pub(super) fn model(change: &Change, models: &mut Models) {
    match change {
        Change::Append(number, rows) => models[*number].append(rows),
        Change::Group(parts) => {
            for (number, times, rows) in parts {
                if let Some(times) = times {
                    models[*number].delete(times);
                }
                models[*number].append(rows);
            }
        }
        Change::Delete(number, times) => models[*number].delete(times),
        Change::Retract(_, first) => models[0].retract(*first),
        Change::Keep(number, keep) => models[*number].keep(*keep),
        Change::AddColumns(number, to) => {
            let model = &mut models[*number];
            model.columns.extend(model.columns_added..*to);
            model.columns_added = *to;
        }
        Change::DropColumn(number, dropped) => {
            models[*number].columns.retain(|column| column != dropped);
        }
        Change::Flush => {}
    }
}
