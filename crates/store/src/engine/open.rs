//! Opening a store, and what is left of it when it is closed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::counters::Counters;
use super::directory::{check_dirs, check_no_log, check_remnants, create_files, create_store_dir, entries};
use super::due::FlushDue;
use super::lock::lock;
use super::names::{DATA_FILE, LOG_DIR};
use super::order::Order;
use super::pace::Pace;
use super::process::Process;
use super::recovery::{Recovered, recover};
use super::remove::{remove_created, remove_empty};
use super::reserve::Reserve;
use super::state::Engine;
use super::wake::Wake;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::options::{Durability, Options};
use crate::rows::{BatchMemory, Generation};
use crate::table::View;
use crate::wal::{Log, Record};

impl Engine {
    /// Opens the store in `dir`, creating it if it is not there and the options say so. A creation
    /// that fails leaves nothing, as far as the disk lets it.
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<Self> {
        let found = entries(&*disk, dir)?;
        let missing = |reason: &str| Error::NotAStore {
            path: dir.into(),
            reason: reason.into(),
        };
        let exists = || Error::AlreadyExists { path: dir.into() };
        let has_data = |entries: &[PathBuf]| entries.contains(&dir.join(DATA_FILE));
        let creates = options.create || options.create_new;
        match &found {
            Some(entries) if has_data(entries) && options.create_new => return Err(exists()),
            Some(entries) if has_data(entries) => {}
            None if !creates => return Err(missing("it does not exist")),
            _ if !creates => return Err(missing("there is no data file in it")),
            // A creation that was cut short leaves a lock and an empty log behind, and is begun
            // again.
            Some(entries) => check_remnants(dir, entries)?,
            None => create_store_dir(&*disk, dir).inspect_err(|_| remove_empty(&*disk, dir))?,
        }
        let creates_dir = found.is_none();
        let locked = lock(&*disk, dir);
        let mut lock = locked.inspect_err(|_| {
            if creates_dir {
                remove_empty(&*disk, dir);
            }
        })?;
        // Only under the lock is the answer final: others may have created the store meanwhile.
        let is_there = entries(&*disk, dir)?.is_some_and(|entries| has_data(&entries));
        if is_there && options.create_new {
            return Err(exists());
        }
        if !is_there && !creates_dir {
            check_no_log(&*disk, dir)?;
        }
        let begun = if is_there {
            lock.add_data(&*disk, dir, &dir.join(DATA_FILE))
                .and_then(|()| check_dirs(&*disk, dir))
        } else {
            create_files(&*disk, dir, &options, &mut lock)
        };
        let reserve = Reserve::of_store(disk.clone(), dir);
        let begun = begun.and_then(|()| Begun::of_files(&disk, dir, &options, &reserve, is_there));
        // After these errors, what is there does not belong to this creation.
        let is_others = |error: &Error| {
            matches!(
                error,
                Error::Locked { .. } | Error::AlreadyExists { .. } | Error::Irregular { .. }
            )
        };
        if !is_there && begun.as_ref().is_err_and(|error| !is_others(error)) {
            remove_created(&*disk, dir);
            if creates_dir {
                remove_empty(&*disk, dir);
            }
        }
        let Begun {
            recovered,
            log,
            is_full,
        } = begun?;
        let Recovered {
            store_id,
            data_id,
            pages,
            blocks,
            catalogue,
            log_end,
            next_sequence,
            left,
        } = recovered;
        let active = Arc::new(left.unwrap_or_else(|| Generation::new(log_end, next_sequence)));
        let view = View::new(
            pages.published(),
            Arc::new(catalogue),
            blocks.clone(),
            BatchMemory::default(),
            active,
        );
        Ok(Self {
            log_opened: log.end(),
            counters: Counters::default(),
            disk,
            dir: dir.into(),
            options,
            store_id,
            data_id,
            log,
            pages,
            blocks,
            order: Order::new(next_sequence, view),
            flush: Mutex::new(()),
            failed: OnceLock::new(),
            is_full,
            reserve,
            wake: Wake::new(),
            flush_due: FlushDue::default(),
            pace: Pace::default(),
            process: Process::current(),
            lock: Mutex::new(lock),
            reading: None,
        })
    }
}

