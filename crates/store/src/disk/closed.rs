//! A file that is not open.

use std::io;

use super::{DiskFile, FileId};

/// Stands for a file that nothing is read from or written to any more, so that its space comes back
/// once it is removed. All calls fail.
#[derive(Debug)]
pub(crate) struct ClosedFile;

fn refused<T>() -> io::Result<T> {
    Err(io::Error::other("it is not open"))
}

impl DiskFile for ClosedFile {
    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<()> {
        refused()
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        refused()
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        refused()
    }

    fn truncate(&self, _len: u64) -> io::Result<()> {
        refused()
    }

    fn len(&self) -> io::Result<u64> {
        refused()
    }

    fn identity(&self) -> io::Result<FileId> {
        refused()
    }

    fn punch(&self, _offset: u64, _len: u64) -> io::Result<bool> {
        refused()
    }

    fn disk_bytes(&self) -> io::Result<u64> {
        refused()
    }

    fn sync(&self) -> io::Result<()> {
        refused()
    }
}
