//! Atomics and waiting, from one place that loom, or a model of cache lines, can replace.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(all(not(loom), not(feature = "coherence")))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(all(not(loom), feature = "coherence"))]
pub(crate) use std::sync::atomic::{Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(all(not(loom), feature = "coherence"))]
pub(crate) use super::reporting::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64};

/// Words whose loads may return any earlier value: they only determine where to look first. Models
/// do not explore which value a load returns, as that would multiply their states: it is always the
/// last.
pub(crate) mod hint {
    #[cfg(not(loom))]
    pub(crate) use super::super::primitive::{AtomicU32, AtomicU64};
    #[cfg(loom)]
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64};
}

/// How to wait for another thread: first a few pauses of the processor, twice as many each time,
/// then the rest of the time slice, because the other may not be running.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    rounds: u32,
}

impl Backoff {
    const SPIN_ROUNDS: u32 = 6;

    /// Yields the time slice at once: the wait will be long.
    pub(crate) const fn patient() -> Self {
        Self {
            rounds: Self::SPIN_ROUNDS,
        }
    }

    pub(crate) fn wait(&mut self) {
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        if self.rounds < Self::SPIN_ROUNDS {
            for _ in 0..1_u32 << self.rounds {
                std::hint::spin_loop();
            }
        } else {
            std::thread::yield_now();
        }
        self.rounds = (self.rounds + 1).min(Self::SPIN_ROUNDS);
    }
}

/// Marks a place where another thread may do its worst. Under test the thread now and then gives up
/// its time slice here, so that interleavings a few instructions wide are met within seconds.
#[inline]
pub(crate) fn interleave() {
    #[cfg(all(test, not(loom)))]
    {
        thread_local! {
            static PASSED: std::cell::Cell<u64> = const { std::cell::Cell::new(1) };
        }
        let passed = PASSED.get();
        PASSED.set(
            passed
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f),
        );
        if passed >> 58 == 0 {
            std::thread::yield_now();
        }
    }
}
