//! A store that is open for reading, beside a process that may be writing to it.
//!
//! A reader has the pages of a checkpoint and, in one generation, what the log has after it. It
//! moves on when it is told to: along the log, or to a newer checkpoint, from which the log is read
//! again.
//!
//! Invariants:
//! 1. Nothing of the store's files is changed: every call goes through a [`ReadingDisk`], which
//!    refuses what writes. Only registrations go past it, to their own folder.
//! 2. Pages and blocks of a checkpoint are read only while it is held: by a registration
//!    ([`Readers`], rule 1), or by a shared lock on the data file that keeps every writer away. A
//!    version of the pages lets go when it is dropped, so a snapshot holds its checkpoint while the
//!    store moves on.
//! 3. The log is not held. A position that can no longer be read lies before a newer checkpoint:
//!    after an error there a reader looks at the superblock, and begins again if it has changed.
//! 4. Blocks that the log names count only if they were born at the checkpoint that is held, or
//!    before it: others may be gone at any time. They are seen with the next checkpoint, which is
//!    on the disk already.
//! 5. A record's rows become visible all at once, once all of the record is applied. View and
//!    `visible` are published together, under the view's lock.
//! 6. Everything shown is durable, whatever its writer waited for: the checkpoint, and the log read
//!    so far with the blocks that it names, are synced before they are published. After a sync
//!    that failed nothing more is published: the next one may succeed although what this one had to
//!    write is lost.
//! 7. The log skips the sequence numbers of a long batch that is being written to pages, and the
//!    batch comes with the next checkpoint. The view lists the last numbers skipped since the held
//!    checkpoint. Earlier skipped numbers belong to batches that failed, unless a newer checkpoint
//!    has them: so after skipped numbers, a reader looks at the superblock.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::counters::Counters;
use super::directory::{check_dirs, entries};
use super::due::FlushDue;
use super::following::{ATTEMPTS, Loaded, Opening, Reading, ReadingState, Target, hold, overtaken, retry};
use super::lock::StoreLock;
use super::names::{DATA_FILE, READERS_DIR};
use super::order::Order;
use super::pace::Pace;
use super::process::Process;
use super::reserve::Reserve;
use super::state::Engine;
use super::wake::Wake;
use crate::disk::{Disk, ReadingDisk};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pages::{PageFile, Readers};
use crate::rows::BatchMemory;
use crate::table::{Catalogue, View};

