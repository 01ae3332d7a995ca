//! The only way to the disk. Everything above opens, reads, writes and syncs through [`Disk`], so
//! that a test can put a disk there that fails, tears and forgets.
//!
//! The store relies on nothing more than this: written bytes survive a crash only if
//! [`DiskFile::sync`] has returned since; a file's name, only after [`Disk::sync_dir`] of its
//! directory; an aligned sector of 512 bytes is written whole or not at all; after a failed sync
//! nothing is known about what was written since the last one.

mod around;
mod closed;
mod os;
mod reading;
#[cfg(any(test, fuzzing))]
#[cfg_attr(fuzzing, expect(dead_code, reason = "power and faults are for tests"))]
pub(crate) mod sim;

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub(crate) use around::{SECTOR_BYTES, read_around};
pub(crate) use closed::ClosedFile;
pub(crate) use os::{DIRECT_ALIGNMENT, OsDisk};
pub(crate) use reading::{ReadingDisk, sync_to_read};

/// The block size of [`DiskFile::write_durably`], which writes whole blocks; small under test,
/// where files are kept in memory by the thousand.
pub(crate) const BLOCK_BYTES: usize = if cfg!(any(test, fuzzing)) { 512 } else { 4096 };

/// The identity of a file, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Why something that stands where a file or directory of a store is expected is not opened. The
/// source of an [`io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Irregular {
    /// The kind of file: a noun with its article.
    pub(crate) found: &'static str,
}

impl std::fmt::Display for Irregular {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.found)
    }
}

impl std::error::Error for Irregular {}

impl From<Irregular> for io::Error {
    fn from(irregular: Irregular) -> Self {
        Self::new(io::ErrorKind::InvalidInput, irregular)
    }
}

/// A file system, as far as a store needs one. Nothing is reached through a link: a store may come
/// from anywhere, and must not lead its reader to files elsewhere.
pub(crate) trait Disk: Debug + Send + Sync {
    /// Creates a directory; its parent exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// As [`create_dir`](Self::create_dir), with the permissions of the directory `model`, and all
    /// for the owner.
    fn create_dir_like(&self, path: &Path, _model: &Path) -> io::Result<()> {
        self.create_dir(path)
    }
    /// Creates a file that does not exist yet.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading and writing. Fails with [`Irregular`] if it is a link, or no
    /// regular file.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// As [`open`](Self::open), for reading alone: the file need not be writable.
    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Fails unless a directory stands there, with [`Irregular`] if it is a link or something else.
    fn check_dir(&self, path: &Path) -> io::Result<()>;
    /// Which file has this name; none if there is none.
    fn identity(&self, path: &Path) -> io::Result<Option<FileId>>;
    /// The entries of a directory, in no particular order.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Renames a file; one that has the new name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory; `Ok(false)` if it is not empty.
    fn remove_dir(&self, path: &Path) -> io::Result<bool>;
    /// Opens a directory, whose names can then be made durable without a new descriptor.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskDir>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.open_dir(path)?.sync()
    }
    /// Takes the exclusive lock at `path`, creating the file if need be, until the value is
    /// dropped. `Err(WouldBlock)` if it is taken.
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn DiskLock>>;
    /// Takes the exclusive lock on an existing file, until the value is dropped. `Err(WouldBlock)`
    /// if it is taken.
    fn lock_file(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
    /// As [`lock_file`](Self::lock_file), shared: any number may hold it, but none exclusively. The
    /// file need not be writable.
    fn share_file(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
    /// Creates a file that does not exist yet and locks it until the value is dropped, which
    /// removes the file. A process that dies leaves the file, unlocked, and other users may look
    /// at it. `Err(AlreadyExists)` if the file exists, `Err(WouldBlock)` if another process took it
    /// for a leftover.
    fn create_locked(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
    /// Whether a file that [`create_locked`](Self::create_locked) made is still locked. An unlocked
    /// one is removed, if the directory permits.
    fn is_locked(&self, path: &Path) -> io::Result<bool>;
    /// Returns what the present holder of a lock wrote into it.
    fn lock_holder(&self, path: &Path) -> String;
}

/// An open directory.
pub(crate) trait DiskDir: Debug + Send + Sync {
    /// Makes the names in it durable.
    fn sync(&self) -> io::Result<()>;
}

/// An open file. Calls may come from several threads at once.
pub(crate) trait DiskFile: Debug + Send + Sync {
    /// Fills `buffer` from `offset` on; an `UnexpectedEof` if the file ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Announces a read of some bytes. Does nothing where the system cannot prefetch them.
    fn read_ahead(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reserves disk space for the first `len` bytes. New bytes read as zero.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Cuts the file off after `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Which file it is.
    fn identity(&self) -> io::Result<FileId>;
    /// The first stretch of bytes from `offset` on that may be other than zero; none if there is
    /// none. Everything before it reads as zero and need not be read. Files may be far longer than
    /// what is in them.
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let len = self.len()?;
        Ok((offset < len).then_some(offset..len))
    }
    /// Gives the space of some bytes back, which read as zero from then on; `Ok(false)` if the file
    /// system cannot, and nothing happened.
    fn punch(&self, offset: u64, len: u64) -> io::Result<bool>;
    /// Bytes that the file takes on the disk: less than its length if it has holes.
    fn disk_bytes(&self) -> io::Result<u64>;
    /// Starts writing some dirty bytes to the disk, so that the next [`sync`](Self::sync) waits for
    /// less. It promises nothing.
    fn begin_sync(&self, _offset: u64, _len: u64) {}
    /// As [`write_at`](Self::write_at), past the system's cache where address, offset and length
    /// are multiples of [`DIRECT_ALIGNMENT`] and the file system can: nothing is copied, and the
    /// call waits for the disk. It promises nothing more.
    fn write_past_cache(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_at(offset, bytes)
    }
    /// Writes bytes that are durable on return, and with them the length that the file was given.
    /// Other bytes that were written and not synced may be lost still. `offset` and the number of
    /// bytes are multiples of [`BLOCK_BYTES`].
    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_at(offset, bytes)?;
        self.sync()
    }
    /// Writes zeros where durable writes are to go soon, which take less time where something was
    /// written before. It promises nothing more than [`write_at`](Self::write_at) does. `offset`
    /// and `len` are multiples of [`BLOCK_BYTES`].
    fn prepare(&self, offset: u64, len: usize) -> io::Result<()> {
        self.write_at(offset, &vec![0; len])
    }
    /// Makes every byte written so far durable, and the length.
    fn sync(&self) -> io::Result<()>;
}

/// A held lock.
pub(crate) trait DiskLock: Debug + Send + Sync {}
