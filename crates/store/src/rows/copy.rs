//! Copying values that come from memory rather than from a cache.

use std::mem::MaybeUninit;
use std::slice;

use arrow_buffer::MutableBuffer;

use crate::prefetch::{prefetch, prefetch_to_write};

/// Bytes of a cache line.
const LINE: usize = 64;
/// How far prefetching runs ahead of copying. Farther ahead was slower on one processor, and a
/// tenth faster on another.
const AHEAD_BYTES: usize = 512;
/// The same for reads, on processors that move a whole line at once: on one of them 1,024 was an
/// eighth slower, 3,072 as fast.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const WIDE_AHEAD_BYTES: usize = 2048;

/// Appends bytes, possibly many.
///
/// Copies line by line, and prefetches the lines to be read and written next: above a few KB the
/// system's library uses an instruction that reaches half the speed on some processors when the
/// bytes come from memory.
#[expect(unsafe_code, reason = "room of a buffer is written before it counts as bytes")]
pub(crate) fn copy(bytes: &[u8], out: &mut MutableBuffer) {
    out.reserve(bytes.len());
    let begin = out.len();
    let room = out.as_mut_ptr().wrapping_add(begin);
    // SAFETY: the buffer has reserved room for as many bytes after its own, which no one else has;
    // it may be uninitialised.
    let places = unsafe { slice::from_raw_parts_mut(room.cast(), bytes.len()) };
    copy_to(bytes, places);
    // SAFETY: the buffer has room up to there, all of which was written.
    unsafe { out.set_len(begin + bytes.len()) };
}

/// Writes the bytes to as many places, by the widest moves that are worth it.
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(
        unsafe_code,
        reason = "whether the processor has an instruction is known at run time"
    )
)]
fn copy_to(bytes: &[u8], places: &mut [MaybeUninit<u8>]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { copy_by_avx512(bytes, places) };
        return;
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { copy_by_avx2(bytes, places) };
        return;
    }
    copy_lines::<AHEAD_BYTES>(bytes, places);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f")]
fn copy_by_avx512(bytes: &[u8], places: &mut [MaybeUninit<u8>]) {
    copy_lines::<WIDE_AHEAD_BYTES>(bytes, places);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
fn copy_by_avx2(bytes: &[u8], places: &mut [MaybeUninit<u8>]) {
    copy_lines::<AHEAD_BYTES>(bytes, places);
}

/// Inlined into each caller, for the moves that it may use; prefetches reads `READ_AHEAD` bytes
/// ahead.
#[inline(always)]
fn copy_lines<const READ_AHEAD: usize>(bytes: &[u8], places: &mut [MaybeUninit<u8>]) {
    debug_assert_eq!(bytes.len(), places.len());
    let (lines, bytes) = bytes.as_chunks::<LINE>();
    let (line_places, places) = places.as_chunks_mut::<LINE>();
    for (line, place) in lines.iter().zip(line_places) {
        // Beyond the last of them, too: what follows is often copied next.
        prefetch(line.as_ptr().wrapping_add(READ_AHEAD));
        prefetch_to_write(place.as_ptr().cast::<u8>().wrapping_add(AHEAD_BYTES));
        place.write_copy_of_slice(line);
    }
    // Values of 32 bytes often leave half a line.
    let (halves, bytes) = bytes.as_chunks::<{ LINE / 2 }>();
    let (half_places, places) = places.as_chunks_mut::<{ LINE / 2 }>();
    for (half, place) in halves.iter().zip(half_places) {
        place.write_copy_of_slice(half);
    }
    places.write_copy_of_slice(bytes);
}

/// Prefetches a few bytes, so that reads one after the other do not each wait for memory.
pub(crate) fn approach(bytes: &[u8]) {
    for line in bytes.chunks(LINE) {
        prefetch(line.as_ptr());
    }
    // The last byte may be on a line of its own.
    if let Some(last) = bytes.last() {
        prefetch(last);
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "what was written is read back")]
mod tests {
    use super::*;

    fn written(places: &[MaybeUninit<u8>]) -> Vec<u8> {
        // SAFETY: each was initialised before it was written to.
        places
            .iter()
            .map(|place| unsafe { place.assume_init() })
            .collect()
    }

    #[test]
    fn all_bytes_are_appended() {
        let bytes: Vec<u8> = (0..3000_u32).map(|n| (n % 251).to_le_bytes()[0]).collect();
        for len in [
            0, 1, 31, 32, 33, 63, 64, 65, 95, 96, 97, 511, 512, 513, 1984, 3000,
        ] {
            let mut out = MutableBuffer::new(0);
            out.extend_from_slice(b"before");
            approach(&bytes[..len]);
            copy(&bytes[..len], &mut out);
            assert_eq!(out.as_slice(), [b"before", &bytes[..len]].concat(), "{len} bytes");
            let mut places = vec![MaybeUninit::new(0); len];
            copy_lines::<AHEAD_BYTES>(&bytes[..len], &mut places);
            assert_eq!(written(&places), bytes[..len], "without wider moves, {len} bytes");
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if is_x86_feature_detected!("avx2") {
                places.fill(MaybeUninit::new(0));
                // SAFETY: the processor has what the function is compiled for.
                unsafe { copy_by_avx2(&bytes[..len], &mut places) };
                assert_eq!(
                    written(&places),
                    bytes[..len],
                    "by moves of 32 bytes, {len} bytes"
                );
            }
        }
    }
}
