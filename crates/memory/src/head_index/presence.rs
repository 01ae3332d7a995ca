//! Presence: which threads are writing.
//!
//! # Rules
//!
//! 1. A slot belongs to one thread at a time, which alone writes to it. Its *turn* is odd while the
//!    thread is present.
//! 2. A writer declares itself present, then reads the layout; a changer of the layout changes it,
//!    then reads the turns. Both pass a barrier in between, so one of them sees the other.
//! 3. A turn that was odd and has changed is over: a thread that sees the change sees its writes.
//!
//! Writers are many and waiting threads few: where the system can make every thread of the process
//! pass a barrier (`membarrier`, Linux), a writer needs none of its own.

#![cfg_attr(
    all(target_os = "linux", not(any(miri, loom))),
    expect(unsafe_code, reason = "a system call that the language has no safe word for")
)]

use crate::search::columns::Words;
use crate::sync::primitive::{AtomicU64, Ordering, fence};

/// State of one writer. See the [module](self).
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct WriterSlot<W: Words> {
    turn: AtomicU64,
    /// The least and the greatest key of the SB-tree's head, as of this generation: an insert
    /// within these bounds need not read the layout.
    pub(super) lease_generation: AtomicU64,
    pub(super) lease: W::KeyColumns<2>,
    /// Keys below this one are late.
    pub(super) mark: W::KeyColumns<1>,
    /// Late inserts of the current window.
    pub(super) late: AtomicU64,
    /// The mark of the next window.
    pub(super) next_mark: W::KeyColumns<1>,
    pub(super) removed: AtomicU64,
    /// Entries appended without presence.
    pub(super) appended: AtomicU64,
    /// Entries that the thread's lane had taken at the last check.
    pub(super) laned: AtomicU64,
    /// Writes when the thread last helped, and when the last window ended.
    pub(super) helped_at: AtomicU64,
    pub(super) window_at: AtomicU64,
    /// Writes when this writer last raised the limit.
    pub(super) raised_at: AtomicU64,
}

/// Marks the slot's thread as present until it is dropped.
#[derive(Debug)]
pub(super) struct Present<'s, W: Words> {
    slot: &'s WriterSlot<W>,
    turn: u64,
}

impl<W: Words> WriterSlot<W> {
    pub(super) fn new() -> Self {
        let (mark, next_mark) = (W::new_columns(), W::new_columns());
        W::MIN.store(&mark, 0);
        W::MIN.store(&next_mark, 0);
        Self {
            turn: AtomicU64::new(0),
            lease_generation: AtomicU64::new(0),
            lease: W::new_columns(),
            mark,
            late: AtomicU64::new(0),
            next_mark,
            removed: AtomicU64::new(0),
            appended: AtomicU64::new(0),
            laned: AtomicU64::new(0),
            helped_at: AtomicU64::new(0),
            window_at: AtomicU64::new(0),
            raised_at: AtomicU64::new(0),
        }
    }

    /// Declares the thread present; only the slot's thread calls it (rule 1).
    #[inline]
    pub(super) fn enter(&self, barrier: Barrier) -> Present<'_, W> {
        let turn = self.turn.load(Ordering::Relaxed) + 1;
        self.turn.store(turn, Ordering::Relaxed);
        barrier.pass_lightly();
        Present { slot: self, turn }
    }

    /// Returns how often the thread has been present, once per write and again for each frozen
    /// chunk met, plus the entries appended without presence, except the last few.
    #[inline]
    pub(super) fn writes(&self) -> u64 {
        self.turn.load(Ordering::Relaxed) / 2 + self.appended.load(Ordering::Relaxed)
    }

    /// Returns the current turn, if the thread is present.
    pub(super) fn turn_under_way(&self) -> Option<u64> {
        let turn = self.turn.load(Ordering::Acquire);
        (turn % 2 == 1).then_some(turn)
    }

    /// Returns whether a turn has ended.
    pub(super) fn has_ended(&self, turn: u64) -> bool {
        self.turn.load(Ordering::Acquire) != turn
    }
}

impl<W: Words> Drop for Present<'_, W> {
    #[inline]
    fn drop(&mut self) {
        self.slot.turn.store(self.turn + 1, Ordering::Release);
    }
}

/// The barrier that makes writers and waiting threads see each other (rule 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Barrier {
    /// Each side passes one.
    OfEach,
    /// The waiting thread makes all threads pass one.
    #[cfg(all(target_os = "linux", not(any(miri, loom))))]
    OfWaiters,
}

impl Barrier {
    /// Chooses the best barrier that the system offers.
    pub(super) fn new() -> Self {
        #[cfg(all(target_os = "linux", not(any(miri, loom))))]
        if membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
            return Self::OfWaiters;
        }
        Self::OfEach
    }

    #[inline]
    fn pass_lightly(self) {
        match self {
            Self::OfEach => fence(Ordering::SeqCst),
            #[cfg(all(target_os = "linux", not(any(miri, loom))))]
            Self::OfWaiters => std::sync::atomic::compiler_fence(Ordering::SeqCst),
        }
    }

    /// Passes the barrier of the waiting side.
    pub(super) fn pass(self) {
        fence(Ordering::SeqCst);
        #[cfg(all(target_os = "linux", not(any(miri, loom))))]
        if self == Self::OfWaiters {
            let has_passed = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
            assert!(
                has_passed,
                "a registered process may make its threads pass a barrier"
            );
        }
    }
}

#[cfg(all(target_os = "linux", not(any(miri, loom))))]
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes numbers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
