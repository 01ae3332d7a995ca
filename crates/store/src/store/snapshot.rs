//! The state of all tables at one moment.

use std::ops::RangeBounds;
use std::sync::Arc;

use super::{Shared, Table};
use crate::error::{Error, Result};
use crate::mark::Mark;
use crate::rows::TableSchema;
use crate::scan::Scan;
use crate::table::{Layout, StoredTable, View};

/// The state of all tables at one moment.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let store = bedload::Store::create(dir.path().join("s"))?;
/// let before = store.snapshot();
/// // … others write …
/// assert_eq!(before.tables(), Vec::<String>::new());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(super) shared: Arc<Shared>,
    pub(super) view: Arc<View>,
    pub(super) visible: u64,
}

impl Snapshot {
    /// The state of all tables now.
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        let (view, visible) = shared.engine.snapshot();
        Self {
            shared: shared.clone(),
            view,
            visible,
        }
    }

    /// The names of all tables.
    #[must_use]
    pub fn tables(&self) -> Vec<String> {
        self.view
            .catalogue
            .iter()
            .map(|table| table.entry.name.to_string())
            .collect()
    }

    /// The columns of a table.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    /// let columns = bedload::TableSchema::new(Arc::new(Schema::new(vec![at])), "at")?;
    /// let table = store.create_table("readings", columns.clone())?;
    /// assert_eq!(table.snapshot().schema("readings")?, &columns);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such table.
    pub fn schema(&self, table: &str) -> Result<&TableSchema> {
        Ok(self.view.catalogue.named(table)?.entry.schema.live())
    }

    /// The name that a table has in the snapshot: tables are renamed, and another one may have the
    /// name since.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    /// # let schema = bedload::TableSchema::new(Arc::new(Schema::new(vec![at])), "at")?;
    /// let table = store.create_table("new", schema)?;
    /// store.rename_table("new", "readings")?;
    /// assert_eq!(store.snapshot().name_of(&table)?, "readings");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The table was dropped before, or is one of another store.
    pub fn name_of(&self, table: &Table) -> Result<&str> {
        let found = Arc::ptr_eq(&self.shared, &table.shared)
            .then(|| self.view.catalogue.get(table.table.entry.id))
            .flatten();
        let found = found.ok_or_else(|| Error::NoSuchTable {
            name: table.name().to_owned(),
        })?;
        Ok(&found.entry.name)
    }

    /// The rows of a table whose time lies in a range.
    ///
    /// # Errors
    ///
    /// There is no such table; the store was inherited through `fork`.
    pub fn range(&self, table: &str, times: impl RangeBounds<i64>) -> Result<Scan> {
        self.shared.engine.check_process()?;
        let table = self.view.catalogue.named(table)?;
        scan(&self.shared, (&self.view, self.visible), table, times)
    }

    /// The rows of a table that are visible in the snapshot and were not at a mark, in order of
    /// time, as [`Table::since`] gives those that are visible now.
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
    /// let mark = table.mark();
    /// table.append(&rows(vec![10, 20])?)?;
    /// let snapshot = store.snapshot();
    /// table.append(&rows(vec![15])?)?;
    /// let new = snapshot.since("t", mark)?;
    /// assert_eq!((new.count()?, table.since(mark)?.count()?), (2, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such table; the mark is of another one; the table is sparse, whose rows have no
    /// numbers of their own; the store was inherited through `fork`.
    pub fn since(&self, table: &str, mark: Mark) -> Result<Scan> {
        self.shared.engine.check_process()?;
        let table = self.view.catalogue.named(table)?;
        scan_since(&self.shared, (&self.view, self.visible), table, mark)
    }
}

/// The rows of a table that are visible in a view and were not at a mark.
pub(super) fn scan_since(
    shared: &Arc<Shared>,
    (view, visible): (&Arc<View>, u64),
    table: &StoredTable,
    mark: Mark,
) -> Result<Scan> {
    check_mark(shared, table, mark)?;
    if table.layout() != Layout::Indexed {
        return Err(Error::schema(format!(
            "table {:?} is sparse: when its rows were appended is not known",
            table.entry.name
        )));
    }
    let times = view.times_since(table.entry.id, mark.unseen, visible);
    Ok(scan(shared, (view, visible), table, times)?.since(mark.unseen))
}

/// Fails unless a mark is one of this table, as it is now or was earlier.
pub(super) fn check_mark(shared: &Shared, table: &StoredTable, mark: Mark) -> Result<()> {
    let (open, name) = (shared.engine.identity(), &table.entry.name);
    let is_copy = mark.store.name == open.name && mark.store.copy != open.copy;
    let is_saved = mark.store.data.is_none();
    let reason = if is_saved && is_copy && mark.table == table.entry.id {
        format!("the mark is of another copy of the store: read table {name:?} from its beginning")
    } else if !mark.store.is_of(&open) || mark.table != table.entry.id {
        format!("the mark is not one of table {name:?}")
    } else if is_saved && mark.unseen.next() > shared.engine.next_sequence() {
        format!(
            "the mark is later than the rows that the store shows: refresh the store if it is open for reading; if it \
             was put back to an earlier state, read table {name:?} from its beginning"
        )
    } else {
        return Ok(());
    };
    Err(Error::schema(reason))
}

/// The rows of a table in a range of times, as of a view, in the columns of `table`. The scan keeps
/// the store open.
pub(super) fn scan(
    shared: &Arc<Shared>,
    (view, visible): (&Arc<View>, u64),
    table: &StoredTable,
    times: impl RangeBounds<i64>,
) -> Result<Scan> {
    let Some(newest) = view.catalogue.get(table.entry.id) else {
        return Err(Error::NoSuchTable {
            name: table.entry.name.to_string(),
        });
    };
    let identity = shared.engine.identity();
    let scan = Scan::new(identity, (view.clone(), visible), newest.clone(), times).holding(shared.clone());
    if Arc::ptr_eq(&table.entry.schema, &newest.entry.schema) {
        return Ok(scan);
    }
    Ok(scan.of_schema(table.entry.schema.live()))
}
