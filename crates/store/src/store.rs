//! The store as its users hold it.

mod keyed;
mod pending_append;
mod put_back;
mod retention_pause;
mod row;
mod snapshot;
mod table;
mod write_batch;

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{Field, FieldRef};
use parking_lot::{Mutex, MutexGuard};

use crate::disk::{Disk, OsDisk};
use crate::engine::{self, Engine, Flusher, Metrics, Problem, SalvageReport, VerifyReport};
use crate::error::{Error, Result};
use crate::info::StoreInfo;
use crate::options::Options;
use crate::pages::page_bytes_admissible;
use crate::rows::TableSchema;
use crate::table::{Layout, Snap};

pub use self::pending_append::PendingAppend;
pub use self::retention_pause::RetentionPause;
pub use self::row::{Row, Value};
pub use self::snapshot::Snapshot;
pub use self::table::Table;
pub use self::write_batch::WriteBatch;

/// A store: tables of time-stamped rows in one directory, open for writing in one process at a
/// time. Other processes may read it meanwhile ([`Options::read_only`]).
///
/// Cheap to clone; all clones are the same open store, which closes when the last of them, and of
/// its tables, snapshots and scans, is dropped. Everything may be called from several threads.
#[derive(Debug, Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

/// The parts that keep a store open.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Dropped first: the thread ends before the engine goes.
    _flusher: Option<Flusher>,
    engine: Arc<Engine>,
    /// Held by a commit to tables with a key, or a deletion there: these take turns.
    keyed: Mutex<()>,
}

impl Shared {
    /// Waits for the turn to commit to tables with a key, or to delete there.
    ///
    /// # Errors
    ///
    /// The store takes no writes, or not from this process: in one that was forked, the lock may be
    /// held by a thread that only its parent has.
    pub(crate) fn turn(&self) -> Result<MutexGuard<'_, ()>> {
        self.engine.check_writable()?;
        Ok(self.keyed.lock())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.engine.is_inherited() {
            self.engine.leave_inherited();
        }
    }
}

impl Store {
    pub(crate) fn new(engine: Engine) -> Self {
        let background = engine.options().background;
        let engine = Arc::new(engine);
        let flusher = background.then(|| Flusher::start(engine.clone()));
        Self {
            shared: Arc::new(Shared {
                _flusher: flusher,
                engine,
                keyed: Mutex::new(()),
            }),
        }
    }

