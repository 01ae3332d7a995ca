//! Pages in heap memory.
//!
//! A store for trees that do not outlive their process, and the baseline for other stores: a latch
//! is one atomic operation and a commit copies nothing.
//!
//! # Invariants
//!
//! 1. A segment of slots never moves once it is set, so a page is found without a lock.
//! 2. A slot's frame is accessed only under its latch.
//! 3. A page is on at most one of the allocator's lists, and its state says which: `FREE` pages on
//!    `free`, `RETIRED` ones on `retired`, `RESERVED` and `LIVE` ones on neither.
//! 4. Readers couple latches (rule 2 of [`page_store`](super::page_store)), and a pin shares
//!    ownership of the page's bytes. So a retired page is unreachable, and reclaiming never waits.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::error::{Error, Result};
use super::page_id::PageId;
use super::page_store::{Batch, MAX_BATCH_PAGES, PageRead, PageStore, Reserved, RunWriter, VacuumStore};

/// Slots in the first segment; each further segment doubles.
const FIRST_SEGMENT_PAGES: u32 = 64;
/// Length in bytes of the longest page.
const LONG_PAYLOAD_MAX: usize = 16 << 20;
/// Enough doublings for every 32-bit page id.
const SEGMENTS: usize = 27;

const _: () = assert!(
    FIRST_SEGMENT_PAGES as u64 * ((1 << SEGMENTS) - 1) > u32::MAX as u64,
    "every page id lies in a segment"
);

const FREE: u8 = 0;
const RESERVED: u8 = 1;
const LIVE: u8 = 2;
const RETIRED: u8 = 3;

/// A page store in heap memory.
///
/// ```
/// use bedload_pages::{Batch, HeapPages, PageRead, PageStore};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = HeapPages::new(4096);
/// let fresh = pages.reserve()?;
/// pages.batch(&[fresh.id])?.commit(|payloads| payloads[0][0] = 7);
/// assert_eq!(pages.read(fresh.id)?[0], 7);
/// # Ok(())
/// # }
/// ```
pub struct HeapPages {
    payload_len: usize,
    segments: [OnceLock<Box<[HeapSlot]>>; SEGMENTS],
    allocator: Mutex<Allocator>,
    maintained: Mutex<HashSet<PageId>>,
}

/// An invalid request to a [`HeapPages`]: a page that does not exist, or a pin of a page that is
/// not part of a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapPagesError {
    /// No page with this number was ever reserved.
    #[error("page {0} does not exist")]
    NoSuchPage(PageId),
    /// The page was not written by a run writer, or has been changed since.
    #[error("page {0} is not part of a run and cannot be pinned")]
    NotInRun(PageId),
    /// All 2³² − 1 page ids are in use.
    #[error("the page store is full")]
    Full,
}

struct HeapSlot {
    latch: RwLock<HeapFrame>,
    state: AtomicU8,
}

/// The payload of a page.
pub(crate) enum HeapFrame {
    /// The page was never written.
    Absent,
    /// Written by batches.
    Owned(Box<[u8]>),
    /// Written by a run writer and shared by pins.
    Run(Arc<[u8]>),
}

impl HeapFrame {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Absent => None,
            Self::Owned(bytes) => Some(bytes),
            Self::Run(bytes) => Some(bytes),
        }
    }

    /// Returns the payload for writing. A run's page is copied first, so that its pins keep the old
    /// bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if let Self::Run(bytes) = self {
            *self = Self::Owned(bytes.as_ref().into());
        }
        match self {
            Self::Owned(bytes) => bytes,
            _ => &mut [],
        }
    }

    /// Lets `delete` change a run's page; its pins keep the old bytes.
    pub(crate) fn delete_in_run(&mut self, delete: &mut dyn FnMut(&mut [u8]) -> Result<bool>) -> Result<()> {
        if let Self::Run(bytes) = self {
            delete(Arc::make_mut(bytes))?;
        }
        Ok(())
    }

    #[cfg(feature = "contract")]
    pub(crate) fn is_pinned(&self) -> bool {
        matches!(self, Self::Run(bytes) if Arc::strong_count(bytes) > 1)
    }
}

struct Allocator {
    /// The smallest page id never handed out; `None` if all have been.
    next: Option<PageId>,
    free: Vec<PageId>,
    retired: Vec<PageId>,
    generation: u64,
}

