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
