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
//! 3. The log is not held. A position of it that cannot be read any more is one of before a newer
//!    checkpoint; whoever meets an error there looks at the superblock, and begins again if it has
//!    changed.
//! 4. Blocks that the log names count only if they were born at the checkpoint that is held, or
//!    before it: others may be gone at any time. They are seen with the next checkpoint, which is
//!    on the disk already.
//! 5. A record's rows become visible all at once, once all of the record is applied. View and
//!    `visible` are published together, under the view's lock.
//! 6. What is shown is durable, whatever its writer waited for: the checkpoint, and what was read
//!    of the log with the blocks that it names, are synced before they are published.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::applying::Applying;
use super::counters::Counters;
use super::directory::{check_dirs, entries};
use super::lock::StoreLock;
use super::names::{DATA_FILE, LOG_DIR, READERS_DIR};
use super::pace::Pace;
use super::process::Process;
use super::reserve::Reserve;
use super::state::{CommitState, Engine};
use super::wake::Wake;
use crate::disk::{Disk, ReadingDisk};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pages::{
    Cache, CatalogueText, PageFile, PageVersion, Readers, Registration, Superblock, WorkingPages,
};
use crate::rows::{BatchMemory, Generation};
use crate::table::{BlockFiles, Catalogue, View};
use crate::wal::{Follower, Log, Record};

/// How often a reader begins again as the writer has made a checkpoint meanwhile.
const ATTEMPTS: usize = 10_000;

/// So much of the memory for pages is for blocks of sparse tables.
const BLOCKS_SHARE: usize = 4;

/// How far a store that is open for reading was read.
#[derive(Debug)]
pub(super) struct Reading {
    /// None if a lock keeps writers away.
    readers: Option<Readers>,
    state: Mutex<ReadingState>,
}

#[derive(Debug)]
struct ReadingState {
    superblock: Superblock,
    follower: Follower,
    next_sequence: u64,
    /// Records of the log that were read since the checkpoint.
    records: u64,
    /// Up to where the log was synced (invariant 6).
    synced: u64,
}

/// A checkpoint, and what the log has after it.
struct Loaded {
    catalogue: Catalogue,
    blocks: BlockFiles,
    generation: Generation,
    state: ReadingState,
}

