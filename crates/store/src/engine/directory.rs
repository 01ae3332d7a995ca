//! The directory of a store: the names in it, and how its files are created.

use std::path::{Path, PathBuf};

use super::catalogue::Catalogue;
use super::lock::LOCK_FILE;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pages::{CheckpointMeta, PageFile, WorkingPages};
use crate::wal::Log;

/// The files of a store, within its directory.
pub(super) const DATA_FILE: &str = "data";
/// The data file of a store whose creation is not finished.
const BEGUN_FILE: &str = "data.begun";
pub(super) const LOG_DIR: &str = "log";

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
pub(super) fn create_files(disk: &dyn Disk, dir: &Path, options: &Options) -> Result<()> {
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

/// Whether a creation that was cut short may have left it.
pub(super) fn is_remnant(entry: &Path) -> bool {
    let name = entry.file_name().and_then(|name| name.to_str());
    matches!(name, Some(LOCK_FILE | LOG_DIR | BEGUN_FILE))
}
