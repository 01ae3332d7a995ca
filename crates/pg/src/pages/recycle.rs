//! Free pages: handing them out, taking them back, and finding unreachable ones.
//!
//! The free space map is a hint, neither logged nor exact: pages that it names are checked before
//! they are handed out, and [`PgPages::reclaim_pages`] adds those it has forgotten.

#![expect(
    unsafe_code,
    reason = "it calls the free space map and generic WAL of PostgreSQL"
)]

use bedload_pages::{Error, PageId, PageSet, Reserved, Result};
use pgrx::pg_sys;

use super::buffer::{Latch, Mode, Pin};
use super::header::{LIFE_LEN, PAGE_LEN, PAYLOAD_LEN, State, is_new, life, set_life, set_used};
use super::{Life, MAINTENANCE_MODE, PgPages, next_transaction};
use crate::error::error_point;

/// Pages that the free space map names in vain before the file is extended instead.
const STALE_HINTS_MAX: usize = 4;

/// The pages that an index is made of, to find those that are lost.
///
/// A page is lost if it was written by a transaction that has ended, and nobody names it: a crash
/// or an error came between the writing and the naming, or between the unlinking and the retiring.
pub(crate) struct Named<'p> {
    file: &'p PgPages,
    pages: PageSet,
    /// A page that is named, and that the file does not have.
    missing: Option<PageId>,
    /// Nodes: a thread that unlinks a page has the right to maintain one of them until it has
    /// retired the page.
    maintained: Vec<PageId>,
    /// Writers with lesser transaction ids had ended when the naming began.
    limit: u64,
}

impl<'p> Named<'p> {
    /// To be called before it is found out which pages of a file are named.
    pub(crate) fn begin(file: &'p PgPages) -> Self {
        Self {
            file,
            pages: PageSet::default(),
            missing: None,
            maintained: Vec::new(),
            limit: oldest_writer(),
        }
    }

    /// Pages that damage may name beyond the file are left out, as the set takes memory up to its
    /// greatest page.
    pub(crate) fn add(&mut self, id: PageId) {
        if self.file.has_block(id.get()) {
            self.pages.insert(id);
        } else {
            self.missing.get_or_insert(id);
        }
    }

    /// An error if a page is named that the file does not have: other pages, which should have been
    /// named in its stead, would seem to be lost.
    pub(crate) fn check(&self) -> Result<()> {
        match self.missing {
            Some(page) => Err(Error::Corrupt {
                page,
                reason: "it lies beyond the end of the file",
            }),
            None => Ok(()),
        }
    }

    pub(crate) fn add_maintained(&mut self, id: PageId) {
        self.add(id);
        self.maintained.push(id);
    }

    /// Whether a page seems to be lost, unless it is about to be retired.
    fn lacks(&self, id: PageId, life: Life) -> bool {
        matches!(life.state, State::Node | State::Run) && life.stamp < self.limit && !self.pages.contains(id)
    }
}

/// The full id of the oldest transaction that may be writing.
fn oldest_writer() -> u64 {
    let next = next_transaction();
    // SAFETY: reads shared memory under its own lock. The result is at most the next id, and less
    // than 2^31 older.
    let oldest = unsafe { pg_sys::GetOldestActiveTransactionId() }.into_inner();
    let [_, _, _, _, low @ ..] = next.to_be_bytes();
    next.saturating_sub(u32::from_be_bytes(low).wrapping_sub(oldest).into())
}

impl PgPages {
    /// Reserves a page, which stays pinned until it is written or given back.
    pub(super) fn reserve_page(&self) -> Result<(Reserved, Pin)> {
        error_point();
        loop {
            let Some(id) = self.released.borrow_mut().pop() else {
                break;
            };
            if let Some(reserved) = self.latch_alone(id).and_then(|latch| self.try_reserve(id, latch)) {
                return Ok(reserved);
            }
        }
        let (mut reserved, mut pinned) = (None, Vec::new());
        for _ in 0..STALE_HINTS_MAX {
            let Some(id) = self.free_page_hint() else { break };
            match self.latch_alone(id) {
                Some(latch) => reserved = self.try_reserve(id, latch),
                None => pinned.push(id),
            }
            if reserved.is_some() {
                break;
            }
        }
        // The map has forgotten them.
        for id in pinned {
            // SAFETY: the relation is open.
            unsafe { pg_sys::RecordFreeIndexPage(self.relation(), id.get()) };
        }
        Ok(reserved.unwrap_or_else(|| self.extend()))
    }

