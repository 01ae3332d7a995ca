//! Pairs of fences for two sides of a protocol: the frequent side's costs nearly nothing, the rare
//! side's is expensive.
//!
//! # Rule
//!
//! Take two threads: the first stores, passes [`light`], and loads; the second stores, passes
//! [`heavy`], and loads. Then at least one of them loads what the other stored, or something later:
//! as with a sequentially consistent fence in both. After [`heavy`] the second loads nothing older
//! than the first had loaded before it passed [`light`], unless the first sees what the second
//! stored.
//!
//! Where the system has the call `membarrier`, [`heavy`] has each core that runs a thread of this
//! process pass a fence, as if it stood wherever that thread just is; so [`light`] need only keep
//! the compiler from moving anything past it. Everywhere else both are sequentially consistent
//! fences.

#![cfg_attr(
    all(target_os = "linux", not(miri), not(loom)),
    expect(unsafe_code, reason = "a system call")
)]

pub(crate) use implementation::{heavy, light, prepare};

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
mod implementation {
    use std::io::Write;
    use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

    const UNKNOWN: u8 = 0;
    const MEMBARRIER: u8 = 1;
    const FENCES: u8 = 2;

    /// How it is done in this process: once it is known it stays so.
    static MEANS: AtomicU8 = AtomicU8::new(UNKNOWN);

    fn membarrier(command: libc::c_int) -> bool {
        let (flags, processor) = (0, 0);
        // SAFETY: the call reads and writes no memory of the process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, flags, processor) == 0 }
    }

    /// Finds out what the system has, so that [`light`] is light.
    pub(crate) fn prepare() {
        if MEANS.load(Ordering::Relaxed) == UNKNOWN {
            let has_it = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
            let means = if has_it { MEMBARRIER } else { FENCES };
            let _ = MEANS.compare_exchange(UNKNOWN, means, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    #[inline]
    pub(crate) fn light() {
        if MEANS.load(Ordering::Relaxed) == MEMBARRIER {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Ends the process if the system has forbidden the call since it was allowed: nothing else
    /// would do, and other threads would wait for ever for one that panicked here.
    #[cold]
    pub(crate) fn heavy() {
        prepare();
        fence(Ordering::SeqCst);
        if MEANS.load(Ordering::Acquire) == MEMBARRIER {
            // A process that was forked is perhaps not known yet.
            let is_done = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
                || membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
                    && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
            if !is_done {
                let _ = writeln!(std::io::stderr(), "membarrier is allowed no longer");
                std::process::abort();
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
mod implementation {
    use super::super::primitive::{Ordering, fence};

    pub(crate) const fn prepare() {}

    #[inline]
    pub(crate) fn light() {
        fence(Ordering::SeqCst);
    }

    #[cold]
    pub(crate) fn heavy() {
        fence(Ordering::SeqCst);
    }
}
