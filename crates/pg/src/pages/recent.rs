//! In which buffers this process has found pages, so that it need not look them up in the server's
//! table of buffers again: that costs a lock and, in a large pool, a few lines of memory that no
//! cache has.
//!
//! The server looks whether a buffer still has the page. Such a look does not tell it that the page
//! is wanted, so now and then a page is read as usual: else pages that every scan reads would be
//! the first to be evicted. While reads of the index miss the server's buffers, which then evict
//! pages all the time, all are read as usual.

#![expect(unsafe_code, reason = "it calls the buffer manager of PostgreSQL")]

use std::cell::{Cell, RefCell};

use pgrx::pg_sys;

use crate::compat::{self, FileName};

/// Pages that are remembered, each at one place: as many as the runs of a million entries that are
/// above the leaves have, and theirs. They take 56 KiB.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 11;
/// How often a page is found so before it is read as usual.
const USES: u8 = 8;
/// How many reads after one that missed the server's buffers are taken to miss them, too.
const READS_AFTER_MISS: u8 = 64;

#[derive(Clone, Copy)]
struct Recent {
    file: FileName,
    block: pg_sys::BlockNumber,
    buffer: pg_sys::Buffer,
    uses: u8,
}

thread_local! {
    static RECENT: RefCell<[Option<Recent>; PLACES]> = const { RefCell::new([None; PLACES]) };
    /// How many more reads are taken to miss the server's buffers.
    static MISSES: Cell<u8> = const { Cell::new(0) };
}

/// How many pages this process has read that the server's buffers had not.
pub(crate) fn buffer_misses() -> i64 {
    // SAFETY: the process's own count.
    unsafe { pg_sys::pgBufferUsage.shared_blks_read }
}

fn place_of(block: pg_sys::BlockNumber) -> usize {
    (block.wrapping_mul(0x9e37_79b1) >> (u32::BITS - PLACE_BITS)) as usize
}

/// Whether pages of indexes that this process reads are likely not to be in the server's buffers.
pub(super) fn is_missing() -> bool {
    MISSES.get() > 0
}

/// Pins the buffer in which a block of the main fork was found last, if it is there still.
///
/// # Safety
///
/// The relation is open.
pub(super) unsafe fn pin(relation: pg_sys::Relation, block: pg_sys::BlockNumber) -> Option<pg_sys::Buffer> {
    if is_missing() {
        MISSES.set(MISSES.get() - 1);
        return None;
    }
    // SAFETY: the caller's.
    let file = unsafe { compat::file_of(relation) };
    let buffer = RECENT.with_borrow_mut(|recent| {
        let found = recent[place_of(block)].as_mut()?;
        let is_found = (found.file, found.block) == (file, block) && found.uses > 0;
        found.uses = found.uses.saturating_sub(1);
        is_found.then_some(found.buffer)
    })?;
    // SAFETY: the caller's; the server looks whether the buffer has the block.
    let is_pinned = unsafe {
        let locator = *compat::locator(relation);
        pg_sys::ReadRecentBuffer(locator, pg_sys::ForkNumber::MAIN_FORKNUM, block, buffer)
    };
    if is_pinned {
        // SAFETY: the caller's.
        unsafe { compat::count_buffer_hit(relation) };
    }
    is_pinned.then_some(buffer)
}

/// Reads and pins a block of the main fork as usual, and notes in which buffer it is.
///
/// # Safety
///
/// The relation is open, and has the block.
pub(super) unsafe fn read(relation: pg_sys::Relation, block: pg_sys::BlockNumber) -> pg_sys::Buffer {
    let before = buffer_misses();
    // SAFETY: the caller's.
    let buffer = unsafe { pg_sys::ReadBuffer(relation, block) };
    // SAFETY: the caller's.
    let file = unsafe { compat::file_of(relation) };
    if file.is_temporary() {
        return buffer;
    }
    if buffer_misses() != before {
        MISSES.set(READS_AFTER_MISS);
    }
    let uses = USES;
    RECENT.with_borrow_mut(|recent| {
        recent[place_of(block)] = Some(Recent {
            file,
            block,
            buffer,
            uses,
        });
    });
    buffer
}
