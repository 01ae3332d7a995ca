//! The disk of the operating system. No other file of the project opens a data file.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "no crate has a safe call of sync_file_range")
)]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::{Disk, DiskFile, DiskLock};

#[derive(Debug)]
pub(crate) struct OsDisk;

/// The longest memory that is kept for durable writes of a file.
const KEPT_BYTES: usize = 1 << 20;

/// What the addresses, offsets and lengths of direct reads and writes are multiples of, on the disks of today.
const DIRECT_ALIGNMENT: usize = 4096;

impl OsDisk {
    /// Creates a file that is read and written past the system's cache. Offsets and lengths must be multiples of 4,096.
    pub(crate) fn create_direct(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(target_os = "linux")]
        options.custom_flags(libc::O_DIRECT);
        Ok(Box::new(DirectFile(OsFile::new(options.open(path)?))))
    }
}

/// A file whose bytes go through memory at addresses that the disk can work with.
#[derive(Debug)]
struct DirectFile(OsFile);

/// Runs `action` on aligned memory of this length.
fn with_aligned<T>(len: usize, action: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut memory = vec![0; len + DIRECT_ALIGNMENT];
    let from = memory.as_ptr().align_offset(DIRECT_ALIGNMENT);
    action(&mut memory[from..from + len])
}

impl DiskFile for DirectFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        with_aligned(buffer.len(), |aligned| {
            self.0.read_at(offset, aligned)?;
            buffer.copy_from_slice(aligned);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        with_aligned(bytes.len(), |aligned| {
            aligned.copy_from_slice(bytes);
            self.0.write_at(offset, aligned)
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.0.punch(offset, len)
    }

    fn disk_bytes(&self) -> io::Result<u64> {
        self.0.disk_bytes()
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

impl Disk for OsDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        Ok(Box::new(OsFile::new(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Box::new(OsFile::new(file)))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn DiskLock>> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The text only informs the next opener, and a full disk must not keep anybody from opening a store; the lock
        // itself is the kernel's and goes with the process.
        if let Err(error) = file.set_len(0).and_then(|()| file.write_all(holder.as_bytes())) {
            tracing::debug!(%error, "the lock file does not say who holds it");
        }
        Ok(Box::new(OsLock { _file: file }))
    }

    fn lock_holder(&self, path: &Path) -> String {
        fs::read(path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}

#[derive(Debug)]
struct OsFile {
    file: File,
    /// The same file once more, for what is to be durable at once.
    durable: OnceLock<Option<DurableFile>>,
}

impl OsFile {
    fn new(file: File) -> Self {
        Self {
            file,
            durable: OnceLock::new(),
        }
    }
}

impl OsFile {
    /// Writes so many bytes durably, past the system's cache; none where that cannot be done.
    fn write_past_cache(
        &self,
        offset: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Option<io::Result<()>> {
        let durable = self.durable.get_or_init(|| DurableFile::of(&self.file));
        match durable.as_ref()?.write(offset, len, fill) {
            // The disk wants larger blocks than those of today.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
            written => Some(written),
        }
    }
}

/// A file that is written past the system's cache, and has what was written when a write returns.
#[derive(Debug)]
struct DurableFile {
    file: File,
    /// Memory at an address that the disk can work with.
    memory: Mutex<Vec<u8>>,
}

impl DurableFile {
    /// None where the system or the file system does not have such files.
    #[cfg(target_os = "linux")]
    fn of(file: &File) -> Option<Self> {
        use std::os::fd::AsRawFd;
        // By its descriptor, as the file may have been renamed.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(libc::O_DIRECT | libc::O_DSYNC);
        let file = options.open(path).ok()?;
        Some(Self {
            file,
            memory: Mutex::default(),
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_file: &File) -> Option<Self> {
        None
    }

    /// Writes so many bytes, which `fill` puts where the disk takes them from.
    fn write(&self, offset: u64, len: usize, fill: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let mut memory = self.memory.lock();
        if memory.len() < len + DIRECT_ALIGNMENT {
            *memory = vec![0; len.next_power_of_two() + DIRECT_ALIGNMENT];
        }
        let from = memory.as_ptr().align_offset(DIRECT_ALIGNMENT);
        let aligned = &mut memory[from..from + len];
        fill(aligned);
        let written = self.file.write_all_at(aligned, offset);
        if memory.len() > KEPT_BYTES {
            *memory = Vec::new();
        }
        written
    }
}

impl DiskFile for OsFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn read_ahead(&self, offset: u64, len: u64) {
        let advice = rustix::fs::Advice::WillNeed;
        if let Err(error) = rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(len), advice) {
            tracing::debug!(%error, "the system does not read ahead");
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let fill = |aligned: &mut [u8]| aligned.copy_from_slice(bytes);
        if let Some(written) = self.write_past_cache(offset, bytes.len(), fill) {
            return written;
        }
        self.write_at(offset, bytes)?;
        self.sync()
    }

    fn prepare(&self, offset: u64, len: usize) -> io::Result<()> {
        // Past the system's cache, too: what a durable write finds there has to go to the disk before it.
        if let Some(written) = self.write_past_cache(offset, len, |aligned| aligned.fill(0)) {
            return written;
        }
        self.write_at(offset, &vec![0; len])
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            // Without the call, space cannot be promised ahead; the write itself will tell.
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<bool> {
        use rustix::fs::FallocateFlags;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, offset, len) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn disk_bytes(&self) -> io::Result<u64> {
        // The unit of the field is 512 bytes whatever the block size of the file system.
        Ok(self.file.metadata()?.blocks() * 512)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    #[cfg(target_os = "linux")]
    fn begin_sync(&self, offset: u64, len: u64) {
        use std::os::fd::AsRawFd;
        let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else {
            return;
        };
        // SAFETY: the call takes numbers alone, and the descriptor is open as long as `self` is. Its answer does not
        // matter: what could not be written is reported by the sync that follows.
        unsafe {
            libc::sync_file_range(self.file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE);
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The lock lives as long as its file is open.
#[derive(Debug)]
struct OsLock {
    _file: File,
}

impl DiskLock for OsLock {}
