//! Removing a store, under its lock: what another process has put in its place meanwhile is left
//! alone.

use std::io;
use std::path::Path;

use super::names::{BEGUN_FILE, DATA_FILE, LOCK_FILE, LOG_DIR, READERS_DIR, RESERVE_FILE};
use super::state::Engine;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::pages::Readers;
use crate::wal::Log;

impl Engine {
    /// Removes every file of the store. Its directory stays, and so does whatever else is in it.
    pub(crate) fn remove(&self) -> Result<()> {
        self.process.check(&self.dir)?;
        if self.reading.is_some() {
            let path = self.dir.clone();
            return Err(Error::OpenForReading { path });
        }
        let _flushing = self.flush.lock();
        let _commit = self.order.hold();
        self.check_place()?;
        self.failed.get_or_init(|| "the store was removed".into());
        // Without its data file it is no store, whatever else a failure leaves: one can be created
        // there again.
        let (data, begun) = (self.dir.join(DATA_FILE), self.dir.join(BEGUN_FILE));
        self.disk
            .rename(&data, &begun)
            .map_err(|source| Error::io(&data, "rename", source))?;
        self.sync_dir()?;
        self.blocks.remove_all()?;
        self.reserve.remove()?;
        Readers::new(self.disk.clone(), self.dir.join(READERS_DIR)).remove_all();
        Log::remove_all(&*self.disk, &self.dir.join(LOG_DIR))?;
        for path in [begun, self.dir.join(LOCK_FILE)] {
            let removed = self.disk.remove(&path).or_else(ignore_missing);
            removed.map_err(|source| Error::io(&path, "remove", source))?;
        }
        self.sync_dir()
    }

    fn sync_dir(&self) -> Result<()> {
        let dir: &Path = &self.dir;
        self.disk
            .sync_dir(dir)
            .map_err(|source| Error::io(dir, "sync", source))
    }
}

/// Removes the files of a store whose creation has failed. The caller holds its lock. Files that
/// cannot be removed stay: they are no store, or an empty one, and a creation at the same place
/// begins again.
pub(super) fn remove_created(disk: &dyn Disk, dir: &Path) {
    let remove = |name: &str| {
        if let Err(error) = disk.remove(&dir.join(name)).or_else(ignore_missing) {
            tracing::debug!(%error, name, "a file of a store that could not be created stays");
        }
    };
    remove(DATA_FILE);
    remove(BEGUN_FILE);
    if let Err(error) = Log::remove_all(disk, &dir.join(LOG_DIR)) {
        tracing::debug!(%error, "the log of a store that could not be created stays");
    }
    remove(RESERVE_FILE);
    remove_empty(disk, &dir.join(READERS_DIR));
    remove(LOCK_FILE);
}

/// Removes a directory that was created for a store, if nothing is in it.
pub(super) fn remove_empty(disk: &dyn Disk, dir: &Path) {
    if let Err(error) = disk.remove_dir(dir) {
        tracing::debug!(%error, "the directory of a store that could not be created stays");
    }
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound {
        Ok(())
    } else {
        Err(error)
    }
}
