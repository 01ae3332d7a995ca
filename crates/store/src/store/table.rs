//! A table of an open store.

use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::TimeUnit;

use super::Shared;
use super::row::Row;
use super::snapshot::{Snapshot, check_mark, scan, scan_since};
use crate::engine::Appended;
use crate::error::{Error, Result};
use crate::mark::Mark;
use crate::rows::{Deletion, TableSchema, check_row_bytes, long_rows};
use crate::scan::Scan;
use crate::table::{Layout, Snap, StoredTable};

/// A table of an open store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Table {
    pub(super) shared: Arc<Shared>,
    pub(super) table: Arc<StoredTable>,
    pub(super) snap: Snap,
}

impl Table {
    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.table.entry.name
    }

    /// A number that no other table of the store has or had, dropped ones included. Renaming keeps
    /// it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.table.entry.id.0
    }

    /// The table's columns, as of when this handle was made: what it appends and reads has these.
    /// [`Store::add_columns`](crate::Store::add_columns),
    /// [`Store::rename_column`](crate::Store::rename_column),
    /// [`Store::drop_column`](crate::Store::drop_column) and
    /// [`Store::table`](crate::Store::table) give handles with the columns that the table has now.
    #[must_use]
    pub fn schema(&self) -> &TableSchema {
        self.table.entry.schema.live()
    }

    /// A handle like this one that has the columns of another schema of the table, as handles that
    /// were made then have. The schema is one that a handle or a snapshot gave.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    /// # let schema = bedload::TableSchema::new(Arc::new(Schema::new(vec![at])), "at")?;
    /// let schema = store.create_table("t", schema)?.schema().clone();
    /// store.add_columns("t", [Field::new("state", DataType::Utf8, true)])?;
    /// let older = store.table("t")?.with_schema(&schema)?;
    /// assert_eq!(older.schema(), &schema);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The table had no such schema, or was dropped.
    pub fn with_schema(&self, schema: &TableSchema) -> Result<Self> {
        if Arc::ptr_eq(schema.arrow(), self.schema().arrow()) {
            return Ok(self.clone());
        }
        let view = self.shared.engine.view();
        let newest = view.catalogue.get(self.table.entry.id);
        let newest = newest.ok_or_else(|| Error::NoSuchTable {
            name: self.name().into(),
        })?;
        let mut table = StoredTable::clone(newest);
        table.entry.schema = Arc::new(table.entry.schema.seen_as(schema)?);
        Ok(Self {
            table: Arc::new(table),
            ..self.clone()
        })
    }

    /// Appends the rows of a batch, all of them or, on an error, none. On return they are as
    /// durable as the store's [`Durability`](crate::Durability) says, and visible.
    ///
    /// Rows may have any times and share them; rows of one time keep the order of their arrival. In
    /// a table with a key they take the place of rows with the same key
    /// ([`TableSchema::with_key`]).
    ///
    /// # Errors
    ///
    /// The batch does not have the table's columns; a row has no time; the table was dropped; the
    /// disk is full or fails; the memory for rows is full, and its flush meets a damaged page. With
    /// [`Error::RowTooLong`], a row is longer than 1 MiB. With [`Error::TooLarge`], the batch
    /// replaces rows by their key and takes more than the memory for rows
    /// ([`Options::head_bytes`](crate::Options::head_bytes)): then append it in parts.
    pub fn append(&self, batch: &RecordBatch) -> Result<Appended> {
        if self.has_key() {
            let begun = self.begin_append_keyed(batch)?;
            self.shared.engine.finish(&begun)?;
            return Ok(begun.appended);
        }
        self.shared.engine.append(&self.table, batch, self.snap)
    }

    /// The most bytes that the columns of a row may have, its time left out.
    #[must_use]
    pub fn row_limit_bytes(&self) -> usize {
        self.table.row_limit()
    }

    /// The rows of a batch that have more bytes than [that](Self::row_limit_bytes), counted from 0.
    /// Unless a column of the batch has long values, this takes no look at each row.
    ///
    /// # Errors
    ///
    /// The batch does not have the table's columns.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampSecondArray};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// let texts = ["short", &"long ".repeat(1 << 20), "short"];
    /// let columns: [(&str, ArrayRef, bool); 2] = [
    ///     ("at", Arc::new(TimestampSecondArray::from(vec![1, 2, 3])), false),
    ///     ("text", Arc::new(StringArray::from(texts.to_vec())), true),
    /// ];
    /// let batch = RecordBatch::try_from_iter_with_nullable(columns)?;
    /// let table = store.create_table("t", bedload::TableSchema::new(batch.schema(), "at")?)?;
    /// assert_eq!(table.long_rows(&batch)?, [1]);
    /// assert!(table.append(&batch).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn long_rows(&self, batch: &RecordBatch) -> Result<Vec<usize>> {
        let schema = &self.table.entry.schema;
        let batch = schema.rows_to_store(batch)?;
        let found = long_rows(schema, &batch, self.row_limit_bytes());
        Ok(found.map(|(row, _)| row).collect())
    }

    /// Fails if [`append`](Self::append) would refuse the rows of a batch, whatever rows the table
    /// has. Nothing is written, so the store may be open read-only. The result counts what is known
    /// without writing: the rows, and those that a sparse table moves or replaces by others of the
    /// batch.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{ArrayRef, RecordBatch, TimestampSecondArray};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// let times = |times| RecordBatch::try_from_iter_with_nullable([
    ///     ("at", Arc::new(TimestampSecondArray::from(times)) as ArrayRef, false),
    /// ]);
    /// let (on, off) = (times(vec![0, 10])?, times(vec![0, 9])?);
    /// let schema = bedload::TableSchema::new(on.schema(), "at")?;
    /// let every = bedload::Layout::Sparse(bedload::Grid::every(10)?);
    /// let table = store.create_table_as("t", schema, every)?;
    /// assert_eq!(table.check(&on)?.rows, 2);
    /// assert!(table.check(&off).is_err(), "there is no row at this time");
    /// assert_eq!(table.snapping(bedload::Snap::Nearest).check(&off)?.moved, 1);
    /// assert_eq!(table.range(..)?.count()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The batch does not have the table's columns; a row has no time, or more bytes than
    /// [`row_limit_bytes`](Self::row_limit_bytes); a time is not on the grid of a sparse table.
    pub fn check(&self, batch: &RecordBatch) -> Result<Appended> {
        let schema = &self.table.entry.schema;
        let batch = schema.rows_to_store(batch)?;
        let placed = self.table.place(&batch, self.snap)?;
        check_row_bytes(schema, &batch, 0, self.row_limit_bytes())?;
        Ok(Appended {
            rows: batch.num_rows() as u64,
            moved: placed.as_ref().map_or(0, |placed| placed.moved),
            collided: placed.as_ref().map_or(0, |placed| placed.collided),
            ..Appended::default()
        })
    }

    /// How rows are kept.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.table.layout()
    }

    /// A handle through which rows that are not on the grid of a sparse table are moved to it.
    /// Tables of another layout have no grid.
    #[must_use]
    pub fn snapping(&self, snap: Snap) -> Self {
        Self { snap, ..self.clone() }
    }

    /// The row of a time, in ticks of the time column's unit; if there are several, the one that
    /// arrived last.
    ///
    /// In a sparse table this touches at most one page of metadata and one block; in an indexed
    /// one, a path of the tree, and an index and a leaf of each run that has rows around that time.
    ///
    /// # Errors
    ///
    /// The table was dropped; a page or block could not be read or is damaged; the store was
    /// inherited through `fork`.
    pub fn get(&self, time: i64) -> Result<Option<Row>> {
        self.shared.engine.check_process()?;
        let (view, visible) = self.shared.engine.snapshot();
        let Some(table) = view.catalogue.get(self.table.entry.id) else {
            return Err(Error::NoSuchTable {
                name: self.table.entry.name.to_string(),
            });
        };
        let found = table.find(&view, visible, time)?;
        Ok(found.map(|found| Row::new(time, found, &self.table.entry.schema)))
    }

    /// The rows whose time lies in a range, in ticks of the time column's unit since 1970, as of
    /// now.
    ///
    /// # Errors
    ///
    /// The table was dropped; the store was inherited through `fork`.
    pub fn range(&self, times: impl RangeBounds<i64>) -> Result<Scan> {
        self.shared.engine.check_process()?;
        let (view, visible) = self.shared.engine.snapshot();
        scan(&self.shared, (&view, visible), &self.table, times)
    }

    /// The present state of the store that the table is in, as
    /// [`Store::snapshot`](crate::Store::snapshot) gives it.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.shared)
    }

    /// The rows that are visible now and were not at a mark, in order of time.
    ///
    /// A reader that goes on from the mark of each scan ([`Scan::mark`]) sees every row once,
    /// whatever is appended meanwhile. ([`mark`](Self::mark) before or after the scan is another
    /// moment: rows that become visible between the two are seen twice, or never.)
    ///
    /// Rows not yet in pages are found without reading rows of other times. After a checkpoint in
    /// between, leaves that have none of the rows are passed over: an index page is read for every
    /// quarter of a million rows of the table, and the leaves that have some. Beside a writer, that
    /// happens only for what it committed and flushed between two calls of
    /// [`Store::refresh`](crate::Store::refresh).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{RecordBatch, TimestampSecondArray};
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    /// # let arrow = Arc::new(Schema::new(vec![at]));
    /// # let table = store.create_table("t", bedload::TableSchema::new(arrow.clone(), "at")?)?;
    /// # let rows = |times: Vec<i64>| {
    /// #     RecordBatch::try_new(arrow.clone(), vec![Arc::new(TimestampSecondArray::from(times))])
    /// # };
    /// table.append(&rows(vec![10, 20])?)?;
    /// let mark = table.mark();
    /// table.append(&rows(vec![15, 30])?)?;
    /// let new = table.since(mark)?;
    /// let mark = new.mark();
    /// assert_eq!(new.count()?, 2);
    /// assert_eq!(table.since(mark)?.count()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The mark is of another table; the table is sparse, whose rows have no numbers of their own;
    /// the table was dropped; the store was inherited through `fork`.
    pub fn since(&self, mark: Mark) -> Result<Scan> {
        self.shared.engine.check_process()?;
        let (view, visible) = self.shared.engine.snapshot();
        scan_since(&self.shared, (&view, visible), &self.table, mark)
    }

    /// Removes all rows whose time lies in a range.
    ///
    /// # Errors
    ///
    /// The table was dropped; the disk is full or fails.
    pub fn delete_range(&self, times: impl RangeBounds<i64>) -> Result<()> {
        let Some(times) = closed(times) else {
            return Ok(());
        };
        let _turn = self.has_key().then(|| self.shared.turn()).transpose()?;
        let deletion = |at| Deletion {
            times: times.clone(),
            from_sequence: 0,
            at,
        };
        self.shared.engine.delete(self.table.entry.id, deletion)
    }

    /// Keeps rows for this long from now on, counted back from the newest row of the table; `None`
    /// for ever, as at first. Kept with the table. A fraction of a tick of the time column counts
    /// as a whole one. A row whose time is ahead of the system's clock counts as one of now, so
    /// that a mistaken time makes no other row too old.
    ///
    /// Rows that are older go when a flush finds them, so they may be seen for a while: in a table
    /// of the indexed layout until they are older by a sixteenth of the time, in a sparse table
    /// until all of a file is. Rows that arrive too old go at the next flush.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use arrow_array::{RecordBatch, TimestampSecondArray};
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    /// # let arrow = Arc::new(Schema::new(vec![at]));
    /// # let table = store.create_table("t", bedload::TableSchema::new(arrow.clone(), "at")?)?;
    /// table.set_retention(Some(Duration::from_secs(3600)))?;
    /// let times = TimestampSecondArray::from(vec![0, 5000, 7200]);
    /// table.append(&RecordBatch::try_new(arrow, vec![Arc::new(times)])?)?;
    /// store.flush()?;
    /// assert_eq!(table.range(..)?.count()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The duration is zero, or more than 64 bits of ticks; the table was dropped; the disk is full
    /// or fails.
    pub fn set_retention(&self, keep: Option<Duration>) -> Result<()> {
        let ticks = keep.map(|keep| u64::try_from(keep.as_nanos().div_ceil(self.tick_nanos())));
        let ticks = ticks.transpose().map_err(|_| {
            Error::schema("rows cannot be kept for more ticks of the time column than 64 bits count")
        })?;
        self.shared.engine.set_retention(self.table.entry.id, ticks)
    }

    /// How long rows are kept, in whole ticks of the time column; `None` for ever.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    /// # let arrow = Arc::new(Schema::new(vec![at]));
    /// # let table = store.create_table("t", bedload::TableSchema::new(arrow.clone(), "at")?)?;
    /// assert_eq!(table.retention()?, None);
    /// table.set_retention(Some(Duration::from_millis(3500)))?;
    /// assert_eq!(table.retention()?, Some(Duration::from_secs(4)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The table was dropped; the store was inherited through `fork`.
    pub fn retention(&self) -> Result<Option<Duration>> {
        self.shared.engine.check_process()?;
        let (view, _) = self.shared.engine.snapshot();
        let table = view.catalogue.get(self.table.entry.id);
        let table = table.ok_or_else(|| Error::NoSuchTable {
            name: self.name().into(),
        })?;
        let tick_nanos = self.tick_nanos();
        let length = |ticks| Duration::from_nanos_u128(u128::from(ticks) * tick_nanos);
        Ok(table.entry.retention.map(length))
    }

    fn tick_nanos(&self) -> u128 {
        match self.table.entry.schema.time_unit() {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            TimeUnit::Nanosecond => 1,
        }
    }

    /// This moment.
    #[must_use]
    pub fn mark(&self) -> Mark {
        let engine = &self.shared.engine;
        let (view, visible) = engine.snapshot();
        Mark {
            store: engine.identity(),
            table: self.table.entry.id,
            unseen: view.unseen(visible),
            next: engine.next_sequence(),
        }
    }

    /// Takes back every row that was appended to the table since the mark, whoever appended it, in
    /// one commit. A row whose append had begun when the mark was taken stays.
    ///
    /// # Errors
    ///
    /// The mark is of another table; the table is sparse or has a key; the table was dropped; the
    /// disk is full or fails.
    pub fn retract_since(&self, mark: Mark) -> Result<()> {
        check_mark(&self.shared, &self.table, mark)?;
        if self.layout() != Layout::Indexed {
            return Err(Error::schema(format!(
                "table {:?} is sparse: rows that were written over come back from a snapshot alone",
                self.table.entry.name
            )));
        }
        if self.has_key() {
            return Err(Error::schema(format!(
                "table {:?} has a key: rows that were replaced would not come back",
                self.table.entry.name
            )));
        }
        let deletion = |at| Deletion {
            times: i64::MIN..=i64::MAX,
            from_sequence: mark.next,
            at,
        };
        self.shared.engine.delete(self.table.entry.id, deletion)
    }
}

/// A range of times with both ends; none if no time lies in it.
pub(super) fn closed(times: impl RangeBounds<i64>) -> Option<RangeInclusive<i64>> {
    let from = match times.start_bound() {
        Bound::Included(&time) => time,
        Bound::Excluded(&time) => time.checked_add(1)?,
        Bound::Unbounded => i64::MIN,
    };
    let to = match times.end_bound() {
        Bound::Included(&time) => time,
        Bound::Excluded(&time) => time.checked_sub(1)?,
        Bound::Unbounded => i64::MAX,
    };
    (from <= to).then_some(from..=to)
}
