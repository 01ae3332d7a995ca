//! Pages that behave at least as badly as those of the weakest host, the buffers of a database
//! server.
//!
//! For tests. A tree that passes on these pages relies on nothing but the contract:
//!
//! - A retired page is overwritten with noise and reused, in random order, as soon as it is neither
//!   latched nor pinned. A reader that kept its id without its parent's latch finds another page.
//! - A reserved page holds noise, and so does a released one.
//! - A vacuum waits until the page is not pinned, as for PostgreSQL's cleanup lock.
//! - A latch not granted within [`MimicPages::PATIENCE`] is a deadlock, and panics instead of
//!   hanging. A batch of too many pages, or of one page twice, panics as on every store.
//! - There are no snapshots.

use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockWriteGuard};

use super::error::Result;
use super::heap_pages::HeapFrame;
use super::heap_pages::{HeapBatch, HeapMaintenance, HeapPages, HeapRunWriter};
use super::page_id::PageId;
use super::page_store::{Batch, PageRead, PageStore, Reserved, RunWriter, VacuumStore};

/// A page store in heap memory that recycles pages eagerly and at random, from a seed.
///
/// ```
/// use bedload_pages::{Batch, MimicPages, PageRead, PageStore};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = MimicPages::new(256, 7);
/// let fresh = pages.reserve()?;
/// assert!(pages.read(fresh.id)?.iter().any(|&byte| byte != 0), "noise");
/// pages.batch(&[fresh.id])?.commit(|payloads| payloads[0].fill(1));
/// pages.retire(&[fresh.id]);
/// assert!(pages.read(fresh.id)?.iter().any(|&byte| byte != 1), "noise again");
/// # Ok(())
/// # }
/// ```
pub struct MimicPages {
    heap: HeapPages,
    recycling: Mutex<Recycling>,
}

struct Recycling {
    /// The state of a xorshift generator (Marsaglia, 2003).
    noise: u64,
    /// Retired pages.
    retired: Vec<PageId>,
    /// Retired pages that no call of `reclaim` has counted yet.
    uncounted: usize,
}

impl Recycling {
    fn next(&mut self) -> u64 {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        self.noise
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or(0)
    }

    fn overwrite(&mut self, payload: &mut [u8]) {
        for chunk in payload.chunks_mut(8) {
            let noise = self.next().to_le_bytes();
            chunk.copy_from_slice(&noise[..chunk.len()]);
        }
    }
}

impl MimicPages {
    /// The time limit for a latch. Latches are normally held for microseconds.
    pub const PATIENCE: Duration = Duration::from_secs(20);

    /// Creates an empty store whose pages offer `payload_len` bytes. The same seed and calls give
    /// the same pages.
    ///
    /// # Panics
    ///
    /// As for [`HeapPages::new`].
    #[must_use]
    pub fn new(payload_len: usize, seed: u64) -> Self {
        Self {
            heap: HeapPages::new(payload_len),
            recycling: Mutex::new(Recycling {
                noise: seed | 1,
                retired: Vec::new(),
                uncounted: 0,
            }),
        }
    }

    /// Returns the number of pages in use.
    #[must_use]
    pub fn live_pages(&self) -> usize {
        self.heap.live_pages()
    }

    /// Overwrites a page with noise, unless it is latched or pinned.
    fn try_overwrite(&self, recycling: &mut Recycling, id: PageId) -> bool {
        let Some(mut frame) = self.heap.latch(id).ok().and_then(RwLock::try_write) else {
            return false;
        };
        if frame.is_pinned() {
            return false;
        }
        recycling.overwrite(frame.bytes_mut());
        true
    }
}

/// # Panics
///
/// If the latch is not granted in time.
fn latch_exclusively(latch: &RwLock<HeapFrame>) -> RwLockWriteGuard<'_, HeapFrame> {
    latch
        .try_write_for(MimicPages::PATIENCE)
        .expect("an exclusive latch is granted in time: deadlock")
}

impl PageRead for MimicPages {
    type Guard<'s> = MappedRwLockReadGuard<'s, [u8]>;

    fn payload_len(&self) -> usize {
        self.heap.payload_len()
    }

    fn read(&self, id: PageId) -> Result<Self::Guard<'_>> {
        let granted = self.heap.latch(id)?.try_read_for(Self::PATIENCE);
        HeapPages::guard(id, granted.expect("a shared latch is granted in time: deadlock"))
    }
}