    /// Opens the store in a directory, with the default [`Options`].
    ///
    /// # Errors
    ///
    /// As for [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open(path)
    }

    /// Creates a store in a directory that does not exist yet or is empty, with the default
    /// [`Options`].
    ///
    /// # Errors
    ///
    /// Something stands there already; the disk fails.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        match std::fs::read_dir(path).map(|mut entries| entries.next().is_some()) {
            Ok(true) => Err(Error::AlreadyExists { path: path.into() }),
            _ => Options::new().create_new(true).open(path),
        }
    }

    /// Fails if [`Options::create_new`] would create no store in a directory, as far as can be told
    /// without writing there. Another process may create one by the time it is tried.
    ///
    /// # Errors
    ///
    /// There is a store, or a part of one whose rows may still be wanted; the directory has other
    /// files; it is a file, or a link that leads to nothing; it or the directory in which it would
    /// be created cannot be read.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("readings");
    /// use bedload::{Error, Store};
    ///
    /// Store::check_creatable(&path)?;
    /// assert!(!path.exists());
    /// Store::create(&path)?.close()?;
    /// let there = Store::check_creatable(&path);
    /// assert!(matches!(there, Err(Error::AlreadyExists { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_creatable(path: impl AsRef<Path>) -> Result<()> {
        engine::check_creatable(&OsDisk, path.as_ref())
    }

    /// Creates a table.
    ///
    /// # Errors
    ///
    /// The name is not 1 to 255 bytes of printable text, or is that of another table; every row of
    /// this schema is too long; the disk is full or fails.
    pub fn create_table(&self, name: &str, schema: TableSchema) -> Result<Table> {
        self.create_table_as(name, schema, Layout::Indexed)
    }

    /// Creates a table of a layout.
    ///
    /// # Errors
    ///
    /// As for [`create_table`](Self::create_table); rows of this schema fit in no block of a sparse
    /// table; a sparse table is to have a key of other columns than its time.
    pub fn create_table_as(&self, name: &str, schema: TableSchema, layout: Layout) -> Result<Table> {
        let grid = match layout {
            Layout::Indexed => None,
            Layout::Sparse(grid) => Some(grid),
        };
        if grid.is_some() && schema.key().is_some_and(|key| !key.is_empty()) {
            return Err(Error::schema(
                "a sparse table has one row at each time: its key can have no other columns",
            ));
        }
        let schema = Arc::new(schema.of_new_table());
        self.shared.engine.create_table(name, schema, grid)?;
        self.table(name)
    }

    /// The table of this name.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn table(&self, name: &str) -> Result<Table> {
        let table = self.shared.engine.view().catalogue.named(name)?.clone();
        Ok(Table {
            shared: self.shared.clone(),
            table,
            snap: Snap::Refuse,
        })
    }

    /// The names of all tables, in the order in which they were created.
    #[must_use]
    pub fn tables(&self) -> Vec<String> {
        self.shared
            .engine
            .view()
            .catalogue
            .iter()
            .map(|table| table.entry.name.to_string())
            .collect()
    }

    /// Removes a table and its rows. Snapshots keep what they see of it.
    ///
    /// # Errors
    ///
    /// There is no such table; the disk fails.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.shared.engine.drop_table(name)
    }

    /// Gives a table another name. Handles of the table, and snapshots, keep the old one.
    ///
    /// # Errors
    ///
    /// There is no such table; the new name is not 1 to 255 bytes of printable text, or is that of
    /// a table; the disk is full or fails.
    pub fn rename_table(&self, name: &str, new: &str) -> Result<()> {
        self.shared.engine.rename_table(name, new)
    }

    /// Adds columns to an indexed table, after those it has, and returns the table with all of
    /// them. The rows that are there are not touched: they are null in these columns.
    ///
    /// Handles made before keep their columns: the batches that they append have no others, and
    /// their rows are null in the new ones. Snapshots keep the columns that they have. Takes as
    /// long as a flush.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{RecordBatch, TimestampSecondArray};
    /// use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    /// let arrow = Arc::new(Schema::new(vec![at]));
    /// let table = store.create_table("t", bedload::TableSchema::new(arrow.clone(), "at")?)?;
    /// table.append(&RecordBatch::try_new(
    ///     arrow,
    ///     vec![Arc::new(TimestampSecondArray::from(vec![1, 2]))],
    /// )?)?;
    /// let table = store.add_columns("t", [Field::new("state", DataType::Utf8, true)])?;
    /// let batch = table.range(..)?.next().expect("it has rows")?;
    /// assert_eq!((batch.num_columns(), batch.column(1).null_count()), (2, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such table, or it is sparse; a column requires values, has a type that a table
    /// cannot store or the name of another; the disk is full or fails.
    pub fn add_columns(&self, table: &str, columns: impl IntoIterator<Item = Field>) -> Result<Table> {
        let columns: Vec<FieldRef> = columns.into_iter().map(Arc::new).collect();
        Ok(Table {
            shared: self.shared.clone(),
            table: self.shared.engine.add_columns(table, &columns)?,
            snap: Snap::Refuse,
        })
    }

    /// Gives a column of a table another name, also if it is the time or one of the key, and
    /// returns the table with it. The rows are not touched.
    ///
    /// Handles made before keep the name that they have: so do the batches that they append and
    /// read. Snapshots keep it, too. Takes as long as a flush.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let arrow = Schema::new(vec![
    /// #     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
    /// #     Field::new("temp", DataType::Float64, true),
    /// # ]);
    /// # store.create_table("t", bedload::TableSchema::new(Arc::new(arrow), "at")?)?;
    /// let table = store.rename_column("t", "temp", "celsius")?;
    /// assert_eq!(table.schema().arrow().field(1).name(), "celsius");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such table or column; the new name is empty or `_sequence`, or is that of a
    /// column; the disk is full or fails.
    pub fn rename_column(&self, table: &str, column: &str, new: &str) -> Result<Table> {
        Ok(Table {
            shared: self.shared.clone(),
            table: self.shared.engine.rename_column(table, column, new)?,
            snap: Snap::Refuse,
        })
    }

    /// Drops a column of an indexed table, and returns the table without it. The rows are not
    /// touched, and the name can be given to another column.
    ///
    /// Handles made before keep the column: so do the batches that they append and read. Rows that
    /// are appended without it are null there, also if the column required values. Snapshots keep
    /// it, too. Takes as long as a flush.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let arrow = Schema::new(vec![
    /// #     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
    /// #     Field::new("debug", DataType::Utf8, false),
    /// #     Field::new("celsius", DataType::Float64, true),
    /// # ]);
    /// # store.create_table("t", bedload::TableSchema::new(Arc::new(arrow), "at")?)?;
    /// let table = store.drop_column("t", "debug")?;
    /// assert_eq!(table.schema().arrow().field(1).name(), "celsius");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such table or column; the table is sparse; the column is the time or one of the
    /// key; the disk is full or fails.
    pub fn drop_column(&self, table: &str, column: &str) -> Result<Table> {
        Ok(Table {
            shared: self.shared.clone(),
            table: self.shared.engine.drop_column(table, column)?,
            snap: Snap::Refuse,
        })
    }

    /// The present state of all tables, to be read as long as the value is held. Taking one copies
    /// nothing; pages that are replaced meanwhile keep their space on the disk until it is dropped.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.shared)
    }

    /// Moves all rows committed so far from memory and the log into pages. Nothing needs this for
    /// safety; it makes the next opening quick, and frees memory and log.
    ///
    /// # Errors
    ///
    /// The disk fails. Committed rows stay in the log.
    pub fn flush(&self) -> Result<()> {
        self.shared.engine.flush()
    }

    /// Moves a store that was opened with [`Options::read_only`] on to what its writer has
    /// committed since; returns whether there may be something new. Snapshots and scans stay as
    /// they are. A store that is open for writing is always at its newest state: nothing happens,
    /// and the answer is `false`.
    ///
    /// Reads a few kilobytes if there is nothing new, the new records of the log if there are any,
    /// and the page map and the log after it if the writer has made a checkpoint.
    ///
    /// # Errors
    ///
    /// The disk fails, or what the writer wrote is damaged; the store was removed or replaced. If
    /// what is new could not be synced, no later call shows anything new: open the store again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("readings");
    /// # let writer = bedload::Store::create(&path)?;
    /// let reader = bedload::Options::new().read_only(true).open(&path)?;
    /// assert!(!reader.refresh()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refresh(&self) -> Result<bool> {
        self.shared.engine.refresh()
    }

    /// Reads and checks every page, every tree and the log.
    ///
    /// # Errors
    ///
    /// The disk fails other than in reading. Damage, and what cannot be read, is no error here: it
    /// is listed in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.shared.engine.verify()
    }

    /// Copies everything committed so far into a new store in the directory `to`, and checks the
    /// copy: what was found in it is returned. Others may write meanwhile, in this process and, if
    /// the store is open [for reading](Options::read_only), in another. What they commit after the
    /// call need not be in the copy.
    ///
    /// The copy is a store like any other, and can be opened where it stands, on any file system.
    /// The pages of its data file stand side by side, but for those that were changed by rows of
    /// another process which were in the log alone. Files of sparse tables are as short as their
    /// blocks allow. Its directory has the permissions of the store's,
    /// and its owner may always write to it.
    ///
    /// # Errors
    ///
    /// `to` exists and is not empty; a page or block is damaged; the disk is full or fails. The
    /// unfinished copy is left and is no store: remove it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("readings"))?;
    /// let copy = dir.path().join("copy");
    /// store.backup(&copy)?;
    /// // Later, elsewhere:
    /// let checked = bedload::restore(&copy, dir.path().join("restored"))?;
    /// assert_eq!(checked.problems, []);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<VerifyReport> {
        self.shared.engine.backup(to.as_ref())
    }

    /// Sizes of the store and its tables.
    ///
    /// # Errors
    ///
    /// The disk fails, or a page is damaged.
    pub fn info(&self) -> Result<StoreInfo> {
        StoreInfo::of_engine(&self.shared.engine)
    }

    /// Returns counters since the store was opened, and the memory in use. Takes no lock for long.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.shared.engine.metrics()
    }

    /// Removes the store: every file of it, while it is locked. Its directory stays, and what else
    /// is in it. A handle that still holds a part of the store can read on from memory at best, and
    /// write nothing.
    ///
    /// # Errors
    ///
    /// Another store stands in its place; the disk fails. The remains may be no store any more; a
    /// store can be created there.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("readings");
    /// let store = bedload::Store::create(&path)?;
    /// store.remove()?;
    /// assert_eq!(std::fs::read_dir(&path)?.count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(self) -> Result<()> {
        self.shared.engine.remove()
    }

    /// Flushes, so that the next opening has no log to read, and lets go of this handle. Dropping
    /// the store instead is as safe: what was committed is durable then, and an error is logged. On
    /// a full disk rows stay in the log, durably, which is no failure: nothing is missing.
    ///
    /// # Errors
    ///
    /// As for [`flush`](Self::flush), but for a full disk.
    pub fn close(self) -> Result<()> {
        if self.shared.engine.is_to_read() {
            return Ok(());
        }
        match self.flush() {
            Err(error @ Error::NoSpace { .. }) => {
                tracing::warn!(%error, "rows stay in the log");
                self.shared.engine.sync()
            }
            done => done,
        }
    }
}