impl HeapPages {
    /// Creates an empty store whose pages offer `payload_len` bytes.
    ///
    /// # Panics
    ///
    /// If `payload_len` is not a multiple of 8 from 256 up to 65,528.
    #[must_use]
    pub fn new(payload_len: usize) -> Self {
        assert!(
            payload_len.is_multiple_of(8) && (256..=65_528).contains(&payload_len),
            "a payload is a multiple of 8 from 256 up to 65,528 bytes, not {payload_len}"
        );
        Self {
            payload_len,
            segments: [const { OnceLock::new() }; SEGMENTS],
            allocator: Mutex::new(Allocator {
                next: PageId::new(1),
                free: Vec::new(),
                retired: Vec::new(),
                generation: 0,
            }),
            maintained: Mutex::new(HashSet::new()),
        }
    }

    /// Returns the number of pages in use: written, and neither retired nor free. O(pages).
    #[must_use]
    pub fn live_pages(&self) -> usize {
        self.ids().filter(|&id| self.is_in_state(id, LIVE)).count()
    }

    fn ids(&self) -> impl Iterator<Item = PageId> + use<> {
        let end = self.allocator.lock().next.map_or(u32::MAX, PageId::get);
        (1..end).filter_map(PageId::new)
    }

    fn is_in_state(&self, id: PageId, state: u8) -> bool {
        self.slot(id)
            .is_ok_and(|slot| slot.state.load(Ordering::Acquire) == state)
    }

    fn slot(&self, id: PageId) -> Result<&HeapSlot> {
        let index = id.get() - 1;
        let doubling = (index / FIRST_SEGMENT_PAGES + 1).ilog2();
        let first = FIRST_SEGMENT_PAGES * ((1 << doubling) - 1);
        self.segments[doubling as usize]
            .get()
            .and_then(|segment| segment.get((index - first) as usize))
            .ok_or_else(|| Error::store(HeapPagesError::NoSuchPage(id)))
    }

    /// Returns the latch of the page, for stores built on this one.
    pub(crate) fn latch(&self, id: PageId) -> Result<&RwLock<HeapFrame>> {
        self.slot(id).map(|slot| &slot.latch)
    }

    /// Returns a guard on the payload under a granted latch.
    pub(crate) fn guard<'s>(
        id: PageId,
        granted: RwLockReadGuard<'s, HeapFrame>,
    ) -> Result<MappedRwLockReadGuard<'s, [u8]>> {
        RwLockReadGuard::try_map(granted, HeapFrame::bytes)
            .map_err(|_| Error::store(HeapPagesError::NoSuchPage(id)))
    }

    /// Reserves the next page that was never used.
    pub(crate) fn reserve_unused(&self) -> Result<Reserved> {
        let mut allocator = self.allocator.lock();
        let id = allocator.next.ok_or_else(|| Error::store(HeapPagesError::Full))?;
        let index = id.get() - 1;
        let doubling = (index / FIRST_SEGMENT_PAGES + 1).ilog2();
        self.segments[doubling as usize].get_or_init(|| {
            (0..FIRST_SEGMENT_PAGES << doubling)
                .map(|_| HeapSlot {
                    latch: RwLock::new(HeapFrame::Absent),
                    state: AtomicU8::new(FREE),
                })
                .collect()
        });
        allocator.next = id.get().checked_add(1).and_then(PageId::new);
        let generation = allocator.next_generation();
        drop(allocator);
        let slot = self.slot(id)?;
        *slot.latch.write() = HeapFrame::Owned(vec![0; self.payload_len].into());
        slot.state.store(RESERVED, Ordering::Release);
        Ok(Reserved { id, generation })
    }

    /// Reserves a particular page, if it is retired.
    #[cfg(feature = "contract")]
    pub(crate) fn reserve_retired(&self, id: PageId) -> Option<Reserved> {
        let mut allocator = self.allocator.lock();
        let place = allocator.retired.iter().position(|&other| other == id)?;
        allocator.retired.swap_remove(place);
        self.slot(id).ok()?.state.store(RESERVED, Ordering::Release);
        Some(Reserved {
            id,
            generation: allocator.next_generation(),
        })
    }

    /// Returns the first pages after one, at most `limit`, that a run writer wrote and that are not
    /// free.
    pub(crate) fn pages_of_runs(&self, after: Option<PageId>, limit: usize) -> Vec<PageId> {
        self.ids()
            .filter(|&id| after.is_none_or(|after| after < id))
            .filter(|&id| self.is_in_state(id, LIVE) || self.is_in_state(id, RETIRED))
            .filter(|&id| {
                self.latch(id)
                    .is_ok_and(|latch| matches!(*latch.read(), HeapFrame::Run(_)))
            })
            .take(limit)
            .collect()
    }

    /// Returns the pages in use that are not `reachable`, ascending.
    pub(crate) fn unreachable(&self, reachable: &dyn Fn(PageId) -> bool) -> Vec<PageId> {
        self.ids()
            .filter(|&id| self.is_in_state(id, LIVE) && !reachable(id))
            .collect()
    }
}

