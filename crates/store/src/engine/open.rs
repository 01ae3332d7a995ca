//! Creating a store, and opening one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::{Mutex, RwLock};

use super::catalogue::Catalogue;
use super::flusher::Wake;
use super::lock::{LOCK_FILE, lock};
use super::recovery::{Recovered, recover};
use super::view::{Generation, View};
use super::{CommitState, Engine};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pages::{CheckpointMeta, PageFile, WorkingPages};
use crate::rows::BatchMemory;
use crate::wal::{Log, Record};

/// The files of a store, within its directory.
pub(super) const DATA_FILE: &str = "data";
/// The data file of a store whose creation is not finished.
const BEGUN_FILE: &str = "data.begun";
pub(super) const LOG_DIR: &str = "log";

impl Engine {
    /// Opens the store in `dir`, creating it if it is not there and the options say so.
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<Self> {
        let found = entries(&*disk, dir)?;
        let missing = |reason: &str| Error::NotAStore {
            path: dir.into(),
            reason: reason.into(),
        };
        let has_data = |entries: &[PathBuf]| entries.contains(&dir.join(DATA_FILE));
        match &found {
            Some(entries) if has_data(entries) => {}
            _ if !options.create => return Err(missing("there is no data file in it")),
            // A creation that was cut short leaves a lock and an empty log behind, and is begun again.
            Some(entries) if entries.iter().any(|entry| !is_remnant(entry)) => {
                return Err(missing("the directory holds other files"));
            }
            Some(_) => {}
            None => create_dir(&*disk, dir)?,
        }
        let lock = lock(&*disk, dir)?;
        // Only under the lock is the answer final: others may have created the store meanwhile.
        if !entries(&*disk, dir)?.is_some_and(|entries| has_data(&entries)) {
            create_files(&*disk, dir, &options)?;
        }
        let Recovered {
            store_id,
            pages,
            blocks,
            catalogue,
            log_end,
            next_sequence,
        } = recover(&disk, dir, &options)?;
        let log = Log::begin(disk.clone(), dir.join(LOG_DIR), store_id, log_end)?;
        let active = Arc::new(Generation::new(log_end, next_sequence));
        let view = View::new(
            pages.published(),
            Arc::new(catalogue),
            blocks.clone(),
            BatchMemory::default(),
            active,
        );
        Ok(Self {
            disk,
            dir: dir.into(),
            options,
            store_id,
            log,
            pages,
            blocks,
            view: RwLock::new(Arc::new(view)),
            visible: AtomicU64::new(next_sequence),
            commit: Mutex::new(CommitState { next_sequence }),
            flush: Mutex::new(()),
            failed: Mutex::new(None),
            wake: Wake::new(),
            _lock: lock,
        })
    }
}

impl Drop for Engine {
    /// Leaves a last record behind those that are durable, which vouches for them: should one of them be damaged
    /// later, it is not taken for one that was being written. Space that was kept for blocks, and for the log, is given back.
    fn drop(&mut self) {
        if self.check_writable().is_ok() {
            // Of blocks that were held by snapshots as well.
            self.release_blocks();
            self.blocks.give_back();
            if let Err(error) = self.log.give_back() {
                tracing::debug!(%error, "spare segments of the log stay until the store is opened");
            }
        }
        if !self.view().active().is_empty() && self.check_writable().is_ok() {
            let vouched = self
                .log
                .append(&Record::no_op_body())
                .and_then(|end| self.log.write_to(end));
            if let Err(error) = vouched {
                tracing::debug!(%error, "the end of the log could not be marked");
            }
        }
    }
}

/// The entries of a directory; `None` if there is no such directory.
pub(super) fn entries(disk: &dyn Disk, dir: &Path) -> Result<Option<Vec<PathBuf>>> {
    match disk.list(dir) {
        Ok(entries) => Ok(Some(entries)),
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) if source.kind() == std::io::ErrorKind::NotADirectory => Err(Error::NotAStore {
            path: dir.into(),
            reason: "it is a file".into(),
        }),
        Err(source) => Err(Error::io(dir, "read", source)),
    }
}

pub(super) fn create_dir(disk: &dyn Disk, dir: &Path) -> Result<()> {
    match disk.create_dir(dir) {
        Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::io(dir, "create", source));
        }
        _ => {}
    }
    let parent = dir
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    disk.sync_dir(parent)
        .map_err(|source| Error::io(parent, "sync", source))
}

/// Creates the files of a store. The caller holds its lock.
fn create_files(disk: &dyn Disk, dir: &Path, options: &Options) -> Result<()> {
    let log_dir = dir.join(LOG_DIR);
    create_dir(disk, &log_dir)?;
    let store_id = draw_store_id(dir)?;
    Log::create(disk, &log_dir, store_id)?;
    let file = begin_data_file(disk, dir, options.page_bytes, 1)?;
    let meta = CheckpointMeta {
        log_start: 0,
        next_sequence: 0,
        catalogue: Catalogue::empty().encode(),
    };
    WorkingPages::create(file, store_id, &meta, 1)?;
    finish_data_file(disk, dir)
}

pub(super) fn draw_store_id(dir: &Path) -> Result<[u8; 16]> {
    let mut store_id = [0; 16];
    getrandom::fill(&mut store_id).map_err(|source| {
        let source = std::io::Error::other(source.to_string());
        Error::io(dir, "draw a random name for", source)
    })?;
    Ok(store_id)
}

/// Creates the data file of a new store under another name than its own: it gets that last, when it is whole, for
/// with it there is a store.
pub(super) fn begin_data_file(
    disk: &dyn Disk,
    dir: &Path,
    page_bytes: usize,
    cache_pages: usize,
) -> Result<PageFile> {
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
    Ok(PageFile::new(begun, file, page_bytes, cache_pages))
}

/// Makes the data file that was begun the store's, durably.
pub(super) fn finish_data_file(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let path = dir.join(DATA_FILE);
    disk.rename(&dir.join(BEGUN_FILE), &path)
        .map_err(|source| Error::io(&path, "rename a file to", source))?;
    disk.sync_dir(dir)
        .map_err(|source| Error::io(dir, "sync", source))
}

fn is_remnant(entry: &Path) -> bool {
    let name = entry.file_name().and_then(|name| name.to_str());
    matches!(name, Some(LOCK_FILE | LOG_DIR | BEGUN_FILE))
}
