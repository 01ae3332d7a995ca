//! Scans: the rows of a table between two times, from pages and heads, as record batches.
//!
//! A batch begins after the last row given. Between two batches a scan keeps its snapshot, a
//! position, and what it has read ahead: open leaves of an indexed table, blocks of a sparse one.

use std::any::Any;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use bedload_columns::Predicate;

use crate::engine::Process;
use crate::error::{Error, Result};
use crate::mark::{Mark, StoreIdentity, Unseen};
use crate::rows::{Deletions, Filter, Place, Projection, StopHandle, TableSchema};
use crate::table::{StoredTable, TableRows, View};

/// The most rows of a batch.
const BATCH_ROWS: usize = 8192;
/// A batch may have this many rows, however wide they are.
const WIDE_BATCH_ROWS: usize = 512;
/// Bytes of values from which on rows are wide: into memory that stays in the second cache of a
/// processor, columns were copied half as fast again (rows of 264 bytes, a cache of 2 MiB, 2,048
/// rows and 8,192).
const BATCH_BYTES: usize = 512 << 10;

/// Rows of a table within a time range, ascending by time; rows of one time in the order of their
/// arrival. An iterator of record batches of at most 8,192 rows, of fewer if rows are wide: a batch
/// has about 512 KiB of values of fixed length, or 16 MiB with text and bytes.
///
/// A scan reads one consistent state: that of the moment it was made, or of its snapshot.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{Float64Array, RecordBatch, TimestampSecondArray};
/// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
/// # let dir = tempfile::tempdir()?;
/// # let store = bedload::Store::create(dir.path().join("s"))?;
/// # let arrow = Arc::new(Schema::new(vec![
/// #     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
/// #     Field::new("x", DataType::Float64, true),
/// # ]));
/// # let table = store.create_table("t", bedload::TableSchema::new(arrow.clone(), "at")?)?;
/// # table.append(&RecordBatch::try_new(arrow, vec![
/// #     Arc::new(TimestampSecondArray::from(vec![1, 3, 2])),
/// #     Arc::new(Float64Array::from(vec![0.1, 0.3, 0.2])),
/// # ])?)?;
/// // The last two readings before time 4, the latest first.
/// for batch in table.range(..4)?.columns(&["x"])?.rev().limit(2) {
///     println!("{:?}", batch?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a scan reads nothing until it is iterated"]
pub struct Scan {
    store_identity: StoreIdentity,
    /// A process that inherits the scan through `fork` does not learn which pages are written over.
    process: Process,
    view: Arc<View>,
    table: Arc<StoredTable>,
    /// The columns of the handle or query that the scan is for, if they are not the table's newest.
    older: Option<TableSchema>,
    projection: Projection,
    filter: Filter,
    /// None if nothing was deleted since the last flush.
    deletions: Option<Arc<Deletions>>,
    /// Rows from this sequence number on are not visible.
    visible: u64,
    from: Bound<Place>,
    to: Bound<Place>,
    reverse: bool,
    /// Whether `rev` or `with_sequence`, which return no error, were called after the first batch.
    is_late: bool,
    /// Rows still to be given.
    remaining: u64,
    /// None before the first batch.
    rows: Option<TableRows>,
    /// Keeps the store open, and so its pages where they are.
    store: Option<Arc<dyn Any + Send + Sync>>,
}

