//! Files of the operating system: through its cache, and past it.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "no crate has a safe call of sync_file_range")
)]

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::id_of;
use crate::disk::{DiskFile, FileId};

/// The longest memory that is kept for durable writes of a file.
const KEPT_BYTES: usize = 1 << 20;

/// Addresses, offsets and lengths of direct reads and writes are multiples of this, on the disks of
/// today.
pub(crate) const DIRECT_ALIGNMENT: usize = 4096;

#[derive(Debug)]
pub(super) struct OsFile {
    file: File,
    /// The same file opened again, for writes that are durable on return.
    durable: OnceLock<Option<DurableFile>>,
    /// And once more, for what goes past the system's cache.
    direct: OnceLock<Option<File>>,
}

impl OsFile {
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            durable: OnceLock::new(),
            direct: OnceLock::new(),
        }
    }

    /// Writes something durably past the system's cache; none where that cannot be done.
    fn durably_past_cache(
        &self,
        write: impl FnOnce(&DurableFile) -> io::Result<()>,
    ) -> Option<io::Result<()>> {
        let durable = self.durable.get_or_init(|| DurableFile::of(&self.file));
        match write(durable.as_ref()?) {
            // The disk needs a larger alignment than today's disks.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
            written => Some(written),
        }
    }
}

impl DiskFile for OsFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    #[cfg(target_os = "linux")]
    fn read_ahead(&self, offset: u64, len: u64) {
        use std::num::NonZeroU64;
        let advice = rustix::fs::Advice::WillNeed;
        if let Err(error) = rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(len), advice) {
            tracing::debug!(%error, "the system does not read ahead");
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn write_past_cache(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let alignment = DIRECT_ALIGNMENT as u64;
        let is_aligned = bytes.as_ptr().align_offset(DIRECT_ALIGNMENT) == 0
            && offset.is_multiple_of(alignment)
            && (bytes.len() as u64).is_multiple_of(alignment);
        if is_aligned && let Some(direct) = self.direct.get_or_init(|| open_direct(&self.file, false)) {
            match direct.write_all_at(bytes, offset) {
                // The disk needs a larger alignment than today's disks.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                written => return written,
            }
        }
        self.write_at(offset, bytes)
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let written = self.durably_past_cache(|durable| durable.write(offset, bytes));
        if let Some(written) = written {
            return written;
        }
        self.write_at(offset, bytes)?;
        self.sync()
    }

    fn prepare(&self, offset: u64, len: usize) -> io::Result<()> {
        // Past the system's cache, too: a durable write would first have to flush what it finds
        // there.
        let zeros = |durable: &DurableFile| with_aligned(len, |zeros| durable.write(offset, zeros));
        let written = self.durably_past_cache(zeros);
        if let Some(written) = written {
            return written;
        }
        self.write_at(offset, &vec![0; len])
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match fallocate(&self.file, rustix::fs::FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            // Without the call, space cannot be reserved; a write reports a full disk.
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn punch(&self, _offset: u64, _len: u64) -> io::Result<bool> {
        Ok(false)
    }

    #[cfg(target_os = "linux")]
    fn punch(&self, offset: u64, len: u64) -> io::Result<bool> {
        use rustix::fs::FallocateFlags;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, offset, len) {
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

    fn identity(&self) -> io::Result<FileId> {
        Ok(id_of(&self.file.metadata()?))
    }

    #[cfg(target_os = "linux")]
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        use rustix::fs::{SeekFrom, seek};
        let len = self.len()?;
        // Reads and writes name their offsets, so the file's position does not matter.
        let begin = match seek(&self.file, SeekFrom::Data(offset)) {
            Ok(begin) => begin,
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            // Without the call all of it may be data.
            Err(_) => return Ok((offset < len).then_some(offset..len)),
        };
        let end = seek(&self.file, SeekFrom::Hole(begin)).unwrap_or(len);
        Ok(Some(begin..end.max(begin + 1)))
    }

    #[cfg(target_os = "linux")]
    fn begin_sync(&self, offset: u64, len: u64) {
        use std::os::fd::AsRawFd;
        let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else {
            return;
        };
        // SAFETY: the call takes only numbers, and the descriptor is open as long as `self` is. Its
        // result does not matter: the next sync reports what could not be written.
        unsafe {
            libc::sync_file_range(self.file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE);
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The same file, to be written past the system's cache, each write durable on return if so wished;
/// none where the system or the file system does not have such files.
#[cfg(target_os = "linux")]
fn open_direct(file: &File, is_durable: bool) -> Option<File> {
    use std::os::fd::AsRawFd;
    // By its descriptor, as the file may have been renamed.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let durable = if is_durable { libc::O_DSYNC } else { 0 };
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_DIRECT | durable);
    options.open(path).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_file: &File, _is_durable: bool) -> Option<File> {
    None
}

/// A file that is written past the system's cache, each write durable on return.
#[derive(Debug)]
struct DurableFile {
    file: File,
    /// Memory aligned for the disk.
    memory: Mutex<Vec<u8>>,
}

impl DurableFile {
    fn of(file: &File) -> Option<Self> {
        Some(Self {
            file: open_direct(file, true)?,
            memory: Mutex::default(),
        })
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.as_ptr().align_offset(DIRECT_ALIGNMENT) == 0 {
            return self.file.write_all_at(bytes, offset);
        }
        let mut memory = self.memory.lock();
        if memory.len() < bytes.len() + DIRECT_ALIGNMENT {
            *memory = vec![0; bytes.len().next_power_of_two() + DIRECT_ALIGNMENT];
        }
        let from = memory.as_ptr().align_offset(DIRECT_ALIGNMENT);
        let aligned = &mut memory[from..from + bytes.len()];
        aligned.copy_from_slice(bytes);
        let written = self.file.write_all_at(aligned, offset);
        if memory.len() > KEPT_BYTES {
            *memory = Vec::new();
        }
        written
    }
}

/// Takes or gives back space. A signal that has a handler may interrupt the system's call, which is
/// then made again.
fn fallocate(
    file: &File,
    flags: rustix::fs::FallocateFlags,
    offset: u64,
    len: u64,
) -> rustix::io::Result<()> {
    rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, offset, len))
}

/// A file whose bytes go through memory aligned for the disk.
#[cfg(feature = "file-pages")]
#[derive(Debug)]
pub(super) struct DirectFile(OsFile);

#[cfg(feature = "file-pages")]
impl DirectFile {
    pub(super) fn new(file: File) -> Self {
        Self(OsFile::new(file))
    }
}

/// Runs `action` on aligned memory of this length.
fn with_aligned<T>(len: usize, action: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut memory = vec![0; len + DIRECT_ALIGNMENT];
    let from = memory.as_ptr().align_offset(DIRECT_ALIGNMENT);
    action(&mut memory[from..from + len])
}

#[cfg(feature = "file-pages")]
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

    fn identity(&self) -> io::Result<FileId> {
        self.0.identity()
    }

    fn disk_bytes(&self) -> io::Result<u64> {
        self.0.disk_bytes()
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, OsDisk};

    #[test]
    fn bytes_past_the_cache_and_through_it_stand_side_by_side() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = OsDisk.create(&dir.path().join("file")).expect("creates");
        let memory = vec![7; 4 * DIRECT_ALIGNMENT];
        let from = memory.as_ptr().align_offset(DIRECT_ALIGNMENT);
        let aligned = &memory[from..from + 2 * DIRECT_ALIGNMENT];
        let at = |blocks: u64| blocks * DIRECT_ALIGNMENT as u64;
        file.write_at(0, &[1; 3 * DIRECT_ALIGNMENT]).expect("writes");
        file.write_past_cache(at(1), aligned).expect("writes");
        // Neither address, offset nor length is aligned.
        file.write_past_cache(at(4) + 1, &aligned[1..100])
            .expect("writes");
        file.write_durably(at(5), aligned).expect("writes");
        file.write_durably(at(7), &aligned[..DIRECT_ALIGNMENT])
            .expect("writes");
        file.write_durably(at(8), &memory[from + 1..from + 1 + DIRECT_ALIGNMENT])
            .expect("writes");
        file.prepare(at(9), DIRECT_ALIGNMENT).expect("writes");
        let len = usize::try_from(at(10)).expect("small");
        let mut found = vec![9; len];
        file.read_at(0, &mut found).expect("reads");
        let mut expected = vec![7; len];
        expected[..DIRECT_ALIGNMENT].fill(1);
        expected[3 * DIRECT_ALIGNMENT..5 * DIRECT_ALIGNMENT].fill(0);
        expected[4 * DIRECT_ALIGNMENT + 1..][..99].fill(7);
        expected[9 * DIRECT_ALIGNMENT..].fill(0);
        assert!(found == expected);
        assert_eq!(file.len().expect("reads"), at(10));
    }
}
