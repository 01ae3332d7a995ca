//! Pages in the server's buffers: pinned, and latched.
//!
//! # Invariants
//!
//! 1. A [`Pin`] holds a pin on its buffer, so the buffer keeps its page. PostgreSQL hands the
//!    memory of a buffer to nobody else while it is pinned.
//! 2. A [`Latch`] holds the content lock of its pinned buffer in its mode: shared, and no process
//!    writes the page except for hint bits, which our pages do not have; exclusive, and there is no
//!    other reader.
//! 3. *While a panic unwinds, nothing is released here.* A PostgreSQL error has set
//!    `InterruptHoldoffCount` to zero before it unwinds; releasing a content lock then would count
//!    it down to 2³² − 1, and the session could never be cancelled again. The abort of the
//!    transaction, to which every error leads, releases content locks and pins in the right order
//!    itself.

#![expect(
    unsafe_code,
    reason = "buffers are PostgreSQL's, and it is told in C how they are held"
)]

use std::mem::ManuallyDrop;
use std::slice;

use pgrx::pg_sys;

use super::header::PAGE_LEN;
use super::recent;

/// How a page is latched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// A pinned buffer.
pub(crate) struct Pin(pg_sys::Buffer);

impl Pin {
    /// Reads a block and pins it, into the buffers of a strategy unless it is null; an I/O error or
    /// a wrong checksum is an error of the server.
    ///
    /// # Safety
    ///
    /// `relation` is open, and has the block. The strategy is null or valid.
    pub(crate) unsafe fn read(
        relation: pg_sys::Relation,
        fork: pg_sys::ForkNumber::Type,
        block: pg_sys::BlockNumber,
        strategy: pg_sys::BufferAccessStrategy,
    ) -> Self {
        let mode = pg_sys::ReadBufferMode::RBM_NORMAL;
        let is_usual = fork == pg_sys::ForkNumber::MAIN_FORKNUM && strategy.is_null();
        // SAFETY: the caller's.
        unsafe {
            Self(if !is_usual {
                pg_sys::ReadBufferExtended(relation, fork, block, mode, strategy)
            } else if let Some(buffer) = recent::pin(relation, block) {
                buffer
            } else {
                recent::read(relation, block)
            })
        }
    }

    /// Takes over a pin.
    ///
    /// # Safety
    ///
    /// The caller holds a pin on `buffer`, and gives it away.
    pub(crate) unsafe fn from_raw(buffer: pg_sys::Buffer) -> Self {
        Self(buffer)
    }

    pub(crate) fn buffer(&self) -> pg_sys::Buffer {
        self.0
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: the buffer is valid, as it is pinned (invariant 1).
        unsafe { pg_sys::BufferGetPage(self.0) }.cast()
    }

    /// The page, without a latch.
    ///
    /// # Safety
    ///
    /// Nobody changes the page while the result is in use, or only to what it holds already.
    pub(crate) unsafe fn page_unlatched(&self) -> &[u8] {
        // SAFETY: a pinned buffer is a page of memory (invariant 1); that it does not change is the
        // caller's.
        unsafe { slice::from_raw_parts(self.start(), PAGE_LEN) }
    }

    /// Latches the page.
    pub(crate) fn latch(self, mode: Mode) -> Latch {
        let lock = match mode {
            Mode::Shared => pg_sys::BUFFER_LOCK_SHARE,
            Mode::Exclusive => pg_sys::BUFFER_LOCK_EXCLUSIVE,
        };
        // SAFETY: the buffer is pinned.
        unsafe { pg_sys::LockBuffer(self.0, lock.cast_signed()) };
        Latch {
            pin: ManuallyDrop::new(self),
            mode,
        }
    }

    /// Latches the page exclusively, if it is not latched.
    pub(crate) fn try_latch(self) -> Option<Latch> {
        // SAFETY: the buffer is pinned.
        let is_latched = unsafe { pg_sys::ConditionalLockBuffer(self.0) };
        // Not `then_some`: a latch that is not held must not be dropped.
        is_latched.then(|| Latch {
            pin: ManuallyDrop::new(self),
            mode: Mode::Exclusive,
        })
    }

    /// Latches the page exclusively, if there is no other pin on it, even by this process.
    pub(crate) fn latch_alone(self) -> Option<Latch> {
        // SAFETY: the buffer is pinned.
        let is_alone = unsafe { pg_sys::ConditionalLockBufferForCleanup(self.0) };
        // Not `then_some`: a latch that is not held must not be dropped.
        is_alone.then(|| Latch {
            pin: ManuallyDrop::new(self),
            mode: Mode::Exclusive,
        })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the pin is ours (invariant 1), and is given up with `self`.
            unsafe { pg_sys::ReleaseBuffer(self.0) };
        }
    }
}

/// A pinned buffer whose content lock is held.
pub(crate) struct Latch {
    /// Given up together with the content lock, by one call.
    pin: ManuallyDrop<Pin>,
    mode: Mode,
}

impl Latch {
    /// Takes over a pinned buffer whose content lock is held exclusively.
    ///
    /// # Safety
    ///
    /// The caller holds both, and gives them away.
    pub(crate) unsafe fn from_raw(buffer: pg_sys::Buffer) -> Self {
        Self {
            // SAFETY: the caller's.
            pin: ManuallyDrop::new(unsafe { Pin::from_raw(buffer) }),
            mode: Mode::Exclusive,
        }
    }

    pub(crate) fn buffer(&self) -> pg_sys::Buffer {
        self.pin.buffer()
    }

    /// Gives up the content lock and keeps the pin.
    pub(crate) fn unlatch(self) -> Pin {
        let latch = ManuallyDrop::new(self);
        // SAFETY: the content lock is ours (invariant 2), and is given up with `self`.
        unsafe { pg_sys::LockBuffer(latch.buffer(), pg_sys::BUFFER_LOCK_UNLOCK.cast_signed()) };
        // The pin that `self` had, which is not dropped with it.
        Pin(latch.buffer())
    }

    pub(crate) fn page(&self) -> &[u8] {
        // SAFETY: latched, nobody changes it (invariant 2).
        unsafe { self.pin.page_unlatched() }
    }

    /// The page, for changes that need no log: that of a fresh page, or of a hint.
    ///
    /// # Panics
    ///
    /// If it is latched shared.
    pub(crate) fn page_mut(&mut self) -> &mut [u8] {
        assert!(
            self.mode == Mode::Exclusive,
            "a page is changed under an exclusive latch"
        );
        // SAFETY: latched exclusively, nobody else looks at it (invariant 2), and `self` is
        // borrowed meanwhile.
        unsafe { slice::from_raw_parts_mut(self.pin.start(), PAGE_LEN) }
    }

    /// Has the page written some time, without a log record of the change; with checksums the
    /// server may log an image of the page, so that a torn write of it can be repaired.
    pub(crate) fn mark_dirty_unlogged(&self) {
        // SAFETY: the buffer is pinned and locked; the page has a standard header.
        unsafe { pg_sys::MarkBufferDirtyHint(self.buffer(), true) };
    }
}

impl Drop for Latch {
    fn drop(&mut self) {
        // Invariant 3.
        if !std::thread::panicking() {
            // SAFETY: the content lock and the pin are ours (invariants 1 and 2), and are given up
            // with `self`.
            unsafe { pg_sys::UnlockReleaseBuffer(self.pin.0) };
        }
    }
}