impl Scan {
    pub(crate) fn new(
        store_identity: StoreIdentity,
        (view, visible): (Arc<View>, u64),
        table: Arc<StoredTable>,
        times: impl RangeBounds<i64>,
    ) -> Self {
        let from = match times.start_bound() {
            Bound::Included(&time) => Bound::Included((time, 0)),
            Bound::Excluded(&time) => Bound::Excluded((time, u64::MAX)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let to = match times.end_bound() {
            Bound::Included(&time) => Bound::Included((time, u64::MAX)),
            Bound::Excluded(&time) => Bound::Excluded((time, 0)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let deletions = view.deletions(table.entry.id, visible);
        let projection = Projection::all(table.entry.schema.clone());
        Self {
            store_identity,
            process: Process::current(),
            view,
            table,
            older: None,
            projection,
            filter: Filter::default(),
            deletions,
            visible,
            from,
            to,
            reverse: false,
            is_late: false,
            remaining: u64::MAX,
            rows: None,
            store: None,
        }
    }

    /// Only the columns that the table has in another of its schemas, under the names that they
    /// have there.
    pub(crate) fn of_schema(mut self, schema: &TableSchema) -> Self {
        let names: Vec<&str> = schema
            .arrow()
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        self.project(schema.stored_positions(), &names);
        self.older = Some(schema.clone());
        self
    }

    /// Sets the columns of the batches: their positions in stored rows, and names.
    fn project(&mut self, columns: Vec<usize>, names: &[&str]) {
        let (schema, with_sequence) = (self.table.entry.schema.clone(), self.projection.with_sequence());
        self.projection = Projection::named(schema, columns, names, with_sequence);
    }

    /// The position in stored rows of the column that has a name: one of the scan's own, or else
    /// one that only the table has.
    fn position(&self, name: &str) -> Result<usize> {
        let of = |schema: &TableSchema| Ok(schema.stored_position(schema.position(name)?));
        let newest = of(self.table.entry.schema.live());
        match &self.older {
            None => newest,
            Some(older) => of(older).or_else(|missing: Error| match newest {
                Ok(position) if !older.stored_positions().contains(&position) => Ok(position),
                _ => Err(missing),
            }),
        }
    }

    /// Keeps the store open as long as the scan.
    pub(crate) fn holding(mut self, store: Arc<dyn Any + Send + Sync>) -> Self {
        self.store = Some(store);
        self
    }

    /// Only rows that were not seen at some moment.
    pub(crate) fn since(mut self, unseen: Unseen) -> Self {
        self.filter.set_since(unseen);
        self
    }

    /// Gives batches the columns that the table had under an earlier schema, before columns were
    /// [added](crate::Store::add_columns), [renamed](crate::Store::rename_column) or
    /// [dropped](crate::Store::drop_column), and their names of then; [`columns`](Self::columns)
    /// and [`filter`](Self::filter) use these names from now on. The schema must come from a
    /// [`Table`](crate::Table) or a [`Snapshot`](crate::Snapshot). This is for query engines, which
    /// plan with a schema; scans of a [`Table`](crate::Table) already have that of their handle.
    ///
    /// A column that was dropped is nullable, also if it required values before.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    /// # let schema = bedload::TableSchema::new(Arc::new(Schema::new(vec![at])), "at")?;
    /// let before = store.create_table("t", schema)?;
    /// store.rename_column("t", "at", "time")?;
    /// let scan = store.snapshot().range("t", ..)?.with_schema(before.schema())?;
    /// assert_eq!(scan.schema(), before.schema().arrow());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The table never had this schema: it differs in types, time or key, or has more columns; the
    /// scan has begun.
    pub fn with_schema(self, schema: &TableSchema) -> Result<Self> {
        self.check_not_begun()?;
        if !self.table.entry.schema.is_later_than(schema) {
            return Err(Error::schema(format!(
                "table {:?} never had this schema",
                self.table.entry.name
            )));
        }
        Ok(self.of_schema(schema))
    }

    /// Only these columns, in this order.
    ///
    /// # Errors
    ///
    /// The table has no such column; the scan has begun.
    pub fn columns(mut self, names: &[&str]) -> Result<Self> {
        self.check_not_begun()?;
        let columns = names
            .iter()
            .map(|name| self.position(name))
            .collect::<Result<_>>()?;
        self.project(columns, names);
        Ok(self)
    }

    /// Only rows whose column meets a condition; called several times, those that meet all. Columns
    /// that are compared need not be among those of the batches.
    ///
    /// A table of the indexed layout knows the least and greatest value of each column for every
    /// 16,384 rows or fewer, and does not read those that cannot match. Values compare as
    /// [`Predicate`] says.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{Float64Array, RecordBatch, TimestampSecondArray};
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// use bedload::{Operator, Predicate};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let arrow = Arc::new(Schema::new(vec![
    /// #     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
    /// #     Field::new("celsius", DataType::Float64, true),
    /// # ]));
    /// # let table = store.create_table("t", bedload::TableSchema::new(arrow.clone(), "at")?)?;
    /// # table.append(&RecordBatch::try_new(arrow, vec![
    /// #     Arc::new(TimestampSecondArray::from(vec![1, 2, 3])),
    /// #     Arc::new(Float64Array::from(vec![Some(19.5), None, Some(24.0)])),
    /// # ])?)?;
    /// let warm = Predicate::compare(Operator::Gt, &Float64Array::from(vec![21.0]))?;
    /// assert_eq!(table.range(..)?.filter("celsius", warm)?.count()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The table has no such column, or it has another type than the value that it is compared
    /// with; the scan has begun.
    pub fn filter(mut self, column: &str, predicate: Predicate) -> Result<Self> {
        self.check_not_begun()?;
        let position = self.position(column)?;
        self.filter
            .add(&self.table.entry.schema, (position, column), predicate)?;
        Ok(self)
    }

    /// Adds a last column `_sequence` of type `UInt64`: the numbers that rows were given in the
    /// order of arrival. In place of batches there is an error if the table is sparse, whose rows
    /// have no such numbers, or if the scan had begun.
    pub fn with_sequence(mut self) -> Self {
        self.is_late |= self.rows.is_some();
        self.projection = self.projection.and_sequence();
        self
    }

    /// The other way round: descending, the latest row first, or ascending again. If the scan had
    /// begun, there is an error in place of further batches.
    pub fn rev(mut self) -> Self {
        self.is_late |= self.rows.is_some();
        self.reverse = !self.reverse;
        self
    }

    /// At most so many rows, or so many more if the scan has begun.
    pub fn limit(mut self, rows: u64) -> Self {
        self.remaining = self.remaining.min(rows);
        self
    }

    /// The moment whose state the scan reads, whatever was appended meanwhile:
    /// [`Table::since`](crate::Table::since) this mark has every row that was not there yet, and
    /// no other.
    ///
    /// Given to [`Table::retract_since`](crate::Table::retract_since) it takes back every row that
    /// was not there yet, but for those of a batch longer than the memory for rows
    /// ([`Options::head_bytes`](crate::Options::head_bytes)) that was being written.
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
    /// let all = table.range(..)?;
    /// let mark = all.mark();
    /// table.append(&rows(vec![15])?)?;
    /// assert_eq!((all.count()?, table.since(mark)?.count()?), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            store: self.store_identity,
            table: self.table.entry.id,
            unseen: self.view.unseen(self.visible),
            next: self.visible,
        }
    }

    /// Ends the scan from elsewhere: from another thread, or once the scan has been given away. A
    /// scan that had begun when it was first asked for this ends between two batches only.
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
    /// # let times = TimestampSecondArray::from(vec![1, 3, 2]);
    /// # table.append(&RecordBatch::try_new(arrow, vec![Arc::new(times)])?)?;
    /// let mut scan = table.range(..)?;
    /// let handle = scan.stop_handle();
    /// handle.stop();
    /// assert!(scan.next().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stop_handle(&mut self) -> StopHandle {
        self.filter.stop_handle()
    }

    /// The schema of the batches.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.projection.arrow()
    }

