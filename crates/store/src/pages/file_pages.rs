//! Pages in a file of their own, for trees of `bedload-trees` that are no tables.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bedload_pages::{PageId, PageRead, PageStore, Reserved};

use super::catalogue_pages::CatalogueText;
use super::checkpoint::{CheckpointError, CheckpointMeta};
use super::page::PageRef;
use super::page_file::PageFile;
use super::superblock::page_bytes_admissible;
use super::working::{Maintenance, WorkingBatch, WorkingGuard, WorkingPages, WorkingRun};
use crate::disk::{Disk, DiskFile, FileId, OsDisk};
use crate::error::{Error, Result};

/// A quarter of the cache is for changed pages, as in a [`Store`](crate::Store).
const DIRTY_SHARE: usize = 4;

/// How pages are kept in a file.
///
/// ```
/// use bedload::{FilePages, FilePagesOptions};
///
/// # let dir = tempfile::tempdir()?;
/// let options = FilePagesOptions::new().page_bytes(8192).cache_bytes(1 << 20);
/// let pages = FilePages::create(dir.path().join("pages"), options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePagesOptions {
    page_bytes: usize,
    cache_bytes: usize,
    direct: bool,
}

impl FilePagesOptions {
    /// Pages of 4 KiB, a cache of 16 MiB, and the system's cache behind it.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            page_bytes: 4096,
            cache_bytes: 16 << 20,
            direct: false,
        }
    }

    /// Bytes of a page: 4,096, 8,192, 16,384 or 32,768.
    #[must_use]
    pub const fn page_bytes(self, bytes: usize) -> Self {
        Self {
            page_bytes: bytes,
            ..self
        }
    }

    /// Bytes of memory for pages, at least 24 pages. A quarter of them is for pages that were
    /// changed and not yet written. The map from pages to places takes 12 bytes a page beside it.
    #[must_use]
    pub const fn cache_bytes(self, bytes: usize) -> Self {
        Self {
            cache_bytes: bytes,
            ..self
        }
    }

    /// Whether reads and writes go past the system's cache (`O_DIRECT`, on Linux). Not every file
    /// system has that.
    #[must_use]
    pub const fn direct(self, yes: bool) -> Self {
        Self { direct: yes, ..self }
    }
}

impl Default for FilePagesOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The transfers of pages between memory and their file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PageCounts {
    /// Calls that read, a page each.
    pub reads: u64,
    /// Calls that wrote, up to 64 pages side by side each.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// Pages in a file behind a small cache, as the trees of `bedload-trees` want them, and what they
/// cost counted.
///
/// Changed pages go to free places of the file; after [`sync`](Self::sync) they are on the disk.
/// The file is not a [`Store`](crate::Store) and has no log: it lives as long as its process needs
/// it.
///
/// ```
/// use bedload::{FilePages, FilePagesOptions};
/// use bedload_trees::bplus_tree::BPlusTreeOptions;
/// use bedload_memory::swa_buffer::{BufferOptions, PagedTree, SaTree};
///
/// # let dir = tempfile::tempdir()?;
/// let pages = FilePages::create(dir.path().join("pages"), FilePagesOptions::new())?;
/// let mut tree = SaTree::new(PagedTree::create(&pages, BPlusTreeOptions::new())?, BufferOptions::new(1000));
/// for key in 0..100_000 {
///     tree.insert(key ^ 7, key);
/// }
/// tree.drain();
/// pages.sync()?;
/// assert_eq!(tree.get(70), Some(65));
/// assert!(pages.counts().bytes_written < 2_000_000, "16 bytes an entry, and little else");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FilePages {
    pages: WorkingPages,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

impl FilePages {
    /// Creates a file for pages; it must not exist.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if pages cannot have that size; [`Error::Io`] if the disk fails, or
    /// if the file system does not have the direct access that was asked for.
    pub fn create(path: impl AsRef<Path>, options: FilePagesOptions) -> Result<Self> {
        let path = path.as_ref();
        if !u32::try_from(options.page_bytes).is_ok_and(page_bytes_admissible) {
            return Err(Error::InvalidOption {
                option: "page_bytes",
                value: options.page_bytes,
                requirement: "it must be a power of two from 4096 to 32768",
            });
        }
        let created = if options.direct {
            OsDisk.create_direct(path)
        } else {
            OsDisk.create(path)
        };
        let counts = Arc::new(Counts::default());
        let file = Counted {
            file: created.map_err(|source| Error::io(path, "create", source))?,
            counts: counts.clone(),
        };
        let cached = options.cache_bytes / options.page_bytes;
        let dirty = cached / DIRTY_SHARE;
        let file = PageFile::new(path.into(), Box::new(file), options.page_bytes, cached - dirty);
        Ok(Self {
            pages: WorkingPages::create(file, [0; 16], &nothing_else(), dirty)?,
            counts,
        })
    }

