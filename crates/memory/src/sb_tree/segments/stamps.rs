//! In which order entries of several writers came.
//!
//! # Rule
//!
//! If one insert returned before another began, then the stamp of the first is less.
//!
//! A stamp orders, and tells no time. The processor's time-stamp counter gives such stamps without a word that all writers
//! share, if the processor says that it is invariant: operating systems run the counters of all cores in step then, or do
//! not use them. It is read by the instruction that waits for all earlier ones, so not before what the thread saw of
//! others. Everywhere else a shared counter is
//! incremented.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri), not(loom)),
    expect(unsafe_code, reason = "instructions that the language has no safe word for")
)]

use crate::sync::primitive::{AtomicU64, Ordering};

/// Instead of a stamp, where an entry is older than what is stamped in its segment.
pub(crate) const UNSTAMPED: u64 = 1;
/// The same for an entry that was taken over from the segment before: it is older still.
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
    /// Stamps from the processor where it has them and `may_use_processor` says so.
    pub(crate) fn new(may_use_processor: bool) -> Self {
        Self {
            last: AtomicU64::new(LEAST_STAMP),
            from_processor: may_use_processor && processor_has_stamps(),
        }
    }

    /// The next stamp.
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
    // SAFETY: every processor with an invariant counter has the instruction; it writes to `core` alone.
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
