//! A page store that fails by plan.
//!
//! For tests. The fault model:
//!
//! - **Crash.** The store stops before or after its n-th commit, as on a power failure. Earlier
//!   commits are durable, the n-th as planned; nothing is committed after it, and every call fails.
//!   Ignore the result of the operation during which the store crashed, as its caller would not
//!   have survived: check [`FaultyPages::has_crashed`]. [`FaultyPages::recover`] returns the pages
//!   as a restart finds them: latches, maintenance rights and reservations are gone; a page that
//!   was unlinked but not retired is a leak.
//! - **Failure.** The n-th read, batch or reservation fails; the next one succeeds.
//! - **Damage.** Bytes of a payload differ from those written, unnoticed by any checksum.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::error::{Error, Result};
use super::page_id::PageId;
use super::page_store::{Batch, PageRead, PageStore, Reserved, RunWriter, VacuumStore};

/// A planned fault. Calls of each kind are counted from 1; several plans may be combined.
///
/// ```
/// use bedload_pages::{Batch, Fault, FaultyPages, HeapPages, PageStore};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = FaultyPages::new(HeapPages::new(256), [Fault::CrashAfterCommit(2)]);
/// for byte in [7, 8] {
///     let fresh = pages.reserve()?;
///     pages.batch(&[fresh.id])?.commit(|payloads| payloads[0][0] = byte);
/// }
/// assert!(pages.has_crashed());
/// assert!(pages.reserve().is_err());
/// let pages = pages.recover();
/// assert_eq!(pages.live_pages(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The store stops just before the n-th commit publishes its pages.
    CrashBeforeCommit(u64),
    /// The store stops just after the n-th commit has published its pages.
    CrashAfterCommit(u64),
    /// The n-th read fails.
    Read(u64),
    /// The n-th attempt to begin or grow a batch fails.
    Batch(u64),
    /// The n-th reservation fails.
    Reserve(u64),
    /// No deletion in a run is durable until a call waits for it.
    DeletionsNotDurable,
}

/// The error of a call that met a planned fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InjectedFault {
    /// The store has crashed.
    #[error("the page store has crashed, as planned")]
    Crashed,
    /// This call was planned to fail.
    #[error("this call fails, as planned: {0:?}")]
    Failed(Fault),
}

/// The number of calls of a [`FaultyPages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// Pages latched shared.
    pub reads: u64,
    /// Pages latched exclusively, one by one.
    pub latches: u64,
    /// Batches committed and deletions in runs, without the pages of runs.
    pub commits: u64,
    /// Pages reserved.
    pub reserves: u64,
}

/// A page store that fails by plan, and counts the calls on the store below it.
///
/// ```
/// use bedload_pages::{Fault, FaultyPages, HeapPages, PageStore};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = FaultyPages::new(HeapPages::new(256), [Fault::Reserve(2)]);
/// let first = pages.reserve()?;
/// assert!(pages.reserve().is_err());
/// let third = pages.reserve()?;
/// assert_eq!(pages.calls().reserves, 3);
/// # pages.release(first);
/// # pages.release(third);
/// # Ok(())
/// # }
/// ```
pub struct FaultyPages<S> {
    store: S,
    faults: Vec<Fault>,
    has_crashed: AtomicBool,
    reads: AtomicU64,
    latches: AtomicU64,
    commits: AtomicU64,
    reserves: AtomicU64,
    /// Locked during a commit that may crash the store, so that commits are counted in the order in
    /// which they publish. Holds the reservations that a restart forgets.
    reserved: Mutex<Vec<(PageId, u64)>>,
    meanwhile: Mutex<Option<Meanwhile>>,
}

/// An action of another thread during a reservation.
type Meanwhile = Box<dyn FnOnce() + Send>;

impl<S: PageStore> FaultyPages<S> {
    /// Wraps a store.
    pub fn new(store: S, faults: impl IntoIterator<Item = Fault>) -> Self {
        Self {
            store,
            faults: faults.into_iter().collect(),
            has_crashed: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            latches: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            reserves: AtomicU64::new(0),
            reserved: Mutex::new(Vec::new()),
            meanwhile: Mutex::new(None),
        }
    }