    fn latch_alone(&self, id: PageId) -> Option<Latch> {
        self.pin_block(id.get()).latch_alone()
    }

    /// A page that the free space map thinks is free, and now does not any more.
    fn free_page_hint(&self) -> Option<PageId> {
        if self.is_initial() {
            return None;
        }
        // SAFETY: the relation is open.
        let block = unsafe { pg_sys::GetFreeIndexPage(self.relation()) };
        let is_block = block != pg_sys::InvalidBlockNumber && self.has_block(block);
        if is_block { PageId::new(block) } else { None }
    }

    /// Reserves a particular page, which is not pinned otherwise, if it is free.
    fn try_reserve(&self, id: PageId, mut latch: Latch) -> Option<(Reserved, Pin)> {
        if !self.is_free(latch.page()) {
            return None;
        }
        let generation = begin_reservation(&mut latch);
        Some((Reserved { id, generation }, latch.unlatch()))
    }

    /// Whether a page can be handed out: it is unreachable, and its reserver, if any, is gone.
    fn is_free(&self, page: &[u8]) -> bool {
        if is_new(page) {
            return true;
        }
        match life(page) {
            // No reader takes a reused page for what it was. A page of a run says to which run it
            // belongs, in each of its lives to another, and a reader that misses its run descends
            // again. Pages of the head are read under a latch that retiring them takes first. So no
            // snapshot keeps a page from being used again.
            Some(Life {
                state: State::Free | State::Retired | State::RetiredRun,
                ..
            }) => true,
            // A writer has a transaction id, is alone at the index, or is `VACUUM`, which keeps its
            // reserved pages pinned. So when no snapshot is older than the stamp of a reservation,
            // its transaction has ended.
            Some(Life {
                state: State::Reserved,
                stamp,
                ..
            }) => self.is_over(stamp),
            _ => false,
        }
    }

    /// Makes the stamp of a page as old as that of a reservation by `VACUUM` may seem to others,
    /// and tells the free space map of the page.
    #[cfg(feature = "harness")]
    pub(crate) fn make_stamp_old(&self, id: PageId) {
        let mut latch = self.pin_block(id.get()).latch(Mode::Exclusive);
        if let Some(life) = life(latch.page()) {
            set_life(latch.page_mut(), Life { stamp: 3, ..life });
        }
        latch.mark_dirty_unlogged();
        drop(latch);
        // SAFETY: the relation is open.
        unsafe {
            pg_sys::RecordFreeIndexPage(self.relation(), id.get());
            pg_sys::IndexFreeSpaceMapVacuum(self.relation());
        }
    }

    /// Whether no snapshot is older than a stamp.
    fn is_over(&self, stamp: u64) -> bool {
        let stamp = pg_sys::FullTransactionId { value: stamp };
        // SAFETY: the relation is open.
        unsafe { pg_sys::GlobalVisCheckRemovableFullXid(self.relation(), stamp) }
    }

    /// Reserves a new page at the end of the file.
    fn extend(&self) -> (Reserved, Pin) {
        let mut latch = self.extend_block();
        // SAFETY: the buffer is pinned.
        let block = unsafe { pg_sys::BufferGetBlockNumber(latch.buffer()) };
        let generation = begin_reservation(&mut latch);
        let id = PageId::new(block).expect("block 0 is the meta page, and is there first");
        (Reserved { id, generation }, latch.unlatch())
    }

