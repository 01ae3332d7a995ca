//! A batch: up to four pages latched exclusively, changed by one WAL record.

#![expect(unsafe_code, reason = "generic WAL records are made by calls into PostgreSQL")]

use std::slice;

use bedload_pages::{Batch, MAX_BATCH_PAGES, PageId, Result};
use pgrx::pg_sys;

use super::buffer::{Latch, Mode};
use super::header::{PAGE_LEN, PAYLOAD, PAYLOAD_LEN, State, life, life_of, set_life, set_used, version};
use super::recycle::init;
use super::{Life, PgPages, next_transaction};
use crate::error::error_point;

const _: () = assert!(
    MAX_BATCH_PAGES <= pg_sys::XLR_NORMAL_MAX_BLOCK_ID as usize,
    "a generic WAL record holds a batch"
);

/// A batch of a [`PgPages`].
pub(crate) struct PgBatch<'s> {
    store: &'s PgPages,
    /// Dropped, and so unlatched, in latching order, which does not matter.
    pages: [Option<(PageId, Latch)>; MAX_BATCH_PAGES],
    len: usize,
    used: [Option<usize>; MAX_BATCH_PAGES],
}

impl<'s> PgBatch<'s> {
    pub(super) fn new(store: &'s PgPages, ids: &[PageId]) -> Result<Self> {
        let mut batch = Self {
            store,
            pages: [const { None }; MAX_BATCH_PAGES],
            len: 0,
            used: [None; MAX_BATCH_PAGES],
        };
        for &id in ids {
            batch.add(id)?;
        }
        Ok(batch)
    }

    /// Declares that only the first `len` bytes of the payload of the `index`-th page are in use
    /// from this commit on, until another says otherwise: a record compares what is in use byte by
    /// byte.
    pub(crate) fn set_used(&mut self, index: usize, len: usize) {
        self.used[index] = Some(len);
    }

    fn latches(&self) -> impl Iterator<Item = &Latch> {
        self.pages.iter().flatten().map(|(_, latch)| latch)
    }

    /// Changes the pages of an initial fork, which generic records do not log: as an unlogged
    /// relation's.
    fn commit_initial(mut self, apply: impl FnOnce(&mut [&mut [u8]])) {
        let stamp = next_transaction();
        let mut payloads: [&mut [u8]; MAX_BATCH_PAGES] = Default::default();
        for (payload, (_, latch)) in payloads.iter_mut().zip(self.pages.iter_mut().flatten()) {
            let page = latch.page_mut();
            begin_life(page, stamp);
            *payload = &mut page[PAYLOAD];
        }
        // Nobody else sees an initial fork before the transaction that creates it has committed.
        apply(&mut payloads[..self.len]);
        for latch in self.latches() {
            log_whole(latch);
        }
    }
}

/// Logs a page as a whole and has it written.
fn log_whole(latch: &Latch) {
    // SAFETY: the buffer is locked exclusively. Within the critical section nothing is called but
    // these two, which do not fail short of a panic of the server.
    unsafe {
        pg_sys::CritSectionCount += 1;
        pg_sys::MarkBufferDirty(latch.buffer());
        pg_sys::log_newpage_buffer(latch.buffer(), true);
        pg_sys::CritSectionCount -= 1;
    }
}

impl PgPages {
    /// Lets `delete` change a page of a run, as a batch of its own.
    pub(super) fn delete_in_page(
        &self,
        id: PageId,
        delete: &mut dyn FnMut(&mut [u8]) -> Result<bool>,
    ) -> Result<()> {
        let latch = self.pin_page(id)?.latch(Mode::Exclusive);
        if !life_of(latch.page(), id)?.state.is_run() {
            return Ok(());
        }
        // SAFETY: the relation is open, and the buffer locked exclusively until the record is
        // finished or given up; the image is a copy of the page.
        let (record, image) = unsafe {
            let record = pg_sys::GenericXLogStart(self.relation);
            let image = pg_sys::GenericXLogRegisterBuffer(record, latch.buffer(), 0);
            (record, slice::from_raw_parts_mut(image.cast::<u8>(), PAGE_LEN))
        };
        let deleted = delete(&mut image[PAYLOAD]);
        // SAFETY: begun above.
        unsafe {
            if let Ok(true) = deleted {
                pg_sys::GenericXLogFinish(record);
            } else {
                pg_sys::GenericXLogAbort(record);
            }
        }
        deleted.map(|_| ())
    }

