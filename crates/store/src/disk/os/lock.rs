//! Locks of the operating system.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::PathBuf;

use super::OsDisk;
use crate::disk::{Disk, DiskLock, FileId};

pub(super) fn lock_exclusively(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The lock lives as long as its file is open.
#[derive(Debug)]
pub(super) struct OsLock {
    _file: File,
}

impl OsLock {
    pub(super) fn of(file: File) -> Self {
        Self { _file: file }
    }
}

impl DiskLock for OsLock {}

/// As [`OsLock`], of a file that goes with the lock.
#[derive(Debug)]
pub(super) struct OsNamedLock {
    _file: File,
    path: PathBuf,
    id: FileId,
    /// The process that took the lock: one that inherits it through `fork` leaves the file.
    process: u32,
}

impl OsNamedLock {
    /// The lock on a file of this name and identity, which the present process holds.
    pub(super) fn of(file: File, path: PathBuf, id: FileId) -> Self {
        Self {
            _file: file,
            path,
            id,
            process: std::process::id(),
        }
    }
}

impl DiskLock for OsNamedLock {}

impl Drop for OsNamedLock {
    fn drop(&mut self) {
        let is_there = matches!(OsDisk.identity(&self.path), Ok(Some(id)) if id == self.id);
        if is_there && self.process == std::process::id() {
            // If it stays, the next process that finds it unlocked removes it.
            let _ = fs::remove_file(&self.path);
        }
    }
}