impl Options {
    /// Opens the store in the directory `path`.
    ///
    /// # Errors
    ///
    /// There is no store and none is to be created; there is one and a new one is to be created;
    /// another process or handle has it open; it was written by a newer release, or before the
    /// first one; it is damaged; the disk fails; `page_bytes` is not a power of two from 4 to
    /// 32 KiB.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Store> {
        if !u32::try_from(self.page_bytes).is_ok_and(page_bytes_admissible) {
            return Err(Error::InvalidOption {
                option: "page_bytes",
                value: self.page_bytes,
                requirement: "it must be a power of two from 4096 to 32768",
            });
        }
        let open = if self.read_only {
            Engine::open_to_read
        } else {
            Engine::open
        };
        let engine = open(Arc::new(OsDisk), path.as_ref(), self.clone())?;
        Ok(Store::new(engine))
    }
}

/// Everything that is damaged in a store, whether it can still be opened or not. If it can be
/// opened, [`Store::verify`] checks more: how the pages of a tree fit together.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("readings");
/// # bedload::Store::create(&path)?.close()?;
/// assert_eq!(bedload::inspect(&path)?, []);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// There is no store; another process writes to it, or it was written by a newer release.
pub fn inspect(path: impl AsRef<Path>) -> Result<Vec<Problem>> {
    engine::inspect(&(Arc::new(OsDisk) as Arc<dyn Disk>), path.as_ref())
}