    /// Counts the rows. In the indexed layout only rows where the range begins and ends are read,
    /// unless some were deleted since the last flush.
    ///
    /// # Errors
    ///
    /// A page could not be read or is damaged; the scan was [ended](Self::stop_handle) before all
    /// rows were counted.
    pub fn count(mut self) -> Result<u64> {
        if let Some(rows) = self.known_count()? {
            return Ok(rows);
        }
        // Batches of a scan that has begun have the columns that it began with.
        if self.rows.is_none() {
            self.projection = Projection::new(self.table.entry.schema.clone(), Vec::new(), false);
        }
        let rows = self.try_fold(0, |count, batch| {
            batch.map(|batch| count + batch.num_rows() as u64)
        });
        let rows = rows?;
        if self.filter.is_stopped() {
            return Err(Error::schema("the scan was ended while its rows were counted"));
        }
        Ok(rows)
    }

    /// Counts the rows if no more need be read for it than where the range begins and ends; `None`
    /// otherwise: in a sparse table, under a filter, after deletions since the last flush, and once
    /// the scan has begun.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{RecordBatch, TimestampSecondArray};
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// use bedload::Predicate;
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    /// # let arrow = Arc::new(Schema::new(vec![at]));
    /// # let table = store.create_table("t", bedload::TableSchema::new(arrow.clone(), "at")?)?;
    /// # let times = TimestampSecondArray::from(vec![1, 3, 2]);
    /// # table.append(&RecordBatch::try_new(arrow, vec![Arc::new(times)])?)?;
    /// assert_eq!(table.range(2..)?.known_count()?, Some(2));
    /// assert_eq!(table.range(2..)?.filter("at", Predicate::is_null())?.known_count()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A page could not be read or is damaged.
    pub fn known_count(&self) -> Result<Option<u64>> {
        if self.deletions.is_some() {
            return Ok(None);
        }
        self.count_at_most()
    }

