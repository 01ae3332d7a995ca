//! Copying values that come from memory rather than from a cache.

use arrow_buffer::MutableBuffer;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Lines between what is copied and what is asked for: about what the processor copies while one is on its way.
const AHEAD: usize = 8;

/// Appends bytes that are perhaps many.
///
/// Line by line, and asks for what is to be read and written next: from 2 KB on the system's library copies by an instruction of
/// the processor that reaches half the speed where the bytes come from memory.
pub(crate) fn copy(bytes: &[u8], out: &mut MutableBuffer) {
    out.reserve(bytes.len());
    let (lines, rest) = bytes.as_chunks::<LINE>();
    let (first, last) = lines.split_at(lines.len().saturating_sub(AHEAD));
    for (line, ahead) in first.iter().zip(lines.iter().skip(AHEAD)) {
        prefetch(ahead);
        prefetch_to_write(out.as_ptr().wrapping_add(out.len() + AHEAD * LINE));
        out.extend_from_slice(line);
    }
    last.iter().for_each(|line| out.extend_from_slice(line));
    out.extend_from_slice(rest);
}

/// Asks for the memory of some bytes, few of them: what is read one after the other would be waited for each time.
pub(crate) fn approach(bytes: &[u8]) {
    bytes.chunks(LINE).for_each(prefetch);
    // The last byte may be on a line of its own.
    bytes.last().map(std::slice::from_ref).into_iter().for_each(prefetch);
}

/// Asks for the line in which something begins.
#[inline]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "a hint that the language has no word for")
)]
fn prefetch(_bytes: &[u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(_bytes.as_ptr().cast()) };
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
            assert_eq!(
                out.as_slice(),
                [b"before", &bytes[..len]].concat(),
                "{len} bytes"
            );
        }
    }
}