    /// Writes all pages that were changed, and waits until the disk has them. No batch, guard or
    /// writer may be alive.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn sync(&self) -> Result<()> {
        match self.pages.checkpoint([0; 16], &nothing_else()) {
            Ok(_) => Ok(()),
            Err(CheckpointError::Clean(error) | CheckpointError::Unknown(error)) => Err(error),
        }
    }

    /// Returns the transfers between memory and the file so far.
    #[must_use]
    pub fn counts(&self) -> PageCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        PageCounts {
            reads: read(&self.counts.reads),
            writes: read(&self.counts.writes),
            bytes_read: read(&self.counts.bytes_read),
            bytes_written: read(&self.counts.bytes_written),
        }
    }
}

/// A checkpoint has pages alone.
fn nothing_else() -> CheckpointMeta {
    CheckpointMeta {
        log_start: 0,
        next_sequence: 0,
        catalogue: CatalogueText::default(),
    }
}

/// A file whose reads and writes are counted.
#[derive(Debug)]
struct Counted {
    file: Box<dyn DiskFile>,
    counts: Arc<Counts>,
}

impl DiskFile for Counted {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.counts.reads.fetch_add(1, Ordering::Relaxed);
        self.counts
            .bytes_read
            .fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.file.read_at(offset, buffer)
    }

    fn read_ahead(&self, offset: u64, len: u64) {
        self.file.read_ahead(offset, len);
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        self.counts
            .bytes_written
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_at(offset, bytes)
    }

    fn allocate(&self, len: u64) -> std::io::Result<()> {
        self.file.allocate(len)
    }

    fn truncate(&self, len: u64) -> std::io::Result<()> {
        self.file.truncate(len)
    }

    fn len(&self) -> std::io::Result<u64> {
        self.file.len()
    }

    fn punch(&self, offset: u64, len: u64) -> std::io::Result<bool> {
        self.file.punch(offset, len)
    }

    fn identity(&self) -> std::io::Result<FileId> {
        self.file.identity()
    }

    fn disk_bytes(&self) -> std::io::Result<u64> {
        self.file.disk_bytes()
    }

    fn begin_sync(&self, offset: u64, len: u64) {
        self.file.begin_sync(offset, len);
    }

    fn sync(&self) -> std::io::Result<()> {
        self.file.sync()
    }
}

impl PageRead for FilePages {
    type Guard<'s> = WorkingGuard;

    fn payload_len(&self) -> usize {
        self.pages.payload_len()
    }

    fn read(&self, id: PageId) -> bedload_pages::Result<WorkingGuard> {
        self.pages.read(id)
    }

    fn read_ahead(&self, ids: &[PageId]) {
        self.pages.read_ahead(ids);
    }
}

impl PageStore for FilePages {
    type Batch<'s> = WorkingBatch<'s>;
    type Pin<'s> = PageRef;
    type RunWriter<'s> = WorkingRun<'s>;
    type Maintenance<'s> = Maintenance<'s>;

    fn batch(&self, ids: &[PageId]) -> bedload_pages::Result<WorkingBatch<'_>> {
        self.pages.batch(ids)
    }

    fn reserve(&self) -> bedload_pages::Result<Reserved> {
        self.pages.reserve()
    }

    fn release(&self, reserved: Reserved) {
        self.pages.release(reserved);
    }

    fn run_writer(&self) -> bedload_pages::Result<WorkingRun<'_>> {
        self.pages.run_writer()
    }

    fn pin(&self, id: PageId) -> bedload_pages::Result<PageRef> {
        self.pages.pin(id)
    }

    fn retire(&self, pages: &[PageId]) {
        self.pages.retire(pages);
    }

    fn reclaim(&self) -> bedload_pages::Result<usize> {
        self.pages.reclaim()
    }

    fn sweep(&self, reachable: &dyn Fn(PageId) -> bool) -> bedload_pages::Result<Vec<PageId>> {
        self.pages.sweep(reachable)
    }

    fn try_maintain(&self, node: PageId) -> Option<Maintenance<'_>> {
        self.pages.try_maintain(node)
    }
}
