//! How a store is opened.

use std::time::Duration;

/// When a commit returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Once its rows are on the disk: they survive the death of the process and loss of power.
    /// Commits that run at the same time share one sync.
    #[default]
    Always,
    /// As `Always`, but a sync begins no sooner than `every` after the one before it: fewer and
    /// larger syncs, later answers. A commit waits for at most `every` and two syncs.
    Group {
        /// The least time between two syncs.
        every: Duration,
    },
    /// Once its rows are with the operating system: they survive the death of the process. Loss of
    /// power may take the newest commits, never one without all that came after it: at most the
    /// last 8 MiB of log or the last second, whichever is less. Without the background thread, and
    /// while it flushes, it is the last 8 MiB until the next commit after a second. Once the store
    /// is closed or dropped, nothing is lost.
    Relaxed,
}

/// How to open a store; the defaults suit most.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("readings");
/// use bedload::Options;
///
/// let store = Options::new().create(true).cache_bytes(32 << 20).open(&path)?;
/// store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct Options {
    pub(crate) create: bool,
    pub(crate) create_new: bool,
    pub(crate) cache_bytes: usize,
    pub(crate) head_bytes: usize,
    pub(crate) page_bytes: usize,
    pub(crate) durability: Durability,
    pub(crate) background: bool,
    pub(crate) read_only: bool,
}

impl Options {
    /// The defaults, named at each option.
    pub fn new() -> Self {
        Self {
            create: false,
            create_new: false,
            cache_bytes: 64 << 20,
            head_bytes: 32 << 20,
            page_bytes: 16 << 10,
            durability: Durability::Always,
            background: true,
            read_only: false,
        }
    }

    /// Whether a store is created where there is none. Default: no, that is an error.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whether a store is created, which is an error ([`Error::AlreadyExists`]) if there is one by
    /// then, even one that another process creates at the same time. Default: no.
    ///
    /// [`Error::AlreadyExists`]: crate::Error::AlreadyExists
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("readings");
    /// use bedload::{Error, Options};
    ///
    /// let options = Options::new().create_new(true);
    /// options.open(&path)?.close()?;
    /// assert!(matches!(options.open(&path), Err(Error::AlreadyExists { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Bytes of memory for pages, changed ones included; at least 1 MiB. Default: 64 MiB.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes.max(1 << 20);
        self
    }

    /// Bytes of memory for rows that are in the log and not yet in pages; at least 64 KiB. A flush
    /// begins when a quarter of it is used, or half if many rows were late; writers wait once all
    /// of it is. Rows that are being
    /// flushed may take as much again. If a flush fails (a page is damaged, the disk is full), its
    /// rows stay in memory and readable; once all of the memory is full, writers get the error of
    /// the flush, until one succeeds. Default: 32 MiB.
    pub fn head_bytes(mut self, bytes: usize) -> Self {
        self.head_bytes = bytes.max(64 << 10);
        self
    }

    /// Bytes of a page of a store that is created: a power of two from 4 KiB to 32 KiB. A store
    /// that exists keeps its own. Default: 16 KiB.
    pub fn page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// When a commit returns. Default: [`Durability::Always`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether a thread of the store's own flushes rows to pages while others write. Default: yes.
    /// Without it a writer that finds the memory for rows full flushes first, and
    /// [`Store::flush`](crate::Store::flush) does so at will.
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Whether the store is opened for reading alone, beside a process that may be writing to it.
    /// Default: no.
    ///
    /// It is read as of this moment: the last checkpoint, and whole records of the log after it,
    /// which stay in memory. [`Store::refresh`](crate::Store::refresh) moves on to later commits. A
    /// commit is seen once its record is in the log file, which may be shortly before it returns to
    /// its writer. A commit that is seen is durable: the reader syncs what it reads of the log,
    /// even if the writer's commits do not wait for that ([`Durability::Relaxed`]). Every call that
    /// writes fails with [`Error::OpenForReading`](crate::Error::OpenForReading). The only other
    /// option that counts is `cache_bytes`.
    ///
    /// Pages that a reader looks at keep their space until the reader refreshes and drops its scans
    /// and snapshots, or ends. So that the writer knows, the reader keeps a file in the folder
    /// `readers` of the store. Where it cannot create one (the medium or the folder is read-only),
    /// the store is opened only if no writer has it, and keeps writers away.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("readings");
    /// # let writer = bedload::Store::create(&path)?;
    /// # let schema = || -> bedload::Result<_> { bedload::TableSchema::new(std::sync::Arc::new(
    /// #     arrow_schema::Schema::new(vec![arrow_schema::Field::new("at",
    /// #     arrow_schema::DataType::Timestamp(arrow_schema::TimeUnit::Second, None), false)])), "at") };
    /// let reader = bedload::Options::new().read_only(true).open(&path)?;
    /// writer.create_table("t", schema()?)?;
    /// assert!(reader.refresh()?);
    /// assert_eq!(reader.tables(), ["t"]);
    /// assert!(reader.drop_table("t").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}