/// Copies what is whole in a damaged store into a new one, and tells what it could not. The damaged
/// store is not changed.
///
/// Tables, rows and the order of arrival are kept. A row is taken if the page or the record of the
/// log that holds it is whole, whatever else is not. Where a page is lost and an older copy of it
/// is found, that is taken instead: rows that were deleted since it was written come back then. The
/// report names such pages. Where nothing tells which pages the last checkpoint has, rows that were
/// deleted or replaced may be back as well, and the report says so. Of the rows of a table with a
/// key that have the same key, the latest is kept.
///
/// Reads the data file up to three times; memory grows by some 50 bytes a page.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("readings");
/// # bedload::Store::create(&path)?.close()?;
/// let report = bedload::salvage(&path, dir.path().join("saved"))?;
/// for problem in &report.problems {
///     eprintln!("{problem}");
/// }
/// assert!(report.is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// `from` is no store, is being written to, or was written by a newer release; no catalogue in it
/// can be read, so that nothing is known of its tables; `to` exists and is not empty; the disk is
/// full or fails to write.
pub fn salvage(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<SalvageReport> {
    engine::salvage(Arc::new(OsDisk), from.as_ref(), to.as_ref())
}

/// Copies a backup, or any other store, into a new store in `to`, and checks the copy. What is
/// copied stays as it is, and may be on a read-only medium; another process may be writing to it.
///
/// # Errors
///
/// As for [`Store::backup`]; and `from` is no store, or was written by a newer release.
pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<VerifyReport> {
    engine::copy_store(&(Arc::new(OsDisk) as Arc<dyn Disk>), from.as_ref(), to.as_ref())
}