    /// Lets `hint` change the bytes after the used part of a page of a run, unless the page is
    /// latched.
    pub(super) fn hint_in_page(
        &self,
        id: PageId,
        hint: &mut dyn FnMut(&mut [u8]) -> Result<bool>,
    ) -> Result<()> {
        let Some(mut latch) = self.pin_page(id)?.try_latch() else {
            return Ok(());
        };
        if life_of(latch.page(), id)?.state == State::Run && hint(&mut latch.page_mut()[PAYLOAD])? {
            latch.mark_dirty_unlogged();
        }
        Ok(())
    }

    /// Whether the log is on disk up to the last logged change of a page; flushes it if `waits`.
    pub(super) fn is_change_durable(&self, id: PageId, waits: bool) -> Result<bool> {
        if !self.needs_wal() {
            return Ok(true);
        }
        let latch = self.pin_page(id)?.latch(Mode::Shared);
        let changed = version(latch.page());
        drop(latch);
        // SAFETY: a position that the log has reached.
        unsafe {
            if waits {
                pg_sys::XLogFlush(changed);
                return Ok(true);
            }
            Ok(!pg_sys::XLogNeedsFlush(changed))
        }
    }

    /// Reinitialises an empty page, with `payload` in its payload, and logs it as a whole.
    pub(crate) fn write_whole(&self, latch: &mut Latch, life: Life, payload: &[u8]) {
        let page = latch.page_mut();
        init(page);
        page[PAYLOAD][..payload.len()].copy_from_slice(payload);
        set_used(page, payload.len());
        set_life(page, life);
        if self.needs_wal() {
            log_whole(latch);
        } else {
            // SAFETY: the buffer is pinned and locked exclusively.
            unsafe { pg_sys::MarkBufferDirty(latch.buffer()) };
        }
    }
}

/// Makes a page one that batches write, if it is not yet.
fn begin_life(page: &mut [u8], stamp: u64) {
    if let Some(life) = life(page)
        && life.state != State::Node
    {
        set_used(page, PAYLOAD_LEN);
        set_life(
            page,
            Life {
                stamp,
                state: State::Node,
                ..life
            },
        );
    }
}

impl Batch for PgBatch<'_> {
    fn page(&self, index: usize) -> &[u8] {
        let page = self.pages.get(index).and_then(Option::as_ref);
        let (_, latch) = page.expect("the batch has such a page");
        &latch.page()[PAYLOAD]
    }

    fn add(&mut self, id: PageId) -> Result<()> {
        assert!(
            self.pages.iter().flatten().all(|(other, _)| *other != id),
            "a batch latches a page once"
        );
        assert!(
            self.len < MAX_BATCH_PAGES,
            "a batch latches at most {MAX_BATCH_PAGES} pages"
        );
        let latch = self.store.pin_page(id)?.latch(Mode::Exclusive);
        life_of(latch.page(), id)?;
        self.pages[self.len] = Some((id, latch));
        self.len += 1;
        Ok(())
    }

    fn commit(self, apply: impl FnOnce(&mut [&mut [u8]])) {
        if self.len == 0 {
            return apply(&mut []);
        }
        if self.store.is_initial() {
            return self.commit_initial(apply);
        }
        error_point();
        let stamp = next_transaction();
        let mut payloads: [&mut [u8]; MAX_BATCH_PAGES] = Default::default();
        // SAFETY: the relation is open. An error leaves memory of the transaction behind.
        let record = unsafe { pg_sys::GenericXLogStart(self.store.relation) };
        for ((payload, latch), used) in payloads.iter_mut().zip(self.latches()).zip(self.used) {
            // A standby may have anything in the place of a page that no batch has written in this
            // life: the record brings the whole page.
            let is_first = life(latch.page()).is_some_and(|life| life.state != State::Node);
            let flags = if is_first {
                pg_sys::GENERIC_XLOG_FULL_IMAGE
            } else {
                0
            };
            // SAFETY: the buffer is locked exclusively until the record is finished, and registered
            // once.
            let image =
                unsafe { pg_sys::GenericXLogRegisterBuffer(record, latch.buffer(), flags.cast_signed()) };
            // SAFETY: the image is a copy of the page, one for each buffer, and lives until the
            // record is finished.
            let image = unsafe { slice::from_raw_parts_mut(image.cast::<u8>(), PAGE_LEN) };
            begin_life(image, stamp);
            if let Some(len) = used {
                set_used(image, len);
            }
            *payload = &mut image[PAYLOAD];
        }
        apply(&mut payloads[..self.len]);
        // SAFETY: all buffers are still locked exclusively.
        unsafe { pg_sys::GenericXLogFinish(record) };
        let mut pins = self.store.reserved.borrow_mut();
        for (id, _) in self.pages.iter().flatten() {
            pins.remove(id);
        }
        drop(pins);
        error_point();
    }
}
