//! Prefetching memory, so that waits for several lines overlap.

/// Prefetches the line at an address.
#[inline]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "a hint that the language has no word for")
)]
pub(crate) fn prefetch(_address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(_address.cast()) };
    }
}

/// Prefetches the line at an address that is about to be written.
#[inline]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "a hint that the language has no word for")
)]
pub(crate) fn prefetch_to_write(_address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: a prefetch is a hint and faults on no address; processors without this one do
        // nothing.
        unsafe {
            std::arch::asm!(
                "prefetchw [{address}]",
                address = in(reg) _address,
                options(nostack, readonly, preserves_flags)
            );
        }
    }
}