impl Engine {
    /// Opens the store in `dir` for reading alone.
    pub(crate) fn open_to_read(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<Self> {
        let path = dir.join(DATA_FILE);
        let readers = Readers::new(disk.clone(), dir.join(READERS_DIR));
        let whole_disk = disk.clone();
        let disk: Arc<dyn Disk> = Arc::new(ReadingDisk::new(disk));
        let missing = match entries(&*disk, dir)? {
            None => Some("it does not exist"),
            Some(entries) => (!entries.contains(&path)).then_some("there is no data file in it"),
        };
        if let Some(reason) = missing {
            return Err(Error::NotAStore {
                path: dir.into(),
                reason: reason.into(),
            });
        }
        check_dirs(&*disk, dir)?;
        let (readers, lock) = match Self::can_register(&readers, &*disk, &path)? {
            true => (Some(readers), StoreLock::default()),
            false => (None, share(&*disk, dir, &path)?),
        };
        let opening = Opening {
            disk: &disk,
            dir,
            path: &path,
            options: &options,
            readers: readers.as_ref(),
        };
        let (working, loaded, log) = opening.open().map_err(|error| error.of_opening(dir, DATA_FILE))?;
        let Loaded {
            catalogue,
            blocks,
            generation,
            state,
        } = loaded;
        let blocks = Arc::new(blocks);
        let next_sequence = state.next_sequence;
        let data_id = working
            .identity()
            .map_err(|source| Error::io(&path, "read", source))?;
        let view = View::new(
            working.published(),
            Arc::new(catalogue),
            blocks.clone(),
            BatchMemory::default(),
            Arc::new(generation),
        )
        .while_writing(state.left_out.clone());
        Ok(Self {
            log_opened: log.end(),
            counters: Counters::default(),
            reserve: Reserve::of_store(disk.clone(), dir),
            disk,
            dir: dir.into(),
            options: options.background(false),
            store_id: state.superblock.store_id,
            data_id,
            log,
            pages: working,
            blocks,
            order: Order::to_read(next_sequence, view),
            flush: Mutex::new(()),
            failed: OnceLock::new(),
            is_full: false,
            wake: Wake::new(),
            flush_due: FlushDue::default(),
            pace: Pace::default(),
            process: Process::current(),
            lock: Mutex::new(lock),
            reading: Some(Reading {
                disk: whole_disk,
                readers,
                state: Mutex::new(state),
            }),
        })
    }

    /// Whether readers can register; not where nothing can be created.
    fn can_register(readers: &Readers, disk: &dyn Disk, path: &Path) -> Result<bool> {
        let file = disk
            .open(path)
            .map_err(|source| Error::io(path, "open", source))?;
        let (superblock, _) = PageFile::read_superblock(path, &*file)?;
        match readers.register(superblock.checkpoint) {
            Ok(_) => Ok(true),
            Err(error) if is_refusal(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Moves a store that is open for reading on to what was committed since; whether there may be
    /// something new. A store that is open for writing is always there.
    pub(crate) fn refresh(&self) -> Result<bool> {
        let Some(reading) = &self.reading else {
            return Ok(false);
        };
        self.process.check(&self.dir)?;
        self.check_place()?;
        if let Some(cause) = self.failed.get() {
            let source = std::io::Error::other(format!("{cause}; open the store again"));
            return Err(Error::of_unknown(&self.dir, "show what is new in", source));
        }
        self.read_on(reading)
            .map_err(|error| self.fail_if_unsynced(error))
    }

    fn read_on(&self, reading: &Reading) -> Result<bool> {
        let mut state = reading.state.lock();
        let mut lasting = None;
        for _ in 0..ATTEMPTS {
            if self.pages.newest_superblock()?.checkpoint != state.superblock.checkpoint {
                let is_untold = state.is_untold;
                match self.move_on(reading, &mut state) {
                    Ok(is_new) => return Ok(is_new || is_untold),
                    Err(error) => retry(error, self.pages.newest_superblock(), &mut lasting)?,
                }
                continue;
            }
            let view = self.view();
            let ReadingState {
                superblock,
                follower,
                next_sequence,
                left_out,
                records,
                synced,
                is_untold,
            } = &mut *state;
            let target = Target {
                path: self.pages.path(),
                superblock,
                catalogue: &view.catalogue,
                blocks: &view.blocks,
                generation: view.active(),
            };
            let read = target.follow(follower, (next_sequence, left_out), records);
            if let Err(error) = &read
                && error.is_of_sync()
            {
                return read.map(|()| false);
            }
            // Whole records count, whatever comes after them.
            target.sync(follower, synced)?;
            let before = self.order.visible();
            // Compared with the view, not with `left_out` before this call: an earlier call may
            // have changed that and failed here.
            if left_out.is_empty() || left_out == view.being_written() {
                self.order.show(*next_sequence);
            } else {
                if self.pages.newest_superblock()?.checkpoint != superblock.checkpoint {
                    continue;
                }
                let view = View::clone(&view).while_writing(left_out.clone());
                self.order.move_on(view, *next_sequence);
            }
            *is_untold |= *next_sequence != before;
            match read {
                Ok(()) => return Ok(std::mem::take(is_untold)),
                Err(error) => retry(error, self.pages.newest_superblock(), &mut lasting)?,
            }
        }
        Err(overtaken(&self.dir))
    }

    /// Goes on to the newest checkpoint; whether there may be something new.
    fn move_on(&self, reading: &Reading, state: &mut ReadingState) -> Result<bool> {
        let (superblock, registration) = hold(reading.readers.as_ref(), &self.dir, || {
            self.pages.newest_superblock()
        })?;
        let opening = Opening {
            disk: &self.disk,
            dir: &self.dir,
            path: self.pages.path(),
            options: &self.options,
            readers: None,
        };
        let (version, text) = self.pages.move_to(&superblock, registration)?;
        let loaded = opening.load(&version, &text, superblock, || self.pages.newest_superblock())?;
        // A checkpoint alone changes nothing, unless rows have become too old.
        let of_tables = |catalogue: &Catalogue| -> Vec<_> {
            let tables = catalogue.iter().map(|table| &table.entry);
            tables
                .map(|table| {
                    (
                        table.id,
                        table.name.clone(),
                        table.schema.clone(),
                        table.retention,
                    )
                })
                .collect()
        };
        let (before, after) = (of_tables(&self.view().catalogue), of_tables(&loaded.catalogue));
        // A long batch that was being written may have ended, whose numbers are not the last.
        let is_new = loaded.state.next_sequence != self.order.visible()
            || !self.view().being_written().is_empty()
            || before != after
            || after.iter().any(|(.., retention)| retention.is_some());
        let memory = self.view().memory.clone();
        let blocks = Arc::new(loaded.blocks);
        let next = View::new(
            version,
            Arc::new(loaded.catalogue),
            blocks,
            memory,
            Arc::new(loaded.generation),
        )
        .while_writing(loaded.state.left_out.clone());
        *state = loaded.state;
        self.order.move_on(next, state.next_sequence);
        Ok(is_new)
    }

    /// Bytes of the log after the checkpoint, if the store is open for reading.
    pub(super) fn log_bytes_read(&self) -> Option<u64> {
        let state = self.reading.as_ref()?.state.lock();
        Some(
            state
                .follower
                .position()
                .saturating_sub(state.superblock.log_start),
        )
    }

    /// Returns the damage of the page map and the catalogue of the checkpoint, and how many records
    /// of the log follow it, all of which were checked when they were read; none if the store is
    /// open for writing.
    pub(super) fn check_reading(&self) -> Option<(Vec<Error>, u64)> {
        let state = self.reading.as_ref()?.state.lock();
        let damage = self.pages.check_fixtures_of(&state.superblock);
        Some((damage, state.records))
    }
}

/// Whether the error only says that nothing can be created.
fn is_refusal(error: &Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match error {
        Error::NoSpace { .. } => true,
        Error::Io { source, .. } => matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem),
        _ => false,
    }
}

/// Locks all writers out, as no registration says what is read.
fn share(disk: &dyn Disk, dir: &Path, data: &Path) -> Result<StoreLock> {
    StoreLock::shared(disk, dir, data).map_err(|error| match error {
        Error::Locked { path, holder } => Error::Locked {
            path,
            holder: format!(
                "{holder}, and a reader beside it has to create files in the store's folder `readers`"
            ),
        },
        error => error,
    })
}
