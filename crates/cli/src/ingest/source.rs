//! How many rows of an input earlier runs have taken, for `--source-id`.
//!
//! The count is a row of the table [`SOURCES`], replaced in the same commit as the rows that it
//! counts. After a crash it therefore agrees with the rows of the table, and a run that begins
//! again skips exactly those.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Appended, Store, Table, TableSchema};

use super::halves::{Tried, commit_in_halves};
use crate::exit::{Failure, Result};
use crate::figures::rows_text;
use crate::printable::printable;
use crate::reserved::SOURCES;

/// An input that is known by an id, and how much of it the table has.
pub(super) struct Source {
    id: String,
    position: Option<Position>,
    /// The greatest time of the table of positions. Each of its rows has a time of its own.
    newest: i64,
    /// Rows of the input that this run has met.
    met: u64,
}

/// The row of a source in the table of positions.
#[derive(Clone, Copy)]
struct Position {
    at: i64,
    /// Rows taken.
    rows: u64,
    /// The time of the last of them, in ticks of its column.
    last: i64,
}

/// How many rows of a source a table has.
pub(crate) struct Counted {
    pub(crate) id: String,
    /// The id of the table.
    table: u32,
    position: Position,
}

impl Counted {
    /// The counts of a store, in ascending order of the times of their rows.
    fn all(store: &Store) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        if !store.tables().iter().any(|name| name == SOURCES) {
            return Ok(all);
        }
        for batch in store.table_or_create(SOURCES, schema()?)?.range(..)? {
            let batch = batch?;
            let at = batch.column(0).as_primitive::<TimestampMicrosecondType>();
            let ids = batch.column(1).as_string::<i32>();
            let tables = batch.column(2).as_primitive::<UInt32Type>();
            let rows = batch.column(3).as_primitive::<UInt64Type>();
            let last = batch.column(4).as_primitive::<Int64Type>();
            all.extend((0..batch.num_rows()).map(|row| Self {
                id: ids.value(row).to_owned(),
                table: tables.value(row),
                position: Position {
                    at: at.value(row),
                    rows: rows.value(row),
                    last: last.value(row),
                },
            }));
        }
        Ok(all)
    }

    /// The counts of a table, in order of their ids.
    pub(crate) fn of_table(store: &Store, table: &Table) -> Result<Vec<Self>> {
        let mut counts = Self::all(store)?;
        counts.retain(|counted| counted.table == table.id());
        counts.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(counts)
    }

    /// Rows of the source that the table has taken.
    pub(crate) fn rows(&self) -> u64 {
        self.position.rows
    }

    /// Deletes the count, so that a later run begins at the first row.
    pub(crate) fn forget(&self, store: &Store) -> Result<()> {
        let at = self.position.at;
        Ok(store.table(SOURCES)?.delete_range(at..=at)?)
    }
}

impl Source {
    /// Looks up how much of the source `table` has.
    pub(super) fn look_up(store: &Store, table: &Table, id: &str) -> Result<Self> {
        let mut source = Self {
            id: id.to_owned(),
            position: None,
            newest: i64::MIN,
            met: 0,
        };
        for counted in Counted::all(store)? {
            source.newest = counted.position.at;
            if counted.id == id && counted.table == table.id() {
                source.position = Some(counted.position);
            }
        }
        Ok(source)
    }

    /// Rows that earlier runs, and this one, have taken.
    pub(super) fn taken(&self) -> u64 {
        self.position.map_or(0, |position| position.rows)
    }

