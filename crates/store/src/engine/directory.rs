//! The directory of a store: the names in it, and how its files are created.

use std::path::{Path, PathBuf};

use super::lock::{StoreLock, lock};
use super::names::{BEGUN_FILE, DATA_FILE, LOCK_FILE, LOG_DIR, READERS_DIR, RESERVE_FILE};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pages::{CheckpointMeta, PageFile, WorkingPages};
use crate::table::{Catalogue, SPARSE_DIR};
use crate::wal::Log;

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

/// Fails if a directory within a store is a link, or no directory. The code that needs a missing or
/// unreadable one reports it.
pub(super) fn check_dirs(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let check = |dir: &Path| match disk
        .check_dir(dir)
        .map_err(|source| Error::io(dir, "open", source))
    {
        Err(error @ Error::Irregular { .. }) => Err(error),
        _ => Ok(()),
    };
    let sparse = dir.join(SPARSE_DIR);
    check(&dir.join(LOG_DIR))?;
    check(&dir.join(READERS_DIR))?;
    check(&sparse)?;
    let is_table = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.parse::<u32>().is_ok())
    };
    let tables = disk.list(&sparse).unwrap_or_default();
    tables
        .iter()
        .filter(|path| is_table(path))
        .try_for_each(|dir| check(dir))
}

pub(super) fn create_dir(disk: &dyn Disk, dir: &Path) -> Result<()> {
    created(disk, dir, disk.create_dir(dir))
}

/// Fails if no store can be created in `dir`, as far as can be told without writing there.
pub(crate) fn check_creatable(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let Some(found) = entries(disk, dir)? else {
        let taken = disk
            .identity(dir)
            .map_err(|source| Error::io(dir, "read", source))?;
        if taken.is_some() {
            return Err(leads_nowhere(dir));
        }
        let listed = disk.list(parent_of(dir));
        return listed
            .map(drop)
            .map_err(|source| Error::io(dir, "create", source));
    };
    if found.contains(&dir.join(DATA_FILE)) {
        return Err(Error::AlreadyExists { path: dir.into() });
    }
    check_remnants(dir, &found)?;
    check_no_log(disk, dir)
}

/// Fails if a directory without a data file has other entries than a creation or removal that was
/// cut short leaves.
pub(super) fn check_remnants(dir: &Path, entries: &[PathBuf]) -> Result<()> {
    match entries.iter().all(|entry| is_remnant(entry)) {
        true => Ok(()),
        false => Err(Error::NotAStore {
            path: dir.into(),
            reason: "the directory holds other files".into(),
        }),
    }
}

/// Creates the directory of a store.
pub(super) fn create_store_dir(disk: &dyn Disk, dir: &Path) -> Result<()> {
    created_for_store(disk, dir, disk.create_dir(dir))
}

/// As [`created`], but fails if the name was taken by a link that leads nowhere.
fn created_for_store(disk: &dyn Disk, dir: &Path, result: std::io::Result<()>) -> Result<()> {
    let is_kind = |source: &std::io::Error| source.kind() == std::io::ErrorKind::AlreadyExists;
    let was_taken = result.as_ref().is_err_and(is_kind);
    if was_taken && entries(disk, dir)?.is_none() {
        return Err(leads_nowhere(dir));
    }
    created(disk, dir, result)
}

fn leads_nowhere(dir: &Path) -> Error {
    Error::NotAStore {
        path: dir.into(),
        reason: "it is a symbolic link that leads to nothing".into(),
    }
}

/// The directory that has a path's name.
fn parent_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Makes the name of a directory durable that was created, or was there already.
fn created(disk: &dyn Disk, dir: &Path, result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::io(dir, "create", source));
        }
        _ => {}
    }
    let parent = parent_of(dir);
    disk.sync_dir(parent)
        .map_err(|source| Error::io(parent, "sync", source))
}

/// Fails if there is anything in a directory that a copy of a store is to have for itself.
pub(super) fn check_vacant(disk: &dyn Disk, dir: &Path) -> Result<()> {
    match entries(disk, dir)? {
        Some(entries) if !entries.is_empty() => Err(Error::AlreadyExists { path: dir.into() }),
        _ => Ok(()),
    }
}

/// Creates and locks the directory for a copy of the store in `from`, with the same permissions.
pub(super) fn lock_vacant(disk: &dyn Disk, dir: &Path, from: &Path) -> Result<StoreLock> {
    created_for_store(disk, dir, disk.create_dir_like(dir, from))?;
    let held = lock(disk, dir)?;
    // Another copy may have been begun or finished there since the directory was found empty.
    let lock_file = dir.join(LOCK_FILE);
    let found = entries(disk, dir)?.unwrap_or_default();
    match found.iter().all(|entry| *entry == lock_file) {
        true => Ok(held),
        false => Err(Error::AlreadyExists { path: dir.into() }),
    }
}

