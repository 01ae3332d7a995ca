//! Creating a store, and opening one: the newest good superblock, and the log behind it replayed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::{Mutex, RwLock};

use super::catalogue::Catalogue;
use super::flush::drain_generation;
use super::flusher::Wake;
use super::view::{Generation, View};
use super::{CommitState, Engine};
use crate::disk::{Disk, DiskLock};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pages::{CheckpointError, CheckpointMeta, PageFile, WorkingPages};
use crate::wal::{Log, Record, cut, replay};

/// The files of a store, within its directory.
const DATA_FILE: &str = "data";
const LOCK_FILE: &str = "lock";
const LOG_DIR: &str = "log";

/// A quarter of the page memory holds changed pages, the rest pages that were read.
const DIRTY_SHARE: usize = 4;

impl Engine {
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<Self> {
        let data = dir.join(DATA_FILE);
        let entries = match disk.list(dir) {
            Ok(entries) => Some(entries),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => None,
            Err(source) if source.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(Error::NotAStore {
                    path: dir.into(),
                    reason: "it is a file".into(),
                });
            }
            Err(source) => return Err(Error::io(dir, "read", source)),
        };
        let missing = |reason: &str| Error::NotAStore {
            path: dir.into(),
            reason: reason.into(),
        };
        match entries {
            Some(entries) if entries.contains(&data) => Self::open_existing(disk, dir, options),
            _ if !options.create => Err(missing("there is no data file in it")),
            // A creation that was cut short leaves a lock and an empty log behind, and is begun again.
            Some(entries) if entries.iter().any(|entry| !is_remnant(entry)) => {
                Err(missing("the directory holds other files"))
            }
            entries => {
                if entries.is_none() {
                    disk.create_dir(dir)
                        .map_err(|source| Error::io(dir, "create", source))?;
                    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                        disk.sync_dir(parent)
                            .map_err(|source| Error::io(parent, "sync", source))?;
                    }
                }
                create_files(&*disk, dir, &options)?;
                Self::open_existing(disk, dir, options)
            }
        }
    }

    fn open_existing(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<Self> {
        let lock = lock(&*disk, dir)?;
        let path = dir.join(DATA_FILE);
        let log_dir = dir.join(LOG_DIR);
        let file = disk
            .open(&path)
            .map_err(|source| Error::io(&path, "open", source))?;
        let (superblock, damage) = PageFile::read_superblock(&path, &*file)?;
        let page_bytes = superblock.page_bytes as usize;
        let pages = options.cache_bytes / page_bytes;
        let dirty = pages / DIRTY_SHARE;
        let (working, catalogue) = WorkingPages::open(path.clone(), file, &superblock, pages - dirty, dirty)?;
        let mut recovery = Recovery {
            path: &path,
            store_id: superblock.store_id,
            catalogue: Catalogue::decode(&path, &catalogue)?,
            working,
            generation: Generation::new(superblock.log_start, superblock.next_sequence),
            next_sequence: superblock.next_sequence,
            head_bytes: options.head_bytes,
        };
        let end = replay(
            &*disk,
            &log_dir,
            superblock.store_id,
            superblock.log_start,
            |record, end| recovery.apply(record, end),
        )?;
        if end.torn {
            cut(&*disk, &log_dir, superblock.store_id, &end)?;
        }
        let log = Log::begin(disk, log_dir, superblock.store_id, end.position)?;
        tracing::debug!(records = end.records, torn = end.torn, "replayed the log");
        let Recovery {
            working,
            catalogue,
            generation,
            next_sequence,
            ..
        } = recovery;
        let view = View::new(working.published(), Arc::new(catalogue), Arc::new(generation));
        let engine = Self {
            dir: dir.into(),
            options,
            store_id: superblock.store_id,
            log,
            pages: working,
            view: RwLock::new(Arc::new(view)),
            visible: AtomicU64::new(next_sequence),
            commit: Mutex::new(CommitState { next_sequence }),
            flush: Mutex::new(()),
            failed: Mutex::new(None),
            wake: Wake::new(),
            _lock: lock,
        };
        if let Some(damage) = damage {
            engine.renew_superblock(&damage);
        }
        Ok(engine)
    }

    /// Writes over a superblock that is not whole. It is the one of a checkpoint that was cut short: had it been
    /// complete, the log that the other one needs would be gone, and the store not open.
    fn renew_superblock(&self, damage: &Error) {
        tracing::debug!(%damage, "a checkpoint was cut short");
        if let Err(error) = self.checkpoint() {
            // The other superblock is as good as ever.
            tracing::warn!(%error, "the superblock of a checkpoint that was cut short could not be renewed");
        }
    }
}