    /// Returns the rows of the next batch of the input that the table does not have; `None` if it
    /// has them all.
    pub(super) fn skip(&mut self, batch: RecordBatch, time: usize) -> Result<Option<RecordBatch>> {
        let begin = self.met;
        self.met += batch.num_rows() as u64;
        let Some(position) = self.position.filter(|position| begin < position.rows) else {
            return Ok(Some(batch));
        };
        let Ok(taken) = usize::try_from(position.rows - begin) else {
            return Ok(None);
        };
        if taken > batch.num_rows() {
            return Ok(None);
        }
        if ticks(&batch, time)?.value(taken - 1) != position.last {
            return Err(Failure::input(format!(
                "row {} of source {} is not the one that an earlier run took: give other input another --source-id",
                position.rows,
                printable(&self.id),
            )));
        }
        let rest = batch.slice(taken, batch.num_rows() - taken);
        Ok((rest.num_rows() > 0).then_some(rest))
    }

    /// Appends the next rows, and the count that includes them, in commits of as many rows as the
    /// store takes at once. Calls `appended` after each with its rows.
    pub(super) fn append(
        &mut self,
        store: &Store,
        table: &Table,
        batch: &RecordBatch,
        appended: &mut dyn FnMut(&Appended, &RecordBatch) -> Result<()>,
    ) -> Result<()> {
        commit_in_halves(batch, &mut |rows| {
            Tried::of(table, self.commit(store, table, rows)?, |done| {
                appended(&done, rows)
            })
        })
    }

    /// Commits a batch and the new count; does nothing if the store refuses.
    fn commit(
        &mut self,
        store: &Store,
        table: &Table,
        batch: &RecordBatch,
    ) -> Result<bedload::Result<Appended>> {
        let mut changes = store.write_batch();
        if let Err(refused) = changes.append(table, batch) {
            return Ok(Err(refused));
        }
        let positions = store.table_or_create(SOURCES, schema()?)?;
        let position = Position {
            at: now().max(self.newest.saturating_add(1)),
            rows: self.taken() + batch.num_rows() as u64,
            last: ticks(batch, table.schema().time_column())?.value(batch.num_rows() - 1),
        };
        if let Some(replaced) = self.position {
            changes.delete_range(&positions, replaced.at..=replaced.at)?;
        }
        changes.append(&positions, &self.row(table, position)?)?;
        let committed = changes.commit().map(|mut appended| {
            appended.rows -= 1;
            appended
        });
        if committed.is_ok() {
            self.newest = position.at;
            self.position = Some(position);
        }
        Ok(committed)
    }

    fn row(&self, table: &Table, position: Position) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampMicrosecondArray::from(vec![position.at]).with_timezone("UTC")),
            Arc::new(StringArray::from(vec![self.id.as_str()])),
            Arc::new(UInt32Array::from(vec![table.id()])),
            Arc::new(UInt64Array::from(vec![position.rows])),
            Arc::new(Int64Array::from(vec![position.last])),
        ];
        RecordBatch::try_new(Arc::clone(schema()?.arrow()), columns)
            .map_err(|error| Failure::input(error.to_string()))
    }

    /// Complains about an input that has fewer rows than were taken of it.
    pub(super) fn finish(&self) -> Result<()> {
        let taken = self.taken();
        if self.met >= taken {
            return Ok(());
        }
        Err(Failure::input(format!(
            "the input has {}, and {taken} of source {} were taken before: give other input another --source-id",
            rows_text(self.met),
            printable(&self.id),
        )))
    }
}

/// The columns of the table of positions.
fn schema() -> Result<TableSchema> {
    let field = |name, data_type| Field::new(name, data_type, false);
    let at = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let fields = vec![
        field("at", at),
        field("source", DataType::Utf8),
        field("table", DataType::UInt32),
        field("rows", DataType::UInt64),
        field("last", DataType::Int64),
    ];
    Ok(TableSchema::new(Arc::new(Schema::new(fields)), "at")?)
}

/// The ticks of a column of times.
fn ticks(batch: &RecordBatch, time: usize) -> Result<Int64Array> {
    let ticks =
        cast(batch.column(time), &DataType::Int64).map_err(|error| Failure::input(error.to_string()))?;
    Ok(ticks.as_primitive::<Int64Type>().clone())
}

/// Microseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
