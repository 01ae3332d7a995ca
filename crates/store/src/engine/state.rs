//! The open store: what its threads share, and when it takes no more writes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::counters::Counters;
use super::due::FlushDue;
use super::following::Reading;
use super::lock::StoreLock;
use super::order::Order;
use super::pace::Pace;
use super::process::Process;
use super::reserve::Reserve;
use super::wake::Wake;
use crate::disk::{Disk, FileId};
use crate::error::{Error, Result};
use crate::mark::StoreIdentity;
use crate::options::Options;
use crate::pages::WorkingPages;
use crate::table::{BlockFiles, View};
use crate::wal::Log;

/// An open store.
pub(crate) struct Engine {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) options: Options,
    pub(super) store_id: [u8; 16],
    /// The data file that was opened.
    pub(super) data_id: FileId,
    pub(super) log: Log,
    pub(super) pages: WorkingPages,
    pub(super) blocks: Arc<BlockFiles>,
    pub(super) order: Order<View>,
    pub(super) flush: Mutex<()>,
    /// Why the store takes no more writes.
    pub(super) failed: OnceLock<Arc<str>>,
    /// Whether the disk was too full to recover the log into pages: its rows are in memory, to be
    /// read.
    pub(super) is_full: bool,
    pub(super) reserve: Reserve,
    pub(super) wake: Wake,
    pub(super) flush_due: FlushDue,
    pub(super) pace: Pace,
    pub(super) counters: Counters,
    /// Where the log ended when the store was opened.
    pub(super) log_opened: u64,
    /// The process that opened the store, and alone may write to it.
    pub(super) process: Process,
    pub(super) lock: Mutex<StoreLock>,
    /// None if the store is open for writing.
    pub(super) reading: Option<Reading>,
}

impl fmt::Debug for Engine {
    /// The directory alone: all pages in memory would be megabytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Engine");
        shown.field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn identity(&self) -> StoreIdentity {
        StoreIdentity {
            name: self.store_id,
            copy: self.pages.copy_id(),
            data: Some(self.data_id),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The present view, and the first sequence number that is not visible in it.
    pub(crate) fn snapshot(&self) -> (Arc<View>, u64) {
        self.order.snapshot()
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.order.view()
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.pages.page_bytes()
    }

    /// Bytes of the data file in use, those that it takes on the disk, and bytes of log that
    /// recovery would read.
    pub(crate) fn sizes(&self) -> Result<(u64, u64, u64)> {
        let (used, all) = self.pages.file_bytes()?;
        let view = self.view();
        let log_start = view.generations()[0].log_start;
        let log = self
            .log_bytes_read()
            .unwrap_or_else(|| self.log.bytes_since(log_start));
        Ok((used, all, log))
    }

    /// Runs an operation that a full disk leaves without effect. If the disk was full, frees the
    /// space kept for later writes and, if there was any, runs it again.
    pub(super) fn with_space<T>(&self, mut operation: impl FnMut() -> Result<T>) -> Result<T> {
        match operation() {
            Err(full @ Error::NoSpace { .. }) if !self.is_full => {
                let had_blocks = self.blocks.give_back();
                match self.log.give_back() {
                    Ok(had_segments) if had_blocks || had_segments => operation(),
                    Ok(_) => Err(full),
                    Err(error) => {
                        tracing::warn!(%error, "the disk is full, and spare segments of the log cannot be removed");
                        Err(full)
                    }
                }
            }
            done => done,
        }
    }

    /// As [`with_space`](Self::with_space), for an operation that takes something back: for that
    /// there is a reserve.
    pub(super) fn with_reserve<T>(&self, mut operation: impl FnMut() -> Result<T>) -> Result<T> {
        match self.with_space(&mut operation) {
            Err(full @ Error::NoSpace { .. }) if !self.is_full => {
                if self.reserve.give_back() {
                    operation()
                } else {
                    Err(full)
                }
            }
            done => done,
        }
    }

    /// Whether the store is open for reading alone.
    pub(crate) fn is_to_read(&self) -> bool {
        self.reading.is_some()
    }

    /// Whether this process did not open the store but has it from the one that did.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process.is_inherited()
    }

    /// Leaves the store to the process that opened it: nothing is written, and nothing is waited
    /// for, as threads and locks may be those of the other. Its memory is never freed here.
    pub(crate) fn leave_inherited(self: &Arc<Self>) {
        // No other thread ever takes this lock.
        if let Some(mut lock) = self.lock.try_lock() {
            lock.release();
        }
        std::mem::forget(self.clone());
    }

    /// Fails unless the data file's name still leads to the file that was opened. Otherwise the
    /// store was removed or replaced: nothing there may be written or removed.
    pub(super) fn check_place(&self) -> Result<()> {
        let path = self.pages.path();
        let read = |source| Error::io(path, "read", source);
        if self.disk.identity(path).map_err(read)? == Some(self.pages.identity().map_err(read)?) {
            return Ok(());
        }
        Err(self.fail(Error::Replaced { path: path.into() }))
    }

    /// Fails in a process that inherited the store through `fork`: it does not learn which pages
    /// the opener writes over. Called first, and without a lock, as by
    /// [`check_writable`](Self::check_writable).
    pub(crate) fn check_process(&self) -> Result<()> {
        self.process.check(&self.dir)
    }

    /// Fails if the store takes no more writes, or not from this process. Called first by each
    /// operation that writes, and without a lock: another thread may have held that when this
    /// process was forked.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_process()?;
        if self.reading.is_some() {
            let path = self.dir.clone();
            return Err(Error::OpenForReading { path });
        }
        if self.is_full {
            let path = self.pages.path().to_owned();
            let action = "recover the log of, and therefore write to,";
            return Err(Error::NoSpace { path, action });
        }
        self.check_sound()
    }

    /// As [`fail`](Self::fail) if a sync failed.
    pub(super) fn fail_if_unsynced(&self, error: Error) -> Error {
        if error.is_of_sync() {
            self.fail(error)
        } else {
            error
        }
    }

    /// Fails if an earlier failure left unknown what reached the disk (rule 3).
    pub(super) fn check_sound(&self) -> Result<()> {
        match self.failed.get() {
            Some(cause) => Err(Error::ReadOnly { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// As [`fail`](Self::fail) if a write or a sync failed. A full disk, a failed read, a file that
    /// cannot be opened because too many are, damage and bad requests are definite answers: nothing
    /// was written that matters, and writing may go on.
    pub(super) fn fail_if_unknown(&self, error: Error) -> Error {
        let definite =
            matches!(error, Error::Io { action: "read", .. }) || error.is_for_want_of_descriptors();
        if matches!(error, Error::Io { .. } | Error::ReadOnly { .. }) && !definite {
            self.fail(error)
        } else {
            error
        }
    }

    /// Remembers a failure after which nothing may be written (rule 3), and returns it.
    pub(super) fn fail(&self, error: Error) -> Error {
        if self.failed.set(error.to_string().into()).is_ok() {
            match self.reading {
                Some(_) => tracing::error!(%error, "the reader shows nothing new any more"),
                None => tracing::error!(%error, "the store takes no more writes"),
            }
        }
        error
    }
}
