//! An open file of blocks, which remembers a sync that failed.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::DiskFile;
use crate::error::{Error, Result};

/// An open file.
#[derive(Debug)]
pub(super) struct BlockFile {
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn DiskFile>,
    /// Held during a sync; why one has failed. The system reports a failure to only one of the
    /// threads that sync at the same time.
    synced: Mutex<Option<Arc<str>>>,
}

impl BlockFile {
    pub(super) fn new(path: PathBuf, file: Box<dyn DiskFile>) -> Self {
        Self {
            path,
            file,
            synced: Mutex::default(),
        }
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_at(offset, bytes);
        written.map_err(|source| Error::io(&self.path, "write", source))
    }

    /// As [`write`](Self::write), past the system's cache where that can be.
    pub(super) fn write_past_cache(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_past_cache(offset, bytes);
        written.map_err(|source| Error::io(&self.path, "write", source))
    }

    pub(super) fn sync(&self) -> Result<()> {
        let mut synced = self.synced.lock();
        if let Some(cause) = &*synced {
            return Err(Error::ReadOnly { cause: cause.clone() });
        }
        self.file.sync().map_err(|source| {
            let error = Error::of_sync(&self.path, source);
            *synced = Some(error.to_string().into());
            error
        })
    }
}
