//! Stamps: the order in which several writers inserted entries.
//!
//! # Rule
//!
//! If one insert returned before another began, the stamp of the first is less.
//!
//! A stamp gives an order, not a time. The processor's time-stamp counter yields such stamps
//! without a word shared by all writers, if the processor reports it as invariant: operating
//! systems then synchronise the counters of all cores, or do not use them. It is read by the
//! instruction that waits for all earlier ones, so not before the thread's earlier reads. Elsewhere
//! a shared counter is incremented.
//!
//! The processor's counter may begin again when the machine sleeps (suspend to RAM) or when an
//! image of the process is restored, and the counters of several sockets may differ. So stamps only
//! order entries of different logs: of those of one log the last is the newest, and no writer sees
//! its own older value.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri), not(loom)),
    expect(unsafe_code, reason = "instructions that the language has no safe word for")
)]

use crate::sync::primitive::{AtomicU64, Ordering};

/// Replaces the stamp of an entry that is older than all stamped entries of its segment.
pub(crate) const UNSTAMPED: u64 = 1;
/// Replaces the stamp of an entry that was taken over from the previous segment: it is older still.
pub(crate) const OLDER: u64 = 0;
const LEAST_STAMP: u64 = UNSTAMPED + 1;

/// See the [module](self).
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Stamps {
    last: AtomicU64,
    from_processor: bool,
}

impl Stamps {
    /// Creates a source of stamps, which uses the processor's counter if it is invariant and
    /// `may_use_processor`.
    pub(crate) fn new(may_use_processor: bool) -> Self {
        Self {
            last: AtomicU64::new(LEAST_STAMP),
            from_processor: may_use_processor && processor_has_stamps(),
        }
    }

    /// Begins again, as the processor's counter does after a sleep.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn begin_again(&self) {
        self.last.store(LEAST_STAMP, Ordering::Relaxed);
    }

    /// Returns the next stamp.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        if self.from_processor {
            processor_stamp()
        } else {
            self.last.fetch_add(1, Ordering::AcqRel)
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
fn processor_has_stamps() -> bool {
    use std::arch::x86_64::__cpuid;
    const FEATURES: u32 = 0x8000_0001;
    const RDTSCP: u32 = 1 << 27;
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= POWER_MANAGEMENT
        && __cpuid(FEATURES).edx & RDTSCP != 0
        && __cpuid(POWER_MANAGEMENT).edx & INVARIANT_TSC != 0
}

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
#[inline]
fn processor_stamp() -> u64 {
    use std::arch::x86_64::__rdtscp;
    let mut core = 0;
    // SAFETY: every processor with an invariant counter has the instruction; it writes to `core`
    // alone.
    unsafe { __rdtscp(&raw mut core) }
}

#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
fn processor_has_stamps() -> bool {
    false
}

#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
fn processor_stamp() -> u64 {
    0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn stamps_ascend() {
        for stamps in [Stamps::new(true), Stamps::new(false)] {
            let drawn: Vec<u64> = (0..1000).map(|_| stamps.next()).collect();
            assert!(drawn.is_sorted());
        }
    }
}