/// The files of a store, read and ready to be written to.
struct Begun {
    recovered: Recovered,
    log: Log,
    /// Whether nothing can be written, as the disk is full.
    is_full: bool,
}

impl Begun {
    /// Recovers what is in the files, and begins the log. On a full disk a store that was there
    /// before can still be read.
    fn of_files(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        options: &Options,
        reserve: &Reserve,
        is_there: bool,
    ) -> Result<Self> {
        let recovered =
            recover(disk, dir, options, reserve).map_err(|error| error.of_opening(dir, DATA_FILE))?;
        let (store_id, log_end, log_dir) = (recovered.store_id, recovered.log_end, dir.join(LOG_DIR));
        let is_relaxed = options.durability == Durability::Relaxed;
        let begin = || {
            let log = Log::begin(disk.clone(), log_dir.clone(), store_id, log_end)?;
            Ok(Some(if is_relaxed { log.relaxed() } else { log }))
        };
        let begun = match recovered.left {
            // Rows that could not be flushed stay in the log, and nothing can be written after
            // them.
            Some(_) => Ok(None),
            None => match begin() {
                Err(Error::NoSpace { .. }) if reserve.give_back() => begin(),
                begun => begun,
            },
        };
        let log = match begun {
            Err(Error::NoSpace { .. }) if is_there => None,
            begun => begun?,
        };
        let is_full = log.is_none();
        let log = match log {
            Some(log) => {
                // Everything before its end is in pages.
                if let Err(error) = log.remove_before(log_end) {
                    tracing::warn!(%error, "a part of the log that is no longer needed could not be removed");
                }
                reserve.set_aside()?;
                log
            }
            None => {
                tracing::warn!(path = %dir.display(), "the disk is full: the store can be read, and not written to");
                Log::of_full_disk(disk.clone(), log_dir, store_id, log_end)?
            }
        };
        Ok(Self {
            recovered,
            log,
            is_full,
        })
    }
}

impl Drop for Engine {
    /// Makes all commits durable, and leaves word that they are. Free page space, and space claimed
    /// ahead for blocks and for the log, goes back to the file system.
    fn drop(&mut self) {
        // Files of another store, or of another process, are left alone.
        if self.check_writable().is_err() || self.check_place().is_err() {
            return;
        }
        let end = self.log.end();
        if let Err(error) = self.log.sync_to(end) {
            tracing::error!(%error, "whether the newest commits are durable is unknown");
            return;
        }
        // Blocks that snapshots held are released as well.
        self.release_blocks();
        self.blocks.give_back();
        self.pages.give_back_surplus(true);
        if let Err(error) = self.log.give_back() {
            tracing::debug!(%error, "spare segments of the log stay until the store is opened");
        }
        if end > self.view().generations()[0].log_start {
            self.vouch_for_log(end);
        }
        if let Err(error) = self.log.trim() {
            tracing::debug!(%error, "the last segment of the log keeps its space until the store is opened");
        }
    }
}

impl Engine {
    /// Marks the log as durable up to `end`, so that records damaged or missing later are not taken
    /// for unfinished writes: a last record vouches for those before it, and the data file stores
    /// where they end. If either fails, it is logged, and nothing else is lost.
    fn vouch_for_log(&self, end: u64) {
        let marked = self
            .log
            .append(&Record::no_op_body())
            .and_then(|end| self.log.write_to(end));
        if let Err(error) = marked {
            tracing::debug!(%error, "the end of the log could not be marked");
        }
        if let Err(error) = self.pages.note_log_end(end) {
            tracing::debug!(%error, "the end of the log could not be noted in the data file");
        }
    }
}
