//! Copying values that come from memory rather than from a cache.

use arrow_buffer::MutableBuffer;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes between what is copied and what is asked for: what is on its way at once. From farther ahead it was slower.
const AHEAD_BYTES: usize = 512;

/// Appends bytes that are perhaps many.
///
/// Line by line, and asks for what is to be read and written next: from 2 KB on the system's library copies by an instruction of
/// the processor that reaches half the speed where the bytes come from memory.
pub(crate) fn copy(bytes: &[u8], out: &mut MutableBuffer) {
    out.reserve(bytes.len());
    let (lines, rest) = bytes.as_chunks::<LINE>();
    for line in lines {
        // Behind the last of them, too: what stands there is often copied next.
        prefetch(line.as_ptr().wrapping_add(AHEAD_BYTES));
        prefetch_to_write(out.as_ptr().wrapping_add(out.len() + AHEAD_BYTES));
        out.extend_from_slice(line);
    }
    out.extend_from_slice(rest);
}

/// Asks for the memory of some bytes, few of them: what is read one after the other would be waited for each time.
pub(crate) fn approach(bytes: &[u8]) {
    for line in bytes.chunks(LINE) {
        prefetch(line.as_ptr());
    }
    // The last byte may be on a line of its own.
    if let Some(last) = bytes.last() {
        prefetch(last);
    }
}

/// Asks for the line at an address.
#[inline]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "a hint that the language has no word for")
)]
fn prefetch(_address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(_address.cast()) };
    }
}

/// Asks for the line at an address, which is about to be written.
#[inline]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "a hint that the language has no word for")
)]
fn prefetch_to_write(_address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: a prefetch is a hint and faults on no address; processors without this one do nothing.
        unsafe {
            std::arch::asm!(
                "prefetchw [{address}]",
                address = in(reg) _address,
                options(nostack, readonly, preserves_flags)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_appended() {
        let bytes: Vec<u8> = (0..3000_u32).map(|n| (n % 251).to_le_bytes()[0]).collect();
        for len in [0, 1, 63, 64, 65, 511, 512, 513, 1984, 3000] {
            let mut out = MutableBuffer::new(0);
            out.extend_from_slice(b"before");
            approach(&bytes[..len]);
            copy(&bytes[..len], &mut out);
            assert_eq!(out.as_slice(), [b"before", &bytes[..len]].concat(), "{len} bytes");
        }
    }
}
