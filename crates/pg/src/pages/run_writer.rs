//! Writing pages of runs: each logged once, as a whole.

#![expect(unsafe_code, reason = "full-page records are made by calls into PostgreSQL")]

use bedload_pages::{PageStore, Reserved, Result, RunWriter};
use pgrx::pg_sys;

use super::buffer::Latch;
use super::header::{PAYLOAD, PAYLOAD_LEN, State, set_life, set_used};
use super::recycle::init;
use super::{Life, PgPages, next_transaction};
use crate::compat;
use crate::error::error_point;

/// Pages to a WAL record. A record holds 32; so many content locks are held while it is made.
const RECORD_PAGES: usize = 16;

/// The run writer of a [`PgPages`].
pub(crate) struct PgRunWriter<'s> {
    store: &'s PgPages,
    /// Pages written and not logged yet.
    pages: Vec<(Reserved, Vec<u8>)>,
}

impl<'s> PgRunWriter<'s> {
    pub(super) fn new(store: &'s PgPages) -> Self {
        Self {
            store,
            pages: Vec::with_capacity(RECORD_PAGES),
        }
    }

    /// Puts the pages into buffers and logs them. Nobody reaches them before a batch names them, so
    /// an error on the way leaves leaks and nothing worse.
    fn flush(&mut self) {
        error_point();
        let stamp = next_transaction();
        let mut latches: Vec<Latch> = Vec::with_capacity(self.pages.len());
        for (reserved, payload) in &self.pages {
            let mode = pg_sys::ReadBufferMode::RBM_ZERO_AND_LOCK;
            let block = reserved.id.get();
            // SAFETY: the relation is open and has the block, which is reserved by us and is about
            // to be overwritten.
            let buffer = unsafe {
                let relation = self.store.relation();
                pg_sys::ReadBufferExtended(relation, self.store.fork, block, mode, std::ptr::null_mut())
            };
            // SAFETY: it came pinned and locked.
            let mut latch = unsafe { Latch::from_raw(buffer) };
            let page = latch.page_mut();
            init(page);
            page[PAYLOAD][..payload.len()].copy_from_slice(payload);
            set_used(page, payload.len());
            let life = Life {
                generation: reserved.generation,
                stamp,
                state: State::Run,
            };
            set_life(page, life);
            // SAFETY: pinned and locked exclusively. The latch keeps the page from being written
            // before it is logged.
            unsafe { pg_sys::MarkBufferDirty(latch.buffer()) };
            latches.push(latch);
        }
        if self.store.needs_wal() && !latches.is_empty() {
            let mut blocks: Vec<_> = self.pages.iter().map(|(reserved, _)| reserved.id.get()).collect();
            let mut pages: Vec<_> = latches
                .iter_mut()
                .map(|latch| latch.page_mut().as_mut_ptr().cast())
                .collect();
            let count = i32::try_from(pages.len()).expect("a few pages");
            // SAFETY: all pages are those of the blocks, in buffers locked exclusively; headers are
            // standard, and what lies between lower and upper is zero.
            unsafe {
                let node = compat::locator(self.store.relation());
                let (blocks, pages) = (blocks.as_mut_ptr(), pages.as_mut_ptr());
                pg_sys::log_newpages(node, self.store.fork, count, blocks, pages, true);
            }
        }
        drop(latches);
        let mut pins = self.store.reserved.borrow_mut();
        for (page, _) in self.pages.drain(..) {
            pins.remove(&page.id);
        }
        drop(pins);
        error_point();
    }
}

impl RunWriter for PgRunWriter<'_> {
    fn reserve(&mut self) -> Result<Reserved> {
        self.store.reserve()
    }

    fn write(&mut self, page: Reserved, payload: &[u8]) -> Result<()> {
        assert!(
            payload.len() <= PAYLOAD_LEN,
            "a payload of {} bytes does not fit in a page",
            payload.len()
        );
        self.pages.push((page, payload.to_vec()));
        if self.pages.len() == RECORD_PAGES {
            self.flush();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.flush();
        #[cfg(feature = "harness")]
        crate::hooks::pause(crate::hooks::Pause::Naming);
        Ok(())
    }
}
