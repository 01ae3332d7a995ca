//! The fingerprints of a bucket: a byte for each slot, compared all at once.
//!
//! As in [`search`](crate::search::words), memory that may be racing with a writer is loaded into vectors by assembly:
//! each aligned 8-byte lane is what a relaxed atomic load of that word would be.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri), not(loom)),
    expect(unsafe_code, reason = "vector loads of racing memory")
)]

use crate::sync::primitive::{AtomicU64, Ordering};
use crate::sync::version_latch::Writer;

/// Entries in a bucket. Small under test, so that buckets fill and leaves split.
pub(super) const BUCKET_CAP: usize = if cfg!(any(test, miri, loom)) { 8 } else { 32 };

/// The slots of a bucket, one bit each.
pub(super) type Slots = u32;

const LANES: usize = 8;
const EACH_LANE: u64 = 0x0101_0101_0101_0101;

/// Seven bits of a key's hash, above a lowest bit that tells an entry from a free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(u8);

impl Fingerprint {
    pub(super) const fn of_hash(hash: u64) -> Self {
        Self(hash.to_le_bytes()[0] | 1)
    }
}

/// See the [module](self). All zeros is a bucket without entries.
#[derive(Debug)]
pub(super) struct Fingerprints([AtomicU64; BUCKET_CAP / LANES]);

/// What the fingerprints of a bucket tell, all of one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// The slots with the fingerprint that was sought.
    pub(super) matching: Slots,
    /// The slots that hold an entry.
    pub(super) occupied: Slots,
}

impl Fingerprints {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// The slots that hold an entry.
    #[inline]
    pub(super) fn occupied(&self) -> Slots {
        look(&self.0, Fingerprint(0)).occupied
    }

    /// Looks for a fingerprint.
    #[inline]
    pub(super) fn look(&self, fingerprint: Fingerprint) -> Seen {
        look(&self.0, fingerprint)
    }

    /// The fingerprint in a slot that holds an entry.
    pub(super) fn get(&self, slot: usize) -> Fingerprint {
        let lanes = self.0[slot / LANES].load(Ordering::Relaxed).to_le_bytes();
        Fingerprint(lanes[slot % LANES])
    }

    /// Fills a slot, or frees it.
    #[inline]
    pub(super) fn set(&self, slot: usize, fingerprint: Option<Fingerprint>, _writer: Writer<'_>) {
        let word = &self.0[slot / LANES];
        // By shifts: a byte put into an array in memory would have the processor wait for it before it loads the word again.
        let shift = 8 * (slot % LANES);
        let others = word.load(Ordering::Relaxed) & !(0xff << shift);
        let lane = u64::from(fingerprint.map_or(0, |fingerprint| fingerprint.0));
        word.store(others | lane << shift, Ordering::Relaxed);
    }
}

#[inline]
fn look(words: &[AtomicU64], fingerprint: Fingerprint) -> Seen {
    // A model of cache lines sees no vector loads.
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if !cfg!(feature = "coherence")
        && let Ok(words) = words.try_into()
    {
        // SAFETY: every processor of this architecture has the feature.
        return unsafe { x86_64::look_sse2(words, fingerprint) };
    }
    look_by_words(words, fingerprint)
}

fn look_by_words(words: &[AtomicU64], fingerprint: Fingerprint) -> Seen {
    const LOW_BITS: u64 = 0x7f * EACH_LANE;
    let pattern = u64::from(fingerprint.0) * EACH_LANE;
    let nothing = Seen {
        matching: 0,
        occupied: 0,
    };
    words.iter().enumerate().fold(nothing, |seen, (index, word)| {
        let word = word.load(Ordering::Relaxed);
        // Bit 7 of a lane is set if any bit of the lane differs.
        let differs = word ^ pattern;
        let differs = ((differs & LOW_BITS) + LOW_BITS) | differs;
        Seen {
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

    use super::{AtomicU64, Fingerprint, Seen};

    /// With two vectors of 16 bytes: no feature has to be told at run time, and the code goes where it is called.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn look_sse2(words: &[AtomicU64; 4], fingerprint: Fingerprint) -> Seen {
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
        let sought = _mm_set1_epi8(fingerprint.0.cast_signed());
        let bits = |low, high| {
            _mm_movemask_epi8(low).cast_unsigned() | _mm_movemask_epi8(high).cast_unsigned() << 16
        };
        Seen {
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
    fn a_fingerprint_matches_itself_alone() {
        let step = if cfg!(miri) { 51 } else { 1 };
        for present in (0..=255).step_by(step) {
            for sought in (0..=255).step_by(step) {
                let slot = (present + sought) % 32;
                let words: [AtomicU64; 4] = std::array::from_fn(|_| AtomicU64::new(0));
                let fingerprint = u64::from(Fingerprint::of_hash(present as u64).0);
                words[slot / LANES].store(fingerprint << (8 * (slot % LANES)), Ordering::Relaxed);
                let matching = if present | 1 == sought | 1 { 1 << slot } else { 0 };
                let sought = Fingerprint::of_hash(sought as u64);
                for seen in [look(&words, sought), look_by_words(&words, sought)] {
                    assert_eq!(seen.matching, matching, "{present} {sought:?}");
                    assert_eq!(seen.occupied, 1 << slot, "{present}");
                }
            }
        }
    }

    #[test]
    fn slots_are_filled_and_freed_one_by_one() {
        let fingerprints = Fingerprints::new();
        let of = |slot: usize| Fingerprint::of_hash(slot as u64 * 37);
        for slot in 0..BUCKET_CAP {
            fingerprints.set(slot, Some(of(slot)), Writer::UNPUBLISHED);
        }
        for freed in 0..BUCKET_CAP {
            let before = fingerprints.occupied();
            fingerprints.set(freed, None, Writer::UNPUBLISHED);
            assert_eq!(fingerprints.occupied(), before & !(1 << freed));
            for slot in freed + 1..BUCKET_CAP {
                assert_eq!(fingerprints.get(slot), of(slot));
            }
        }
    }
}