    /// As [`known_count`](Self::known_count), with the rows that were deleted since the last flush.
    pub(crate) fn count_at_most(&self) -> Result<Option<u64>> {
        self.check_process()?;
        if !self.filter.is_empty() || self.filter.since().is_some() || self.rows.is_some() {
            return Ok(None);
        }
        let bounds = (self.from, self.to);
        let of_pages = self.table.count(&*self.view.pages, bounds)?;
        let heads = self.view.heads(self.table.entry.id);
        let of_heads = heads.map(|head| head.count(bounds, self.visible));
        Ok(of_pages.map(|rows| rows.saturating_add(of_heads.sum()).min(self.remaining)))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.filter.is_stopped() {
                return Ok(None);
            }
            let batch = self.next_of_any_age()?;
            let rows = batch.as_ref().map_or(0, RecordBatch::num_rows);
            if let Some(since) = self.filter.since().filter(|_| rows > 0) {
                let batch = batch
                    .map(|batch| self.without_others(&batch, since))
                    .transpose()?;
                let kept = batch.as_ref().map_or(0, RecordBatch::num_rows);
                if kept == 0 {
                    continue;
                }
                let left = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(kept);
                self.remaining -= left as u64;
                return Ok(batch.map(|batch| batch.slice(0, left)));
            }
            self.remaining = if rows == 0 {
                0
            } else {
                self.remaining - rows as u64
            };
            return Ok(batch);
        }
    }

    /// Fails once the first batch has been read: columns, filter and direction are fixed then.
    fn check_not_begun(&self) -> Result<()> {
        if self.rows.is_some() || self.is_late {
            return Err(Error::schema(
                "the scan has begun: choose columns, conditions and direction before its first batch",
            ));
        }
        Ok(())
    }

    fn check_process(&self) -> Result<()> {
        let data = self.view.pages.path();
        self.process.check(data.parent().unwrap_or(data))
    }

    /// The rows of a batch with sequence numbers that were not seen at some moment.
    fn without_others(&self, batch: &RecordBatch, since: Unseen) -> Result<RecordBatch> {
        let last = batch.num_columns() - 1;
        let numbers = batch.column(last).to_data();
        let numbers = &numbers.buffers()[0].typed_data::<u64>()[numbers.offset()..][..batch.num_rows()];
        let is_new: BooleanArray = numbers.iter().map(|&number| Some(since.has(number))).collect();
        let kept = filter_record_batch(batch, &is_new).and_then(|batch| {
            if self.projection.with_sequence() {
                return Ok(batch);
            }
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = batch.columns()[..last].to_vec();
            RecordBatch::try_new_with_options(self.projection.arrow().clone(), columns, &options)
        });
        kept.map_err(|error| Error::schema(error.to_string()))
    }

    fn next_of_any_age(&mut self) -> Result<Option<RecordBatch>> {
        self.check_process()?;
        if self.is_late {
            self.check_not_begun()?;
        }
        if self.remaining == 0 {
            return Ok(None);
        }
        let mut wanted = self.batch_rows();
        // Any number of rows that were seen may stand before those that were not.
        if self.filter.since().is_none() {
            wanted = wanted.min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
        }
        let numbered = (self.filter.since().is_some() && !self.projection.with_sequence())
            .then(|| self.projection.and_sequence());
        let projection = numbered.as_ref().unwrap_or(&self.projection);
        let rows = match &mut self.rows {
            Some(rows) => rows,
            none => none.insert(self.table.rows(
                (&self.view, self.visible),
                (projection, &self.filter),
                (self.from, self.to),
                self.reverse,
            )?),
        };
        static NONE: Deletions = Deletions::NONE;
        let deletions = self.deletions.as_deref().unwrap_or(&NONE);
        rows.next(wanted, deletions)
    }

    /// How many runs the scan holds, and how many it reads alone.
    #[cfg(test)]
    pub(crate) fn sources(&self) -> (usize, usize) {
        match &self.rows {
            Some(TableRows::Indexed(rows)) => rows.sources(),
            _ => (0, 0),
        }
    }

    /// The most rows of a batch. The length of their text is not known.
    fn batch_rows(&self) -> usize {
        let rows = BATCH_BYTES / self.projection.row_bytes().max(1);
        rows.clamp(WIDE_BATCH_ROWS, BATCH_ROWS)
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next_batch().transpose();
        // A batch that was being made when the scan was ended may lack rows.
        let batch = batch.filter(|batch| batch.is_err() || !self.filter.is_stopped());
        if !matches!(batch, Some(Ok(_))) {
            self.remaining = 0;
        }
        batch
    }
}

impl std::iter::FusedIterator for Scan {}
