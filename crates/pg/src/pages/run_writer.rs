//! Writing pages of runs: each logged once, as a whole.

#![expect(unsafe_code, reason = "full-page records are made by calls into PostgreSQL")]

use bedload_pages::{PageStore, Reserved, Result, RunWriter};
use pgrx::pg_sys;

use super::buffer::Latch;
use super::header::{PAYLOAD, PAYLOAD_LEN, State, set_life, set_used, set_version};
use super::recycle::init;
use super::{Life, PgPages, next_transaction};
use crate::error::error_point;

/// Pages to a WAL record. A record holds 32; so many content locks are held while it is made.
const RECORD_PAGES: usize = 16;

/// The resource manager, the kind and the flags of a record of whole pages, without the gap between
/// lower and upper. The server's headers have these bytes as wider numbers.
const MANAGER: pg_sys::RmgrId = pg_sys::RmgrIds::RM_XLOG_ID.to_le_bytes()[0];
const KIND: u8 = pg_sys::XLOG_FPI.to_le_bytes()[0];
const FLAGS: u8 = (pg_sys::REGBUF_FORCE_IMAGE | pg_sys::REGBUF_STANDARD).to_le_bytes()[0];

const _: () = assert!(RECORD_PAGES <= pg_sys::XLR_MAX_BLOCK_ID as usize);

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
        // All that may fail precedes the first change, so that each dirty page has been logged. The
        // record of a later change of one that was not would be replayed on a page without content.
        let mut latches: Vec<Latch> = self.pages.iter().map(|(page, _)| self.latch(page)).collect();
        let needs_wal = self.store.needs_wal() && !latches.is_empty();
        if needs_wal {
            prepare_record(latches.len());
        }
        for (latch, (reserved, payload)) in latches.iter_mut().zip(&self.pages) {
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
        }
        if needs_wal {
            log(&mut latches);
        } else {
            mark_dirty(&latches);
        }
        drop(latches);
        let mut pins = self.store.reserved.borrow_mut();
        for (page, _) in self.pages.drain(..) {
            pins.remove(&page.id);
        }
        drop(pins);
        error_point();
    }

    /// Latches a page that is to be overwritten.
    fn latch(&self, page: &Reserved) -> Latch {
        error_point();
        let mode = pg_sys::ReadBufferMode::RBM_ZERO_AND_LOCK;
        // SAFETY: the relation is open and has the block, which is reserved by us and is about to
        // be overwritten. The buffer comes pinned and locked.
        unsafe {
            let relation = self.store.relation();
            let strategy = std::ptr::null_mut();
            let buffer = pg_sys::ReadBufferExtended(relation, self.store.fork, page.id.get(), mode, strategy);
            Latch::from_raw(buffer)
        }
    }
}

fn mark_dirty(latches: &[Latch]) {
    for latch in latches {
        // SAFETY: pinned and locked exclusively.
        unsafe { pg_sys::MarkBufferDirty(latch.buffer()) };
    }
}

/// Makes room for so many pages in a record.
fn prepare_record(pages: usize) {
    let last = i32::try_from(pages - 1).expect("a few pages");
    // SAFETY: no record is being made.
    unsafe { pg_sys::XLogEnsureRecordSpace(last, 0) };
}

/// Logs pages as a whole, in one record for which there is room, and has them written. The server's
/// `log_newpages` makes room itself, so it must not be called in a critical section.
fn log(latches: &mut [Latch]) {
    // SAFETY: all pages are in buffers locked exclusively; headers are standard, and what lies
    // between lower and upper is zero. Within the critical section nothing is called that fails
    // short of a panic of the server.
    unsafe {
        pg_sys::CritSectionCount += 1;
        mark_dirty(latches);
        pg_sys::XLogBeginInsert();
        for (id, latch) in (0..).zip(&*latches) {
            pg_sys::XLogRegisterBuffer(id, latch.buffer(), FLAGS);
        }
        let end = pg_sys::XLogInsert(MANAGER, KIND);
        for latch in latches {
            set_version(latch.page_mut(), end);
        }
        pg_sys::CritSectionCount -= 1;
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
        #[cfg(feature = "harness")]
        crate::hooks::note_written_page();
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