    /// Runs `meanwhile` during the next reservation that is not a run writer's, as another thread
    /// might. The reserving thread may hold latches, so `meanwhile` must not request them.
    pub fn during_next_reserve(&self, meanwhile: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock() = Some(Box::new(meanwhile));
    }

    /// Whether the store has crashed.
    pub fn has_crashed(&self) -> bool {
        self.has_crashed.load(Ordering::Acquire)
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> Calls {
        Calls {
            reads: self.reads.load(Ordering::Relaxed),
            latches: self.latches.load(Ordering::Relaxed),
            commits: self.commits.load(Ordering::Relaxed),
            reserves: self.reserves.load(Ordering::Relaxed),
        }
    }

    /// Returns the underlying store as a restart finds it.
    pub fn recover(self) -> S {
        for (id, generation) in self.reserved.into_inner() {
            self.store.release(Reserved { id, generation });
        }
        self.store
    }

    /// Flips the bits of `mask` in the byte at `offset` of a page.
    ///
    /// # Errors
    ///
    /// The page cannot be latched.
    pub fn damage(&self, page: PageId, offset: usize, mask: u8) -> Result<()> {
        let batch = self.store.batch(&[page])?;
        batch.commit(|payloads| payloads[0][offset] ^= mask);
        Ok(())
    }

    /// Fails if the store has crashed, or if this call is planned to fail with the kind of `fault`.
    fn meet(&self, calls: &AtomicU64, fault: impl Fn(u64) -> Fault) -> Result<()> {
        self.meet_crash()?;
        let fault = fault(calls.fetch_add(1, Ordering::Relaxed) + 1);
        if self.faults.contains(&fault) {
            return Err(Error::store(InjectedFault::Failed(fault)));
        }
        Ok(())
    }

    fn meet_crash(&self) -> Result<()> {
        if self.has_crashed() {
            Err(Error::store(InjectedFault::Crashed))
        } else {
            Ok(())
        }
    }
}

impl<S: PageStore> PageRead for FaultyPages<S> {
    type Guard<'s>
        = S::Guard<'s>
    where
        Self: 's;

    fn payload_len(&self) -> usize {
        self.store.payload_len()
    }

    fn payload_max(&self) -> usize {
        self.store.payload_max()
    }

    fn read(&self, id: PageId) -> Result<Self::Guard<'_>> {
        self.meet(&self.reads, Fault::Read)?;
        self.store.read(id)
    }

    fn read_ahead(&self, ids: &[PageId]) {
        self.store.read_ahead(ids);
    }

    fn reads_wait(&self) -> bool {
        self.store.reads_wait()
    }
}

impl<S: PageStore> PageStore for FaultyPages<S> {
    type Batch<'s>
        = FaultyBatch<'s, S>
    where
        Self: 's;
    type Pin<'s>
        = S::Pin<'s>
    where
        Self: 's;
    type RunWriter<'s>
        = FaultyRunWriter<'s, S>
    where
        Self: 's;
    type Maintenance<'s>
        = S::Maintenance<'s>
    where
        Self: 's;

    fn batch(&self, ids: &[PageId]) -> Result<Self::Batch<'_>> {
        for _ in ids {
            self.meet(&self.latches, Fault::Batch)?;
        }
        Ok(FaultyBatch {
            pages: self,
            batch: self.store.batch(ids)?,
            ids: ids.to_vec(),
        })
    }

    fn reserve(&self) -> Result<Reserved> {
        self.meet(&self.reserves, Fault::Reserve)?;
        let meanwhile = self.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        let reserved = self.store.reserve()?;
        self.reserved.lock().push((reserved.id, reserved.generation));
        Ok(reserved)
    }

    fn release(&self, reserved: Reserved) {
        if !self.has_crashed() {
            self.reserved.lock().retain(|&(id, _)| id != reserved.id);
            self.store.release(reserved);
        }
    }

    fn run_writer(&self) -> Result<Self::RunWriter<'_>> {
        self.meet_crash()?;
        Ok(FaultyRunWriter {
            pages: self,
            writer: self.store.run_writer()?,
        })
    }

    fn pin(&self, id: PageId) -> Result<Self::Pin<'_>> {
        self.meet(&self.reads, Fault::Read)?;
        self.store.pin(id)
    }

    fn retire(&self, pages: &[PageId]) {
        if !self.has_crashed() {
            self.store.retire(pages);
        }
    }

    fn reclaim(&self) -> Result<usize> {
        self.meet_crash()?;
        self.store.reclaim()
    }

    fn sweep(&self, reachable: &dyn Fn(PageId) -> bool) -> Result<Vec<PageId>> {
        self.meet_crash()?;
        self.store.sweep(reachable)
    }

    fn try_maintain(&self, node: PageId) -> Option<Self::Maintenance<'_>> {
        if self.has_crashed() {
            None
        } else {
            self.store.try_maintain(node)
        }
    }
}

