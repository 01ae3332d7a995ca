//! Which pages are free: handing them out, taking them back, finding those that nobody reaches any more.
//!
//! The free space map is a hint, which is neither logged nor exact: what it names is looked at before it is handed
//! out, and what it has forgotten [`PgPages::reclaim_pages`] tells it again.

#![expect(
    unsafe_code,
    reason = "it calls the free space map and generic WAL of PostgreSQL"
)]

use bedload_pages::{PageId, Reserved, Result};
use pgrx::pg_sys;

use super::buffer::{Latch, Mode};
use super::header::{LIFE_LEN, PAGE_LEN, PAYLOAD_LEN, State, is_new, life, set_life, set_used};
use super::{Life, PgPages, next_transaction};
use crate::error::error_point;

/// Pages that the free space map names in vain before the file is extended instead.
const STALE_HINTS_MAX: usize = 4;

impl PgPages {
    pub(super) fn reserve_page(&self) -> Result<Reserved> {
        error_point();
        loop {
            let Some(id) = self.released.borrow_mut().pop() else {
                break;
            };
            if let Some(reserved) = self.try_reserve(id) {
                return Ok(reserved);
            }
        }
        for _ in 0..STALE_HINTS_MAX {
            let Some(id) = self.free_page_hint() else { break };
            if let Some(reserved) = self.try_reserve(id) {
                return Ok(reserved);
            }
        }
        Ok(self.extend())
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

    /// Reserves a particular page, if it is free and nobody has it pinned.
    fn try_reserve(&self, id: PageId) -> Option<Reserved> {
        let mut latch = self.pin_block(id.get()).latch_alone()?;
        if !self.is_free(latch.page()) {
            return None;
        }
        let generation = begin_reservation(&mut latch);
        Some(Reserved { id, generation })
    }

    /// Whether a page can be handed out: nobody can reach it, and whoever had it reserved is gone.
    fn is_free(&self, page: &[u8]) -> bool {
        if is_new(page) {
            return true;
        }
        match life(page) {
            // Nobody takes what a retired page holds, or begins to hold, for what it was: a page of a run says to which run it
            // belongs, in each of its lives to another, and a reader that misses its run descends again. Pages of the head are
            // read under a latch that retiring them takes first. So no snapshot keeps a page from being used again.
            Some(Life {
                state: State::Free | State::Retired | State::RetiredRun,
                ..
            }) => true,
            // A writer has a transaction id, is alone at the index, or is `VACUUM`, which keeps its reserved pages pinned.
            // So when no snapshot is older than the stamp of a reservation, its transaction has ended.
            Some(Life {
                state: State::Reserved,
                stamp,
                ..
            }) => self.is_over(stamp),
            _ => false,
        }
    }

    /// Makes the stamp of a page as old as that of a reservation by `VACUUM` may seem to others, and tells the free space
    /// map of the page.
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
    fn extend(&self) -> Reserved {
        let latch = self.extend_block();
        // SAFETY: the buffer is pinned.
        let block = unsafe { pg_sys::BufferGetBlockNumber(latch.buffer()) };
        let mut latch = latch;
        let generation = begin_reservation(&mut latch);
        let id = PageId::new(block).expect("block 0 is the meta page, and is there first");
        Reserved { id, generation }
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

    pub(super) fn release_page(&self, reserved: Reserved) {
        // While an error unwinds, the page is left to the next VACUUM.
        if std::thread::panicking() {
            return;
        }
        let mut latch = self.pin_block(reserved.id.get()).latch(Mode::Exclusive);
        let free = Life {
            generation: reserved.generation,
            stamp: next_transaction(),
            state: State::Free,
        };
        set_life(latch.page_mut(), free);
        latch.mark_dirty_unlogged();
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
        for &id in pages {
            self.retire_page(id);
        }
        if self.is_initial() {
            return;
        }
        // SAFETY: the relation is open. The map's upper pages are told last, or nobody would look at the lower ones.
        unsafe {
            for id in pages {
                pg_sys::RecordFreeIndexPage(self.relation(), id.get());
            }
            pg_sys::FreeSpaceMapVacuumRange(self.relation(), first.get(), last.get().saturating_add(1));
        }
    }

    /// Stamps a page that was made unreachable. Its payload stays as it is.
    fn retire_page(&self, id: PageId) {
        if !self.has_block(id.get()) {
            return;
        }
        let latch = self.pin_block(id.get()).latch(Mode::Exclusive);
        let Some(life) = life(latch.page()) else { return };
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
        // SAFETY: the relation is open, and the buffer locked exclusively until the record is finished; the image is a
        // copy of the page.
        unsafe {
            let record = pg_sys::GenericXLogStart(self.relation());
            let image = pg_sys::GenericXLogRegisterBuffer(record, latch.buffer(), 0);
            set_life(
                std::slice::from_raw_parts_mut(image.cast::<u8>(), PAGE_LEN),
                retired,
            );
            pg_sys::GenericXLogFinish(record);
        }
    }

    /// Tells the free space map of every page that can be handed out; returns how many there are. O(pages).
    pub(super) fn reclaim_pages(&self) -> usize {
        let mut reclaimed = 0;
        for block in 1..self.block_count() {
            let is_free = {
                let latch = self.pin_block(block).latch(Mode::Shared);
                self.is_free(latch.page())
            };
            if is_free {
                // SAFETY: the relation is open.
                unsafe { pg_sys::RecordFreeIndexPage(self.relation(), block) };
                reclaimed += 1;
            }
            // SAFETY: no latch is held; may sleep, or be cancelled.
            unsafe { pg_sys::vacuum_delay_point() };
        }
        // SAFETY: the relation is open.
        unsafe { pg_sys::IndexFreeSpaceMapVacuum(self.relation()) };
        reclaimed
    }

    /// Every page that holds what a run writer has written. O(pages).
    pub(super) fn pages_of_runs(&self) -> Vec<PageId> {
        let is_of_run = |id: &PageId| {
            let latch = self.pin_block(id.get()).latch(Mode::Shared);
            life(latch.page()).is_some_and(|life| life.state.is_run())
        };
        (1..self.block_count())
            .filter_map(PageId::new)
            .filter(is_of_run)
            .collect()
    }

    pub(super) fn sweep_pages(&self, reachable: &dyn Fn(PageId) -> bool) -> Vec<PageId> {
        let mut leaked = Vec::new();
        for id in (1..self.block_count()).filter_map(PageId::new) {
            let is_used = {
                let latch = self.pin_block(id.get()).latch(Mode::Shared);
                let state = life(latch.page()).map(|life| life.state);
                matches!(state, Some(State::Node | State::Run))
            };
            if is_used && !reachable(id) {
                self.retire_page(id);
                leaked.push(id);
            }
        }
        leaked
    }
}

/// Begins another life of a free page; returns its generation.
fn begin_reservation(latch: &mut Latch) -> u64 {
    let page = latch.page_mut();
    let generation = life(page).map_or(0, |life| life.generation) + 1;
    if is_new(page) {
        init(page);
    }
    let reserved = Life {
        generation,
        stamp: next_transaction(),
        state: State::Reserved,
    };
    set_life(page, reserved);
    latch.mark_dirty_unlogged();
    generation
}

/// Makes a page an empty one with a standard header, all of its payload in use.
pub(super) fn init(page: &mut [u8]) {
    // SAFETY: it is a page of memory, aligned as buffers are.
    unsafe { pg_sys::PageInit(page.as_mut_ptr().cast(), PAGE_LEN, LIFE_LEN) };
    set_used(page, PAYLOAD_LEN);
}
