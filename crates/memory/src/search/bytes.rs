//! Comparing bytes, one for each slot, all at once.
//!
//! As in [`words`](super::words), memory that may be racing with a writer is loaded into vectors by
//! assembly: each aligned 8-byte lane is what a relaxed atomic load of that word would be.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri), not(loom)),
    expect(unsafe_code, reason = "vector loads of racing memory")
)]

use crate::sync::primitive::{AtomicU64, Ordering};

/// Slots, one bit each.
pub(crate) type Slots = u32;

/// Bytes of a word.
pub(crate) const LANES: usize = 8;

const EACH_LANE: u64 = 0x0101_0101_0101_0101;

/// The slots that were seen at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeenSlots {
    /// The slots with the byte that was sought.
    pub(crate) matching: Slots,
    /// The slots that hold an entry.
    pub(crate) occupied: Slots,
}

/// Looks at up to 32 bytes, eight a word, whose lowest bit tells an entry from a free slot.
#[inline]
pub(crate) fn look_for(words: &[AtomicU64], byte: u8) -> SeenSlots {
    // A model of cache lines sees no vector loads.
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if !cfg!(feature = "coherence")
        && let Ok(words) = words.try_into()
    {
        // SAFETY: every processor of this architecture has the feature.
        return unsafe { x86_64::look_sse2(words, byte) };
    }
    look_by_words(words, byte)
}

fn look_by_words(words: &[AtomicU64], byte: u8) -> SeenSlots {
    const LOW_BITS: u64 = 0x7f * EACH_LANE;
    let pattern = u64::from(byte) * EACH_LANE;
    let nothing = SeenSlots {
        matching: 0,
        occupied: 0,
    };
    words.iter().enumerate().fold(nothing, |seen, (index, word)| {
        let word = word.load(Ordering::Relaxed);
        // Bit 7 of a lane is set if any bit of the lane differs.
        let differs = word ^ pattern;
        let differs = ((differs & LOW_BITS) + LOW_BITS) | differs;
        SeenSlots {
            matching: seen.matching | gather(!differs >> 7) << (LANES * index),
            occupied: seen.occupied | gather(word) << (LANES * index),
        }
    })
}

/// The lowest bit of each lane.
fn gather(word: u64) -> Slots {
    /// Moves the lowest bit of lane `i` to bit `56 + i`.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    (word & EACH_LANE).wrapping_mul(GATHER).to_le_bytes()[7].into()
}

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
mod x86_64 {
    use std::arch::asm;
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set1_epi8, _mm_slli_epi16};

    use super::{AtomicU64, SeenSlots};

    /// With two vectors of 16 bytes: no feature has to be told at run time, and the code goes where
    /// it is called.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn look_sse2(words: &[AtomicU64; 4], byte: u8) -> SeenSlots {
        let (low, high): (__m128i, __m128i);
        // SAFETY: the array is four words long.
        unsafe {
            asm!(
                "movdqu {low}, [{words}]",
                "movdqu {high}, [{words} + 16]",
                low = out(xmm_reg) low,
                high = lateout(xmm_reg) high,
                words = in(reg) words.as_ptr(),
                options(nostack, readonly, preserves_flags)
            );
        }
        let sought = _mm_set1_epi8(byte.cast_signed());
        let bits = |low, high| {
            _mm_movemask_epi8(low).cast_unsigned() | _mm_movemask_epi8(high).cast_unsigned() << 16
        };
        SeenSlots {
            matching: bits(_mm_cmpeq_epi8(low, sought), _mm_cmpeq_epi8(high, sought)),
            // The lowest bit of each lane comes to be the highest.
            occupied: bits(_mm_slli_epi16::<7>(low), _mm_slli_epi16::<7>(high)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_byte_matches_itself_alone() {
        let step = if cfg!(miri) { 51 } else { 1 };
        for present in (0..=255_u64).step_by(step) {
            for sought in (0..=255_u64).step_by(step) {
                let slot = usize::try_from((present + sought) % 32).expect("few");
                let words: [AtomicU64; 4] = std::array::from_fn(|_| AtomicU64::new(0));
                let fingerprint = present | 1;
                words[slot / LANES].store(fingerprint << (8 * (slot % LANES)), Ordering::Relaxed);
                let matching = if present | 1 == sought | 1 { 1 << slot } else { 0 };
                let sought = sought.to_le_bytes()[0] | 1;
                for seen in [look_for(&words, sought), look_by_words(&words, sought)] {
                    assert_eq!(seen.matching, matching, "{present} {sought}");
                    assert_eq!(seen.occupied, 1 << slot, "{present}");
                }
            }
        }
    }
}