impl<S: VacuumStore> VacuumStore for FaultyPages<S> {
    fn delete_in_run(&self, page: PageId, delete: &mut dyn FnMut(&mut [u8]) -> Result<bool>) -> Result<()> {
        let _in_order = self.reserved.lock();
        self.meet_crash()?;
        let commit = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if self.faults.contains(&Fault::CrashBeforeCommit(commit)) {
            self.has_crashed.store(true, Ordering::Release);
            return self.meet_crash();
        }
        self.store.delete_in_run(page, delete)?;
        if self.faults.contains(&Fault::CrashAfterCommit(commit)) {
            self.has_crashed.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn is_durable(&self, page: PageId, waits: bool) -> Result<bool> {
        self.meet_crash()?;
        let is_planned = self.faults.contains(&Fault::DeletionsNotDurable);
        Ok((waits || !is_planned) && self.store.is_durable(page, waits)?)
    }

    fn run_pages(&self, after: Option<PageId>, limit: usize) -> Result<Vec<PageId>> {
        self.meet_crash()?;
        self.store.run_pages(after, limit)
    }
}

/// A batch of a [`FaultyPages`].
pub struct FaultyBatch<'s, S: PageStore + 's> {
    pages: &'s FaultyPages<S>,
    batch: S::Batch<'s>,
    ids: Vec<PageId>,
}

impl<S: PageStore> Batch for FaultyBatch<'_, S> {
    fn page(&self, index: usize) -> &[u8] {
        self.batch.page(index)
    }

    fn add(&mut self, id: PageId) -> Result<()> {
        self.pages.meet(&self.pages.latches, Fault::Batch)?;
        self.batch.add(id)?;
        self.ids.push(id);
        Ok(())
    }

    fn commit(self, apply: impl FnOnce(&mut [&mut [u8]])) {
        let mut reserved = self.pages.reserved.lock();
        if self.pages.has_crashed() {
            return;
        }
        let commit = self.pages.commits.fetch_add(1, Ordering::Relaxed) + 1;
        let is_planned = |fault| self.pages.faults.contains(&fault);
        if is_planned(Fault::CrashBeforeCommit(commit)) {
            self.pages.has_crashed.store(true, Ordering::Release);
            return;
        }
        self.batch.commit(apply);
        reserved.retain(|(id, _)| !self.ids.contains(id));
        if is_planned(Fault::CrashAfterCommit(commit)) {
            self.pages.has_crashed.store(true, Ordering::Release);
        }
    }
}

/// The run writer of a [`FaultyPages`].
pub struct FaultyRunWriter<'s, S: PageStore + 's> {
    pages: &'s FaultyPages<S>,
    writer: S::RunWriter<'s>,
}

impl<S: PageStore> RunWriter for FaultyRunWriter<'_, S> {
    fn reserve(&mut self) -> Result<Reserved> {
        self.pages.meet(&self.pages.reserves, Fault::Reserve)?;
        let reserved = self.writer.reserve()?;
        self.pages
            .reserved
            .lock()
            .push((reserved.id, reserved.generation));
        Ok(reserved)
    }

    fn write(&mut self, page: Reserved, payload: &[u8]) -> Result<()> {
        self.pages.meet_crash()?;
        let id = page.id;
        self.writer.write(page, payload)?;
        self.pages.reserved.lock().retain(|&(other, _)| other != id);
        Ok(())
    }

    fn finish(self) -> Result<()> {
        self.pages.meet_crash()?;
        self.writer.finish()
    }
}
