//! Asking for memory before it is needed.

/// Asks for the cache line in which something begins.
#[inline]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "a hint that the language has no word for")
)]
pub(crate) fn prefetch<T>(_what: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(_what).cast()) };
    }
}

/// Asks for it if it is there.
#[inline]
pub(crate) fn prefetch_some<T>(what: Option<&T>) {
    if let Some(what) = what {
        prefetch(what);
    }
}

/// Asks for the cache line in which something begins, so that it may be written: other processors
/// give it up at once, not only their sole right to it.
#[inline]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "a hint that the language has no word for")
)]
pub(crate) fn prefetch_to_write<T>(_what: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: a prefetch is a hint and faults on no address; processors without this one do
        // nothing.
        unsafe {
            std::arch::asm!(
                "prefetchw [{what}]",
                what = in(reg) std::ptr::from_ref(_what),
                options(nostack, readonly, preserves_flags)
            );
        }
    }
}