impl Engine {
    /// Opens the store in `dir` for reading alone.
    pub(crate) fn open_to_read(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<Self> {
        let path = dir.join(DATA_FILE);
        let readers = Readers::new(disk.clone(), dir.join(READERS_DIR));
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
            false => (None, StoreLock::shared(&*disk, dir, &path)?),
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
        let view = View::new(
            working.published(),
            Arc::new(catalogue),
            blocks.clone(),
            BatchMemory::default(),
            Arc::new(generation),
        );
        Ok(Self {
            log_opened: log.end(),
            counters: Counters::default(),
            reserve: Reserve::of_store(disk.clone(), dir),
            disk,
            dir: dir.into(),
            options: options.background(false),
            store_id: state.superblock.store_id,
            log,
            pages: working,
            blocks,
            view: RwLock::new(Arc::new(view)),
            visible: AtomicU64::new(next_sequence),
            commit: Mutex::new(CommitState { next_sequence }),
            flush: Mutex::new(()),
            record_memory: Mutex::default(),
            failed: Mutex::new(None),
            is_full: false,
            wake: Wake::new(),
            pace: Pace::default(),
            process: Process::current(),
            lock: Mutex::new(lock),
            reading: Some(Reading {
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
        let mut state = reading.state.lock();
        let mut lasting = None;
        for _ in 0..ATTEMPTS {
            if self.pages.newest_superblock()?.checkpoint != state.superblock.checkpoint {
                match self.move_on(reading, &mut state) {
                    Ok(is_new) => return Ok(is_new),
                    Err(error) => retry(error, self.pages.newest_superblock(), &mut lasting)?,
                }
                continue;
            }
            let view = self.view();
            let ReadingState {
                superblock,
                follower,
                next_sequence,
                records,
                synced,
            } = &mut *state;
            let target = Target {
                path: self.pages.path(),
                superblock,
                catalogue: &view.catalogue,
                blocks: &view.blocks,
                generation: view.active(),
            };
            let read = target.follow(follower, next_sequence, records);
            // Whole records count, whatever comes after them.
            target.sync(follower, synced)?;
            let before = self.visible.fetch_max(*next_sequence, Ordering::AcqRel);
            match read {
                Ok(()) => return Ok(*next_sequence != before),
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
                .map(|table| (table.id, table.name.clone(), table.retention))
                .collect()
        };
        let (before, after) = (of_tables(&self.view().catalogue), of_tables(&loaded.catalogue));
        let is_new = loaded.state.next_sequence != self.visible.load(Ordering::Acquire)
            || before != after
            || after.iter().any(|(_, _, retention)| retention.is_some());
        let memory = self.view().memory.clone();
        let blocks = Arc::new(loaded.blocks);
        let next = View::new(
            version,
            Arc::new(loaded.catalogue),
            blocks,
            memory,
            Arc::new(loaded.generation),
        );
        *state = loaded.state;
        let before = {
            let mut view = self.view.write();
            self.visible.fetch_max(state.next_sequence, Ordering::AcqRel);
            std::mem::replace(&mut *view, Arc::new(next))
        };
        // Without the lock: what it held is let go of.
        drop(before);
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

/// Whether something cannot be created, and nothing else is wrong.
fn is_refusal(error: &Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match error {
        Error::NoSpace { .. } => true,
        Error::Io { source, .. } => matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem),
        _ => false,
    }
}

/// An error, and the newest checkpoint after it.
type Lasting = (String, u64);

/// Keeps an error that may be gone the next time, as the writer recycled what was read; fails if
/// there is another reason, or if it is the same as before and no checkpoint was made between the
/// two (invariant 3).
fn retry(error: Error, newest: Result<Superblock>, lasting: &mut Option<Lasting>) -> Result<()> {
    use std::io::ErrorKind::{NotFound, UnexpectedEof};
    let may_pass = match &error {
        Error::Corrupt { .. } | Error::Index(_) => true,
        Error::Io { source, .. } => matches!(source.kind(), NotFound | UnexpectedEof),
        _ => false,
    };
    let Ok(newest) = newest else {
        return Err(error);
    };
    let found = Some((error.to_string(), newest.checkpoint));
    if !may_pass || *lasting == found {
        return Err(error);
    }
    *lasting = found;
    Ok(())
}

fn overtaken(dir: &Path) -> Error {
    let source = std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        "its writer makes checkpoints faster than they can be read",
    );
    Error::io(dir, "read", source)
}

/// Holds the newest checkpoint ([`Readers`], rule 1).
fn hold(
    readers: Option<&Readers>,
    dir: &Path,
    newest: impl Fn() -> Result<Superblock>,
) -> Result<(Superblock, Option<Registration>)> {
    for _ in 0..ATTEMPTS {
        let superblock = newest()?;
        let registration = readers
            .map(|readers| readers.register(superblock.checkpoint))
            .transpose()?;
        if newest()?.checkpoint == superblock.checkpoint {
            return Ok((superblock, registration));
        }
    }
    Err(overtaken(dir))
}

/// A store that is being opened for reading, or moved on.
struct Opening<'a> {
    disk: &'a Arc<dyn Disk>,
    dir: &'a Path,
    path: &'a Path,
    options: &'a Options,
    readers: Option<&'a Readers>,
}

impl Opening<'_> {
    fn open(&self) -> Result<(WorkingPages, Loaded, Log)> {
        let mut lasting: Option<Lasting> = None;
        for _ in 0..ATTEMPTS {
            match self.try_open() {
                Ok(opened) => return Ok(opened),
                Err(error) => retry(error, self.newest(), &mut lasting)?,
            }
        }
        Err(overtaken(self.dir))
    }

    /// The newest superblock, whichever file has the name of the data by now.
    fn newest(&self) -> Result<Superblock> {
        let file = self
            .disk
            .open(self.path)
            .map_err(|source| Error::io(self.path, "open", source))?;
        PageFile::read_superblock(self.path, &*file).map(|(superblock, _)| superblock)
    }

    fn try_open(&self) -> Result<(WorkingPages, Loaded, Log)> {
        let path = self.path;
        let file = self
            .disk
            .open(path)
            .map_err(|source| Error::io(path, "open", source))?;
        let newest = || PageFile::read_superblock(path, &*file).map(|(superblock, _)| superblock);
        let (superblock, registration) = hold(self.readers, self.dir, newest)?;
        let pages = self.options.cache_bytes / superblock.page_bytes as usize;
        let pages = pages - pages / BLOCKS_SHARE;
        let (working, text, damage) = WorkingPages::open(path.into(), file, &superblock, pages, 0)?;
        working.register(registration);
        if let Some(error) = damage {
            tracing::warn!(%error, "a copy of the catalogue is damaged");
        }
        let newest = || working.newest_superblock();
        let loaded = self.load(&working.published(), &text, superblock, newest)?;
        let log = Log::to_read(
            self.disk.clone(),
            self.dir.join(LOG_DIR),
            loaded.state.superblock.store_id,
            loaded.state.follower.position(),
        )?;
        Ok((working, loaded, log))
    }

    /// The tables of a checkpoint that is held, and what the log has after it.
    fn load(
        &self,
        version: &Arc<PageVersion>,
        text: &CatalogueText,
        superblock: Superblock,
        newest: impl Fn() -> Result<Superblock>,
    ) -> Result<Loaded> {
        use bedload_pages::PageRead;
        let mut catalogue = Catalogue::decode(self.path, text, version.payload_len())?;
        catalogue.load_files(&**version, self.path)?;
        let cache = Cache::new(self.options.cache_bytes / BLOCKS_SHARE, 0);
        let (store_id, checkpoint) = (superblock.store_id, superblock.checkpoint);
        let blocks = BlockFiles::new(self.disk.clone(), self.dir, store_id, Arc::new(cache), checkpoint);
        let generation = Generation::new(superblock.log_start, superblock.next_sequence);
        let log_dir = self.dir.join(LOG_DIR);
        let mut follower = Follower::new(self.disk.clone(), log_dir, store_id, superblock.log_start);
        let (mut next_sequence, mut records) = (superblock.next_sequence, 0);
        let target = Target {
            path: self.path,
            superblock: &superblock,
            catalogue: &catalogue,
            blocks: &blocks,
            generation: &generation,
        };
        loop {
            target.follow(&mut follower, &mut next_sequence, &mut records)?;
            if !follower.is_vouched_for()? {
                break;
            }
            // The record was whole before the one that vouches for it was written.
            let end = follower.position();
            target.follow(&mut follower, &mut next_sequence, &mut records)?;
            if follower.position() == end {
                if newest()?.checkpoint == checkpoint {
                    return Err(follower.lost());
                }
                break;
            }
        }
        version.sync()?;
        let mut synced = superblock.log_start;
        target.sync(&follower, &mut synced)?;
        Ok(Loaded {
            catalogue,
            blocks,
            generation,
            state: ReadingState {
                superblock,
                follower,
                next_sequence,
                records,
                synced,
            },
        })
    }
}

/// A checkpoint that is held, and the generation to which the log after it is applied.
struct Target<'a> {
    path: &'a Path,
    superblock: &'a Superblock,
    catalogue: &'a Catalogue,
    blocks: &'a BlockFiles,
    generation: &'a Generation,
}

impl Target<'_> {
    /// Makes what was read of the log durable, unless it was before.
    fn sync(&self, follower: &Follower, synced: &mut u64) -> Result<()> {
        let position = follower.position();
        if position > *synced {
            self.blocks.sync_read()?;
            follower.sync()?;
            *synced = position;
        }
        Ok(())
    }

    /// Applies what there is of the log.
    fn follow(&self, follower: &mut Follower, next_sequence: &mut u64, records: &mut u64) -> Result<()> {
        follower
            .read(|record, end| {
                if !self.may_take(&record)? {
                    return Ok(false);
                }
                let mut next = *next_sequence;
                let mut applying = Applying {
                    path: self.path,
                    catalogue: self.catalogue,
                    generation: self.generation,
                    next_sequence: &mut next,
                    log_start: self.superblock.log_start,
                };
                for part in record.into_parts() {
                    applying.take(part, end)?;
                }
                *next_sequence = next;
                *records += 1;
                Ok(true)
            })
            .map(drop)
    }

    /// Whether the blocks that a record names are held (rule 4) and whole.
    fn may_take(&self, record: &Record) -> Result<bool> {
        let Record::Blocks { table, blocks, .. } = record else {
            return Ok(true);
        };
        if blocks
            .iter()
            .any(|(_, block)| block.born > self.superblock.checkpoint)
        {
            return Ok(false);
        }
        match self.catalogue.get(*table) {
            Some(known) => known.has_whole_blocks(self.blocks, blocks),
            None => Ok(true),
        }
    }
}