impl Drop for Engine {
    /// Leaves a last record behind those that are durable, which vouches for them: should one of them be damaged
    /// later, it is not taken for one that was being written.
    fn drop(&mut self) {
        if !self.view().active().is_empty() && self.check_writable().is_ok() {
            let vouched = self
                .log
                .append(&Record::mark_body())
                .and_then(|end| self.log.write_to(end));
            if let Err(error) = vouched {
                tracing::debug!(%error, "the end of the log could not be marked");
            }
        }
    }
}

/// Rebuilds what was in memory when the store was last closed, or died.
struct Recovery<'p> {
    path: &'p Path,
    store_id: [u8; 16],
    working: WorkingPages,
    catalogue: Catalogue,
    generation: Generation,
    next_sequence: u64,
    head_bytes: usize,
}

impl Recovery<'_> {
    fn apply(&mut self, record: Record, end: u64) -> Result<()> {
        let unknown =
            |reason: &str| Error::corrupt(self.path, format!("the log before position {end}"), reason);
        match record {
            Record::Append { table, block } => {
                let known = self
                    .catalogue
                    .get(table)
                    .ok_or_else(|| unknown("it names an unknown table"))?;
                if !block.fits(&known.schema) {
                    return Err(unknown("its rows do not have the columns of their table"));
                }
                if block.first_sequence < self.next_sequence {
                    return Err(unknown("its sequence numbers do not ascend"));
                }
                self.next_sequence = block.end_sequence();
                self.generation.append(table, Arc::new(block));
            }
            Record::Delete { table, deletion } => {
                if deletion.at < self.next_sequence {
                    return Err(unknown("its sequence numbers do not ascend"));
                }
                self.next_sequence = deletion.at + 1;
                self.generation.delete(table, deletion);
            }
            Record::Mark => {}
        }
        if self.generation.bytes() >= self.head_bytes {
            self.drain(end)
        } else {
            Ok(())
        }
    }

    /// Bounds the memory that a long log takes: what was replayed so far goes to pages.
    fn drain(&mut self, log_start: u64) -> Result<()> {
        drain_generation(&self.working, &mut self.catalogue, &self.generation)?;
        let meta = CheckpointMeta {
            log_start,
            next_sequence: self.next_sequence,
            catalogue: self.catalogue.encode(),
        };
        match self.working.checkpoint(self.store_id, &meta) {
            Ok(_) => {
                self.generation = Generation::new(log_start, self.next_sequence);
                Ok(())
            }
            Err(CheckpointError::Clean(error) | CheckpointError::Unknown(error)) => Err(error),
        }
    }
}

fn create_files(disk: &dyn Disk, dir: &Path, options: &Options) -> Result<()> {
    let _lock = lock(disk, dir)?;
    let log_dir = dir.join(LOG_DIR);
    match disk.create_dir(&log_dir) {
        Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::io(&log_dir, "create", source));
        }
        _ => {}
    }
    let mut store_id = [0; 16];
    getrandom::fill(&mut store_id).map_err(|source| {
        Error::io(
            dir,
            "draw a random name for",
            std::io::Error::other(source.to_string()),
        )
    })?;
    Log::create(disk, &log_dir, store_id)?;
    // The data file comes last, and under another name until it is whole: with it there is a store.
    let path = dir.join(DATA_FILE);
    let begun = dir.join(BEGUN_FILE);
    if disk
        .list(dir)
        .map_err(|source| Error::io(dir, "read", source))?
        .contains(&begun)
    {
        disk.remove(&begun)
            .map_err(|source| Error::io(&begun, "remove", source))?;
    }
    let file = disk
        .create(&begun)
        .map_err(|source| Error::io(&begun, "create", source))?;
    let file = PageFile::new(begun.clone(), file, options.page_bytes, 1);
    let meta = CheckpointMeta {
        log_start: 0,
        next_sequence: 0,
        catalogue: Catalogue::empty().encode(),
    };
    WorkingPages::create(file, store_id, &meta, 1)?;
    disk.rename(&begun, &path)
        .map_err(|source| Error::io(&path, "rename a file to", source))?;
    disk.sync_dir(dir)
        .map_err(|source| Error::io(dir, "sync", source))
}

/// The data file of a store whose creation is not finished.
const BEGUN_FILE: &str = "data.begun";

fn is_remnant(entry: &Path) -> bool {
    let name = entry.file_name().and_then(|name| name.to_str());
    matches!(name, Some(LOCK_FILE | LOG_DIR | BEGUN_FILE))
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskLock>> {
    let path = dir.join(LOCK_FILE);
    let holder = format!("process {}\n", std::process::id());
    disk.lock(&path, &holder).map_err(|source| {
        if source.kind() == std::io::ErrorKind::WouldBlock {
            let holder = disk.lock_holder(&path);
            let holder = if holder.is_empty() {
                "another process".into()
            } else {
                holder
            };
            Error::Locked {
                path: dir.into(),
                holder,
            }
        } else {
            Error::io(&path, "lock", source)
        }
    })
}