    /// A new block at the end of the file, zero and latched exclusively.
    pub(crate) fn extend_block(&self) -> Latch {
        let lock = pg_sys::ExclusiveLock.cast_signed();
        let mode = pg_sys::ReadBufferMode::RBM_ZERO_AND_LOCK;
        // SAFETY: the relation is open; the lock keeps others from extending it by the same block.
        let buffer = unsafe {
            pg_sys::LockRelationForExtension(self.relation(), lock);
            let buffer = pg_sys::ReadBufferExtended(
                self.relation(),
                self.fork,
                pg_sys::InvalidBlockNumber,
                mode,
                std::ptr::null_mut(),
            );
            pg_sys::UnlockRelationForExtension(self.relation(), lock);
            buffer
        };
        // SAFETY: it came pinned and locked.
        unsafe { Latch::from_raw(buffer) }
    }

    /// Makes a page that was not written free again. It is still pinned, so it is nobody else's.
    pub(super) fn release_page(&self, reserved: Reserved, pin: Pin) {
        // While an error unwinds, the page is left to the next VACUUM.
        if std::thread::panicking() {
            return;
        }
        let mut latch = pin.latch(Mode::Exclusive);
        let free = Life {
            generation: reserved.generation,
            stamp: next_transaction(),
            state: State::Free,
        };
        set_life(latch.page_mut(), free);
        drop(latch);
        if !self.is_initial() {
            // SAFETY: the relation is open.
            unsafe { pg_sys::RecordFreeIndexPage(self.relation(), reserved.id.get()) };
        }
        self.released.borrow_mut().push(reserved.id);
    }

    /// Retires pages that were made unreachable, and tells the free space map of them.
    pub(super) fn retire_pages(&self, pages: &[PageId]) {
        let Some((first, last)) = pages.iter().min().zip(pages.iter().max()) else {
            return;
        };
        #[cfg(feature = "harness")]
        crate::hooks::pause(crate::hooks::Pause::Retirement);
        for &id in pages {
            self.retire_page(id, None);
        }
        if self.is_initial() {
            return;
        }
        // SAFETY: the relation is open. The map's upper pages are told last, or nobody would look
        // at the lower ones.
        unsafe {
            for id in pages {
                pg_sys::RecordFreeIndexPage(self.relation(), id.get());
            }
            pg_sys::FreeSpaceMapVacuumRange(self.relation(), first.get(), last.get().saturating_add(1));
        }
    }

    /// Declares a page unreachable, if its life is still the one that is `expected`; whether it
    /// did. Its payload stays as it is.
    fn retire_page(&self, id: PageId, expected: Option<Life>) -> bool {
        if !self.has_block(id.get()) {
            return false;
        }
        let latch = self.pin_block(id.get()).latch(Mode::Exclusive);
        let Some(life) = life(latch.page()) else {
            return false;
        };
        if expected.is_some_and(|expected| expected != life) {
            return false;
        }
        error_point();
        let retired = Life {
            stamp: next_transaction(),
            state: if life.state.is_run() {
                State::RetiredRun
            } else {
                State::Retired
            },
            ..life
        };
        // SAFETY: the relation is open, and the buffer locked exclusively until the record is
        // finished; the image is a copy of the page.
        unsafe {
            let record = pg_sys::GenericXLogStart(self.relation());
            let image = pg_sys::GenericXLogRegisterBuffer(record, latch.buffer(), 0);
            set_life(
                std::slice::from_raw_parts_mut(image.cast::<u8>(), PAGE_LEN),
                retired,
            );
            pg_sys::GenericXLogFinish(record);
        }
        true
    }

    /// Tells the free space map of every page that can be handed out, and of every page that is
    /// lost; returns how many there are. O(pages).
    pub(crate) fn reclaim_pages(&self, named: Option<&Named<'_>>) -> usize {
        let mut reclaimed = 0;
        let mut suspects = Vec::new();
        for id in (1..self.block_count()).filter_map(PageId::new) {
            let (is_free, life) = {
                let latch = self.pin_block(id.get()).latch(Mode::Shared);
                (self.is_free(latch.page()), life(latch.page()))
            };
            if is_free {
                // SAFETY: the relation is open.
                unsafe { pg_sys::RecordFreeIndexPage(self.relation(), id.get()) };
                reclaimed += 1;
            } else if let (Some(named), Some(life)) = (named, life)
                && named.lacks(id, life)
            {
                suspects.push((id, life));
            }
            crate::compat::vacuum_delay_point();
        }
        if !suspects.is_empty() {
            let maintained = named.into_iter().flat_map(|named| &named.maintained);
            maintained.for_each(|&id| self.await_maintenance(id));
        }
        for (id, life) in suspects {
            if self.retire_page(id, Some(life)) {
                // SAFETY: the relation is open.
                unsafe { pg_sys::RecordFreeIndexPage(self.relation(), id.get()) };
                reclaimed += 1;
            }
        }
        // SAFETY: the relation is open.
        unsafe { pg_sys::IndexFreeSpaceMapVacuum(self.relation()) };
        reclaimed
    }