impl Allocator {
    fn next_generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }
}

impl PageRead for HeapPages {
    type Guard<'s> = MappedRwLockReadGuard<'s, [u8]>;

    fn payload_len(&self) -> usize {
        self.payload_len
    }

    fn payload_max(&self) -> usize {
        LONG_PAYLOAD_MAX
    }

    fn read(&self, id: PageId) -> Result<Self::Guard<'_>> {
        Self::guard(id, self.slot(id)?.latch.read())
    }
}

impl PageStore for HeapPages {
    type Batch<'s> = HeapBatch<'s>;
    type Pin<'s> = Arc<[u8]>;
    type RunWriter<'s> = HeapRunWriter<'s>;
    type Maintenance<'s> = HeapMaintenance<'s>;

    fn batch(&self, ids: &[PageId]) -> Result<Self::Batch<'_>> {
        let mut batch = HeapBatch::new(self);
        for &id in ids {
            batch.add(id)?;
        }
        Ok(batch)
    }

    fn reserve(&self) -> Result<Reserved> {
        let mut allocator = self.allocator.lock();
        if allocator.free.is_empty() {
            allocator.reclaim(self);
        }
        let Some(id) = allocator.free.pop() else {
            drop(allocator);
            return self.reserve_unused();
        };
        self.slot(id)?.state.store(RESERVED, Ordering::Release);
        Ok(Reserved {
            id,
            generation: allocator.next_generation(),
        })
    }

    fn release(&self, reserved: Reserved) {
        if let Ok(slot) = self.slot(reserved.id) {
            slot.state.store(FREE, Ordering::Release);
            self.allocator.lock().free.push(reserved.id);
        }
    }

    fn run_writer(&self) -> Result<Self::RunWriter<'_>> {
        Ok(HeapRunWriter { store: self })
    }

    fn pin(&self, id: PageId) -> Result<Self::Pin<'_>> {
        match &*self.slot(id)?.latch.read() {
            HeapFrame::Run(bytes) => Ok(Arc::clone(bytes)),
            HeapFrame::Owned(_) => Err(Error::store(HeapPagesError::NotInRun(id))),
            HeapFrame::Absent => Err(Error::store(HeapPagesError::NoSuchPage(id))),
        }
    }

    fn retire(&self, pages: &[PageId]) {
        let mut allocator = self.allocator.lock();
        for &id in pages {
            if let Ok(slot) = self.slot(id) {
                slot.state.store(RETIRED, Ordering::Release);
                allocator.retired.push(id);
            }
        }
    }

    fn reclaim(&self) -> Result<usize> {
        Ok(self.allocator.lock().reclaim(self))
    }

    fn sweep(&self, reachable: &dyn Fn(PageId) -> bool) -> Result<Vec<PageId>> {
        let leaked = self.unreachable(reachable);
        self.retire(&leaked);
        Ok(leaked)
    }

    fn try_maintain(&self, node: PageId) -> Option<Self::Maintenance<'_>> {
        let is_free = self.maintained.lock().insert(node);
        is_free.then(|| HeapMaintenance { store: self, node })
    }
}

impl VacuumStore for HeapPages {
    fn delete_in_run(&self, page: PageId, delete: &mut dyn FnMut(&mut [u8]) -> Result<bool>) -> Result<()> {
        self.slot(page)?.latch.write().delete_in_run(delete)
    }

    fn run_pages(&self, after: Option<PageId>, limit: usize) -> Result<Vec<PageId>> {
        Ok(self.pages_of_runs(after, limit))
    }
}

impl Allocator {
    fn reclaim(&mut self, pages: &HeapPages) -> usize {
        for &id in &self.retired {
            if let Ok(slot) = pages.slot(id) {
                slot.state.store(FREE, Ordering::Release);
            }
        }
        let reclaimed = self.retired.len();
        self.free.append(&mut self.retired);
        reclaimed
    }
}