impl PageStore for MimicPages {
    type Batch<'s> = MimicBatch<'s>;
    type Pin<'s> = <HeapPages as PageStore>::Pin<'s>;
    type RunWriter<'s> = MimicRunWriter<'s>;
    type Maintenance<'s> = HeapMaintenance<'s>;

    fn batch(&self, ids: &[PageId]) -> Result<Self::Batch<'_>> {
        let mut batch = MimicBatch(HeapBatch::new(&self.heap));
        for &id in ids {
            batch.add(id)?;
        }
        Ok(batch)
    }

    fn reserve(&self) -> Result<Reserved> {
        let mut recycling = self.recycling.lock();
        if !recycling.retired.is_empty() {
            let len = recycling.retired.len();
            let start = recycling.below(len);
            for step in 0..len {
                let place = (start + step) % len;
                let id = recycling.retired[place];
                if self.try_overwrite(&mut recycling, id)
                    && let Some(reserved) = self.heap.reserve_retired(id)
                {
                    recycling.retired.swap_remove(place);
                    return Ok(reserved);
                }
            }
        }
        let reserved = self.heap.reserve_unused()?;
        self.try_overwrite(&mut recycling, reserved.id);
        Ok(reserved)
    }

    fn release(&self, reserved: Reserved) {
        self.retire(&[reserved.id]);
        self.recycling.lock().uncounted -= 1;
    }

    fn run_writer(&self) -> Result<Self::RunWriter<'_>> {
        Ok(MimicRunWriter {
            store: self,
            heap: self.heap.run_writer()?,
        })
    }

    fn pin(&self, id: PageId) -> Result<Self::Pin<'_>> {
        self.heap.pin(id)
    }

    fn retire(&self, pages: &[PageId]) {
        let mut recycling = self.recycling.lock();
        self.heap.retire(pages);
        for &id in pages {
            self.try_overwrite(&mut recycling, id);
            recycling.retired.push(id);
            recycling.uncounted += 1;
        }
    }

    /// Pages are reused without this call, which only counts them.
    fn reclaim(&self) -> Result<usize> {
        Ok(std::mem::take(&mut self.recycling.lock().uncounted))
    }

    fn sweep(&self, reachable: &dyn Fn(PageId) -> bool) -> Result<Vec<PageId>> {
        let leaked = self.heap.unreachable(reachable);
        self.retire(&leaked);
        Ok(leaked)
    }

    fn try_maintain(&self, node: PageId) -> Option<Self::Maintenance<'_>> {
        self.heap.try_maintain(node)
    }
}

impl VacuumStore for MimicPages {
    /// # Panics
    ///
    /// If the page stays pinned for longer than [`MimicPages::PATIENCE`].
    fn delete_in_run(&self, page: PageId, delete: &mut dyn FnMut(&mut [u8]) -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        loop {
            let mut frame = latch_exclusively(self.heap.latch(page)?);
            if !frame.is_pinned() {
                return frame.delete_in_run(delete);
            }
            drop(frame);
            assert!(
                begun.elapsed() < Self::PATIENCE,
                "a page of a run is pinned no longer than it is read: deadlock"
            );
            thread::yield_now();
        }
    }

    fn run_pages(&self, after: Option<PageId>, limit: usize) -> Result<Vec<PageId>> {
        Ok(self.heap.pages_of_runs(after, limit))
    }
}

/// A batch of a [`MimicPages`].
pub struct MimicBatch<'s>(HeapBatch<'s>);

impl Batch for MimicBatch<'_> {
    fn page(&self, index: usize) -> &[u8] {
        self.0.page(index)
    }

    fn add(&mut self, id: PageId) -> Result<()> {
        self.0.add_with(id, latch_exclusively)
    }

    fn commit(self, apply: impl FnOnce(&mut [&mut [u8]])) {
        self.0.commit(apply);
    }
}

/// The run writer of a [`MimicPages`].
pub struct MimicRunWriter<'s> {
    store: &'s MimicPages,
    heap: HeapRunWriter<'s>,
}

impl RunWriter for MimicRunWriter<'_> {
    fn reserve(&mut self) -> Result<Reserved> {
        self.store.reserve()
    }

    fn write(&mut self, page: Reserved, payload: &[u8]) -> Result<()> {
        let payload_len = self.store.payload_len();
        assert!(payload.len() <= payload_len, "this host keeps no long pages");
        self.heap.write(page, payload)
    }

    fn finish(self) -> Result<()> {
        self.heap.finish()
    }
}
