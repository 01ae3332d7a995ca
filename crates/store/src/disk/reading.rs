//! A disk that refuses every write: the disk of a store that is open for reading.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, DiskDir, DiskFile, DiskLock, FileId};

/// Reads from another disk. Its files are opened for reading alone.
#[derive(Debug)]
pub(crate) struct ReadingDisk(Arc<dyn Disk>);

impl ReadingDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self(disk)
    }
}

/// Makes what was read from a file durable, as its writer may not have done so yet. Where the
/// system refuses that, as on a read-only medium, there is no writer.
pub(crate) fn sync_to_read(file: &dyn DiskFile) -> io::Result<()> {
    match file.sync() {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ReadOnlyFilesystem
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::ReadOnlyFilesystem,
        "it is open for reading",
    ))
}

impl Disk for ReadingDisk {
    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn create(&self, _path: &Path) -> io::Result<Box<dyn DiskFile>> {
        refused()
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.open_to_read(path)
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.open_to_read(path)
    }

    fn check_dir(&self, path: &Path) -> io::Result<()> {
        self.0.check_dir(path)
    }

    fn identity(&self, path: &Path) -> io::Result<Option<FileId>> {
        self.0.identity(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.list(path)
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn remove_dir(&self, _path: &Path) -> io::Result<bool> {
        refused()
    }

    fn open_dir(&self, _path: &Path) -> io::Result<Box<dyn DiskDir>> {
        refused()
    }

    fn lock(&self, _path: &Path, _holder: &str) -> io::Result<Box<dyn DiskLock>> {
        refused()
    }

    fn lock_file(&self, _path: &Path) -> io::Result<Box<dyn DiskLock>> {
        refused()
    }

    fn share_file(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.0.share_file(path)
    }

    fn create_locked(&self, _path: &Path) -> io::Result<Box<dyn DiskLock>> {
        refused()
    }

    fn is_locked(&self, _path: &Path) -> io::Result<bool> {
        refused()
    }

    fn lock_holder(&self, path: &Path) -> String {
        self.0.lock_holder(path)
    }
}