/// A batch of a [`HeapPages`].
pub struct HeapBatch<'s> {
    store: &'s HeapPages,
    /// Kept outside the list: most batches have one page, and need no allocation.
    first: Option<Latched<'s>>,
    others: Vec<Latched<'s>>,
}

struct Latched<'s> {
    id: PageId,
    slot: &'s HeapSlot,
    frame: RwLockWriteGuard<'s, HeapFrame>,
}

impl Latched<'_> {
    /// Returns the payload for a commit to write.
    fn payload(&mut self, payload_len: usize) -> &mut [u8] {
        if self.slot.state.load(Ordering::Relaxed) == RESERVED {
            self.slot.state.store(LIVE, Ordering::Release);
        }
        // The page may have been long in an earlier life.
        if self.frame.bytes().is_some_and(|bytes| bytes.len() != payload_len) {
            *self.frame = HeapFrame::Owned(vec![0; payload_len].into());
        }
        self.frame.bytes_mut()
    }
}

impl<'s> HeapBatch<'s> {
    pub(crate) fn new(store: &'s HeapPages) -> Self {
        Self {
            store,
            first: None,
            others: Vec::new(),
        }
    }

    /// Adds a page, latched by `latch`.
    pub(crate) fn add_with(
        &mut self,
        id: PageId,
        latch: impl FnOnce(&'s RwLock<HeapFrame>) -> RwLockWriteGuard<'s, HeapFrame>,
    ) -> Result<()> {
        let mut pages = self.first.iter().chain(&self.others);
        assert!(pages.all(|page| page.id != id), "a batch latches a page once");
        assert!(
            self.first.is_none() || self.others.len() + 1 < MAX_BATCH_PAGES,
            "a batch latches at most {MAX_BATCH_PAGES} pages"
        );
        let slot = self.store.slot(id)?;
        let frame = latch(&slot.latch);
        if frame.bytes().is_none() {
            return Err(Error::store(HeapPagesError::NoSuchPage(id)));
        }
        let page = Latched { id, slot, frame };
        if self.first.is_none() {
            self.first = Some(page);
        } else {
            self.others.push(page);
        }
        Ok(())
    }
}

impl Batch for HeapBatch<'_> {
    fn page(&self, index: usize) -> &[u8] {
        let page = match index.checked_sub(1) {
            None => self.first.as_ref(),
            Some(index) => self.others.get(index),
        };
        page.and_then(|page| page.frame.bytes())
            .expect("the batch has such a page")
    }

    fn add(&mut self, id: PageId) -> Result<()> {
        self.add_with(id, RwLock::write)
    }

    fn commit(mut self, apply: impl FnOnce(&mut [&mut [u8]])) {
        let payload_len = self.store.payload_len;
        let Some(first) = &mut self.first else {
            return apply(&mut []);
        };
        if self.others.is_empty() {
            return apply(&mut [first.payload(payload_len)]);
        }
        let mut payloads: [&mut [u8]; MAX_BATCH_PAGES] = Default::default();
        let len = 1 + self.others.len();
        let pages = std::iter::once(first).chain(&mut self.others);
        for (payload, page) in payloads.iter_mut().zip(pages) {
            *payload = page.payload(payload_len);
        }
        apply(&mut payloads[..len]);
    }
}

/// The run writer of a [`HeapPages`].
pub struct HeapRunWriter<'s> {
    store: &'s HeapPages,
}

impl RunWriter for HeapRunWriter<'_> {
    fn reserve(&mut self) -> Result<Reserved> {
        self.store.reserve()
    }

    fn write(&mut self, page: Reserved, payload: &[u8]) -> Result<()> {
        assert!(
            payload.len() <= LONG_PAYLOAD_MAX,
            "a payload of {} bytes does not fit in a page",
            payload.len()
        );
        let mut padded = payload.to_vec();
        padded.resize(payload.len().max(self.store.payload_len), 0);
        let slot = self.store.slot(page.id)?;
        *slot.latch.write() = HeapFrame::Run(padded.into());
        slot.state.store(LIVE, Ordering::Release);
        Ok(())
    }

    fn finish(self) -> Result<()> {
        Ok(())
    }
}

/// The right to maintain a node of a [`HeapPages`].
pub struct HeapMaintenance<'s> {
    store: &'s HeapPages,
    node: PageId,
}

impl Drop for HeapMaintenance<'_> {
    fn drop(&mut self) {
        self.store.maintained.lock().remove(&self.node);
    }
}
