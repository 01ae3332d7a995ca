//! Copying values that come from memory rather than from a cache.

use std::mem::MaybeUninit;
use std::slice;

use arrow_buffer::MutableBuffer;

/// Bytes of a cache line.
const LINE: usize = 64;
type Line = [u8; LINE];
/// Bytes between what is copied and what is asked for: what is on its way at once. From farther ahead it was slower on one
/// processor, and a twentieth faster on another.
const AHEAD_BYTES: usize = 512;

/// Appends bytes that are perhaps many.
///
/// Line by line, and asks for what is to be read and written next: from a few KB on the system's library copies by an
/// instruction of the processor that on some reaches half the speed where the bytes come from memory.
#[expect(unsafe_code, reason = "room of a buffer is written before it counts as bytes")]
pub(crate) fn copy(bytes: &[u8], out: &mut MutableBuffer) {
    let (lines, rest) = bytes.as_chunks::<LINE>();
    let end = out.len() + lines.as_flattened().len();
    out.reserve(bytes.len());
    let room = out.as_mut_ptr().wrapping_add(out.len());
    // SAFETY: behind its bytes the buffer has reserved room for all lines, which nobody else has; it may be uninitialised, and
    // a line begins at any address.
    let places = unsafe { slice::from_raw_parts_mut(room.cast(), lines.len()) };
    copy_to(lines, places);
    // SAFETY: up to there there is room, of which each line was written.
    unsafe { out.set_len(end) };
    out.extend_from_slice(rest);
}

/// Writes each line to its place, of which there are as many, by the widest moves that are worth it.
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(
        unsafe_code,
        reason = "whether the processor has an instruction is known at run time"
    )
)]
fn copy_to(lines: &[Line], places: &mut [MaybeUninit<Line>]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { copy_by_avx2(lines, places) };
        return;
    }
    copy_lines(lines, places);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
fn copy_by_avx2(lines: &[Line], places: &mut [MaybeUninit<Line>]) {
    copy_lines(lines, places);
}

/// Compiled into each of those who call it, for the moves that they may use.
#[inline(always)]
fn copy_lines(lines: &[Line], places: &mut [MaybeUninit<Line>]) {
    debug_assert_eq!(lines.len(), places.len());
    for (line, place) in lines.iter().zip(places) {
        // Behind the last of them, too: what stands there is often copied next.
        prefetch(line.as_ptr().wrapping_add(AHEAD_BYTES));
        prefetch_to_write(place.as_ptr().cast::<u8>().wrapping_add(AHEAD_BYTES));
        place.write(*line);
    }
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
#[expect(unsafe_code, reason = "what was written is read back")]
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
            let (lines, _) = bytes[..len].as_chunks();
            let mut places = vec![MaybeUninit::new([0; LINE]); lines.len()];
            copy_lines(lines, &mut places);
            // SAFETY: each was initialised above.
            let copied = places.iter().map(|place| unsafe { place.assume_init() });
            assert!(
                copied.eq(lines.iter().copied()),
                "without wider moves, {len} bytes"
            );
        }
    }
}