/// Fails if a directory without a data file has the log of a store: once the data file is put back,
/// the rows of the log are to be there. A log beside a data file that has the name of one that was
/// begun was left by a removal.
pub(super) fn check_no_log(disk: &dyn Disk, dir: &Path) -> Result<()> {
    check_dirs(disk, dir)?;
    let found = entries(disk, dir)?.unwrap_or_default();
    let log_dir = dir.join(LOG_DIR);
    if !found.contains(&log_dir) || found.contains(&dir.join(BEGUN_FILE)) {
        return Ok(());
    }
    if Log::is_of_a_store(disk, &log_dir)? {
        return Err(Error::NotAStore {
            path: dir.into(),
            reason: format!(
                "the file `{DATA_FILE}` is missing, and the log may have rows; put it back, or remove `{LOG_DIR}` to \
                 give them up"
            ),
        });
    }
    Ok(())
}

/// Creates the files of a store. The caller holds its lock.
pub(super) fn create_files(
    disk: &dyn Disk,
    dir: &Path,
    options: &Options,
    lock: &mut StoreLock,
) -> Result<()> {
    let log_dir = dir.join(LOG_DIR);
    create_dir(disk, &log_dir)?;
    check_dirs(disk, dir)?;
    if Log::is_of_a_store(disk, &log_dir)? {
        remove_log(disk, dir, lock)?;
    }
    let store_id = draw_id(dir)?;
    Log::create(disk, &log_dir, store_id)?;
    let file = begin_data_file(disk, dir, (options.page_bytes, 1), lock)?;
    let meta = CheckpointMeta {
        log_start: 0,
        next_sequence: 0,
        catalogue: Catalogue::empty().encode(),
    };
    WorkingPages::create(file, store_id, &meta, 1)?;
    finish_data_file(disk, dir)
}

/// Removes the log that a removal has left beside the begun file, durably before that goes, too.
fn remove_log(disk: &dyn Disk, dir: &Path, lock: &mut StoreLock) -> Result<()> {
    let log_dir = dir.join(LOG_DIR);
    // Another process that is creating a store there has it locked.
    lock.add_data(disk, dir, &dir.join(BEGUN_FILE))?;
    Log::remove_all(disk, &log_dir)?;
    create_dir(disk, &log_dir)?;
    lock.release_data();
    Ok(())
}

/// A random name, for a store or a copy of one.
pub(super) fn draw_id(dir: &Path) -> Result<[u8; 16]> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|source| {
        let source = std::io::Error::other(source.to_string());
        Error::io(dir, "draw a random name for", source)
    })?;
    Ok(id)
}

/// Creates and locks the data file of a new store under a temporary name: it gets its own last,
/// when it is whole, as that name makes the directory a store.
pub(super) fn begin_data_file(
    disk: &dyn Disk,
    dir: &Path,
    (page_bytes, cache_pages): (usize, usize),
    lock: &mut StoreLock,
) -> Result<PageFile> {
    let begun = dir.join(BEGUN_FILE);
    let stands = |path: &Path| {
        let found = disk.identity(path);
        found.map_err(|source| Error::io(path, "read", source))
    };
    if stands(&begun)?.is_some() {
        // Another process that is creating a store there has it locked.
        lock.add_data(disk, dir, &begun)?;
        disk.remove(&begun)
            .map_err(|source| Error::io(&begun, "remove", source))?;
        lock.release_data();
    }
    let file = disk
        .create(&begun)
        .map_err(|source| Error::io(&begun, "create", source))?;
    lock.add_data(disk, dir, &begun)?;
    let file = PageFile::new(begun, file, page_bytes, cache_pages);
    // So that closing the store on a full disk needs no space.
    file.write_log_end(0)?;
    Ok(file)
}

/// Makes the data file that was begun the store's, durably.
pub(super) fn finish_data_file(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let path = dir.join(DATA_FILE);
    let found = disk
        .identity(&path)
        .map_err(|source| Error::io(&path, "read", source))?;
    if found.is_some() {
        return Err(Error::AlreadyExists { path });
    }
    disk.rename(&dir.join(BEGUN_FILE), &path)
        .map_err(|source| Error::io(&path, "rename a file to", source))?;
    disk.sync_dir(dir)
        .map_err(|source| Error::io(dir, "sync", source))
}

/// Whether an interrupted creation or removal may have left it.
fn is_remnant(entry: &Path) -> bool {
    let name = entry.file_name().and_then(|name| name.to_str());
    matches!(
        name,
        Some(LOCK_FILE | LOG_DIR | BEGUN_FILE | SPARSE_DIR | RESERVE_FILE | READERS_DIR)
    )
}
