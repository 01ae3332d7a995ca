//! One commit over several tables.

use std::ops::RangeBounds;
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::keyed::Upsert;
use super::table::closed;
use super::{Shared, Store, Table};
use crate::engine::{Appended, Group};
use crate::error::{Error, Result};

/// Changes of several tables that are committed together: after a crash all of them are there, or
/// none, and no reader sees some without the others. Made by [`Store::write_batch`].
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{RecordBatch, TimestampSecondArray};
/// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
/// # let dir = tempfile::tempdir()?;
/// # let store = bedload::Store::create(dir.path().join("s"))?;
/// # let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
/// # let arrow = Arc::new(Schema::new(vec![at]));
/// # let schema = bedload::TableSchema::new(arrow.clone(), "at")?;
/// # let readings = store.create_table("readings", schema.clone())?;
/// # let hours = store.create_table("hours", schema)?;
/// # let rows = |times: Vec<i64>| RecordBatch::try_new(arrow.clone(), vec![Arc::new(TimestampSecondArray::from(times))]);
/// let mut batch = store.write_batch();
/// batch.append(&readings, &rows(vec![7200, 7260])?)?;
/// batch.delete_range(&hours, 7200..=7200)?;
/// batch.append(&hours, &rows(vec![7200])?)?;
/// batch.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is written before it is committed"]
pub struct WriteBatch {
    shared: Arc<Shared>,
    group: Group,
    /// Rows for tables with a key, which are looked up when all is committed.
    keyed: Vec<(Table, RecordBatch)>,
}

impl Store {
    /// Begins a commit over several tables.
    pub fn write_batch(&self) -> WriteBatch {
        WriteBatch {
            shared: self.shared.clone(),
            group: Group::default(),
            keyed: Vec::new(),
        }
    }
}

impl WriteBatch {
    /// Adds the rows of a batch. Columns are copied, and sorted by time.
    ///
    /// # Errors
    ///
    /// The batch does not have the table's columns, a row has no time or is too long; the table is
    /// one of another store; with [`Error::TooLarge`], all rows together are more than the memory
    /// for rows ([`Options::head_bytes`](crate::Options::head_bytes)). A table with a key can have
    /// one batch, and no deletion besides. Batches that were added before stay.
    pub fn append(&mut self, table: &Table, batch: &RecordBatch) -> Result<()> {
        self.check(table)?;
        if table.has_key() {
            if self.group.has(&table.table) {
                return Err(one_change(table));
            }
            self.keyed.push((table.clone(), batch.clone()));
            return Ok(());
        }
        let engine = &self.shared.engine;
        engine.group_append(&mut self.group, &table.table, batch, table.snap)
    }

    /// Adds the deletion of all rows in a range of times, those that were added before among them.
    ///
    /// # Errors
    ///
    /// The table is one of another store; it has a key, and rows for it were added.
    pub fn delete_range(&mut self, table: &Table, times: impl RangeBounds<i64>) -> Result<()> {
        self.check(table)?;
        if let Some(times) = closed(times) {
            self.group.delete(&table.table, times);
        }
        Ok(())
    }

    /// How many changes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.group.len() + self.keyed.len()
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Commits all changes, in their order. On return they are as durable as the store's
    /// [`Durability`](crate::Durability) says, and visible.
    ///
    /// # Errors
    ///
    /// A table was dropped, or the disk is full, or rows for a table with a key do not fit it or
    /// are too many: nothing was changed. The disk fails: whether the changes are durable is
    /// unknown, and the store takes no more writes.
    pub fn commit(self) -> Result<Appended> {
        let Self {
            shared,
            mut group,
            keyed,
        } = self;
        let deletes = group.tables().any(|table| table.entry.schema.key().is_some());
        let has_turn = deletes || !keyed.is_empty();
        let turn = has_turn.then(|| shared.turn()).transpose()?;
        let (mut given, mut written, mut replaced) = (0, 0, 0);
        for (table, batch) in &keyed {
            let upsert = Upsert::of(table, batch)?;
            upsert.add_to(&mut group, table)?;
            given += batch.num_rows() as u64;
            written += upsert.written();
            replaced += upsert.replaced;
        }
        let begun = shared.engine.begin_group(group)?;
        drop(turn);
        shared.engine.finish(&begun)?;
        let mut appended = begun.appended;
        appended.rows = appended.rows - written + given;
        appended.replaced = replaced;
        Ok(appended)
    }

    /// Fails unless a change of a table can be added.
    fn check(&self, table: &Table) -> Result<()> {
        if !Arc::ptr_eq(&self.shared, &table.shared) {
            let name = table.name();
            return Err(Error::schema(format!("table {name:?} is one of another store")));
        }
        if self.keyed.iter().any(|(keyed, _)| keyed.id() == table.id()) {
            return Err(one_change(table));
        }
        Ok(())
    }
}

fn one_change(table: &Table) -> Error {
    let name = table.name();
    Error::schema(format!(
        "table {name:?} has a key: rows for it must be the only change of it in a commit of several"
    ))
}