    /// The pages that are lost. To be called while nobody writes.
    #[cfg(feature = "harness")]
    pub(crate) fn lost_pages(&self, named: &Named<'_>) -> usize {
        let is_lost = |&id: &PageId| {
            let latch = self.pin_block(id.get()).latch(Mode::Shared);
            life(latch.page()).is_some_and(|life| named.lacks(id, life))
        };
        (1..self.block_count())
            .filter_map(PageId::new)
            .filter(is_lost)
            .count()
    }

    /// Waits for all maintenance of a node that began before the call.
    fn await_maintenance(&self, node: PageId) {
        let lock = self.maintenance_lock(node);
        // SAFETY: the tag is one of a lock, which is given back at once. The wait can be cancelled.
        unsafe {
            pg_sys::LockAcquire(&raw const lock, MAINTENANCE_MODE, false, false);
            pg_sys::LockRelease(&raw const lock, MAINTENANCE_MODE, false);
        }
    }

    /// The first pages after one, at most `limit`, that hold what a run writer has written, found
    /// at VACUUM's pace.
    pub(super) fn pages_of_runs(&self, after: Option<PageId>, limit: usize) -> Vec<PageId> {
        let is_of_run = |id: &PageId| {
            crate::compat::vacuum_delay_point();
            let latch = self.pin_block(id.get()).latch(Mode::Shared);
            life(latch.page()).is_some_and(|life| life.state.is_run())
        };
        let first = after.map_or(1, |after| after.get() + 1);
        let pages = (first..self.block_count()).filter_map(PageId::new);
        pages.filter(is_of_run).take(limit).collect()
    }

    pub(super) fn sweep_pages(&self, reachable: &dyn Fn(PageId) -> bool) -> Vec<PageId> {
        let mut leaked = Vec::new();
        for id in (1..self.block_count()).filter_map(PageId::new) {
            pgrx::check_for_interrupts!();
            let is_used = {
                let latch = self.pin_block(id.get()).latch(Mode::Shared);
                let state = life(latch.page()).map(|life| life.state);
                matches!(state, Some(State::Node | State::Run))
            };
            if is_used && !reachable(id) {
                leaked.push(id);
            }
        }
        self.retire_pages(&leaked);
        leaked
    }
}

/// Begins another life of a free page; returns its generation. The page is not made dirty: with
/// checksums the server would log an image of it, and its writer logs it as a whole. While it is
/// pinned it stays in its buffer, and without its writer it may become again what it was.
fn begin_reservation(latch: &mut Latch) -> u64 {
    let page = latch.page_mut();
    let generation = life(page).map_or_else(first_generation, |life| life.generation + 1);
    if is_new(page) {
        init(page);
    }
    let reserved = Life {
        generation,
        stamp: next_transaction(),
        state: State::Reserved,
    };
    set_life(page, reserved);
    generation
}

/// The generation of a page that has none yet: the time. Another file may get the name of one that
/// was dropped, and copies of pages in memory are known by file, page and generation.
fn first_generation() -> u64 {
    // SAFETY: it only asks for the time.
    unsafe { pg_sys::GetCurrentTimestamp() }.unsigned_abs()
}

/// Makes a page an empty one with a standard header, all of its payload in use.
pub(super) fn init(page: &mut [u8]) {
    // SAFETY: it is a page of memory, aligned as buffers are.
    unsafe { pg_sys::PageInit(page.as_mut_ptr().cast(), PAGE_LEN, LIFE_LEN) };
    set_used(page, PAYLOAD_LEN);
}
