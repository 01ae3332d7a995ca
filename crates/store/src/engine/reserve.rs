//! Space that is set aside while there is some, for what must be possible on a full disk: taking
//! back what was written, deleting, dropping a table, and opening a store that has rows in its log.
//! Format: docs/format.md, "Directory".

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::names::RESERVE_FILE;
use crate::disk::Disk;
use crate::error::{Error, Result};

/// A commit, and a checkpoint of few pages: log, catalogue, the upper levels of the page map.
const RESERVE_BYTES: u64 = if cfg!(any(test, fuzzing)) {
    32 << 10
} else {
    1 << 20
};

/// The reserve of an open store.
#[derive(Debug)]
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Whether it is there.
    is_set: Mutex<bool>,
}

impl Reserve {
    /// The reserve of the store in `dir`, which may not exist.
    pub(super) fn of_store(disk: Arc<dyn Disk>, dir: &Path) -> Self {
        Self {
            disk,
            path: dir.join(RESERVE_FILE),
            is_set: Mutex::new(false),
        }
    }

    /// Sets space aside, if it is not yet. A disk that has none to spare is no failure.
    ///
    /// # Errors
    ///
    /// Something else stands in its place.
    pub(super) fn set_aside(&self) -> Result<()> {
        let mut is_set = self.is_set.lock();
        if *is_set {
            return Ok(());
        }
        let allocated = self.open_or_create().and_then(|file| {
            if file.len()? < RESERVE_BYTES || file.disk_bytes()? < RESERVE_BYTES {
                file.allocate(RESERVE_BYTES)?;
            }
            Ok(())
        });
        match allocated.map_err(|source| Error::io(&self.path, "set space aside in", source)) {
            Ok(()) => *is_set = true,
            Err(error @ Error::Irregular { .. }) => return Err(error),
            Err(error) => {
                tracing::debug!(%error, "there is no reserve for a full disk");
                // An incomplete reserve is of no use.
                if let Err(error) = self.remove() {
                    tracing::debug!(%error, "a part of the reserve stays");
                }
            }
        }
        Ok(())
    }

    fn open_or_create(&self) -> io::Result<Box<dyn crate::disk::DiskFile>> {
        match self.disk.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.disk.create(&self.path),
            opened => opened,
        }
    }

    /// Frees the space; returns whether there was any.
    pub(super) fn give_back(&self) -> bool {
        let mut is_set = self.is_set.lock();
        *is_set = false;
        match self.remove() {
            Ok(was_there) => was_there,
            Err(error) => {
                tracing::warn!(%error, "the disk is full, and the reserve cannot be given back");
                false
            }
        }
    }

    /// Removes it; whether it was there.
    pub(super) fn remove(&self) -> Result<bool> {
        match self.disk.remove(&self.path) {
            Ok(()) => Ok(true),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Error::io(&self.path, "remove", source)),
        }
    }
}
