//! The fingerprints of a bucket: a byte for each slot, compared all at once.
//!
//! As in [`search`](super::super::search), memory that may be racing with a writer is loaded into vectors by assembly:
//! each aligned 8-byte lane is what a relaxed atomic load of that word would be.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri), not(loom)),
    expect(
        unsafe_code,
        reason = "vector loads of racing memory, and calls of functions compiled for more features"
    )
)]

use super::super::primitive::{AtomicU64, Ordering};
use super::super::version_latch::Writer;
use super::bucket::{BUCKET_CAP, Slots};

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

impl Fingerprints {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// The slots that hold an entry.
    #[inline]
    pub(super) fn occupied(&self) -> Slots {
        gather(&self.0, |word| word & EACH_LANE)
    }

    /// The slots with this fingerprint.
    #[inline]
    pub(super) fn matching(&self, fingerprint: Fingerprint) -> Slots {
        matching(&self.0, fingerprint)
    }

    /// The fingerprint in a slot that holds an entry.
    pub(super) fn get(&self, slot: usize) -> Fingerprint {
        let lanes = self.0[slot / LANES].load(Ordering::Relaxed).to_le_bytes();
        Fingerprint(lanes[slot % LANES])
    }

    /// Fills a slot, or frees it.
    pub(super) fn set(&self, slot: usize, fingerprint: Option<Fingerprint>, _writer: Writer<'_>) {
        let word = &self.0[slot / LANES];
        let mut lanes = word.load(Ordering::Relaxed).to_le_bytes();
        lanes[slot % LANES] = fingerprint.map_or(0, |fingerprint| fingerprint.0);
        word.store(u64::from_le_bytes(lanes), Ordering::Relaxed);
    }
}

#[inline]
fn matching(words: &[AtomicU64], fingerprint: Fingerprint) -> Slots {
    // A model of cache lines sees no vector loads.
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if !cfg!(feature = "coherence")
        && let Ok(words) = words.try_into()
        && std::is_x86_feature_detected!("avx2")
    {
        // SAFETY: the processor has the feature.
        return unsafe { x86_64::matching_avx2(words, fingerprint) };
    }
    matching_by_words(words, fingerprint)
}

fn matching_by_words(words: &[AtomicU64], fingerprint: Fingerprint) -> Slots {
    let pattern = u64::from(fingerprint.0) * EACH_LANE;
    gather(words, |word| {
        const LOW_BITS: u64 = 0x7f * EACH_LANE;
        // Bit 7 of a lane is set if any bit of the lane differs.
        let differs = word ^ pattern;
        let differs = ((differs & LOW_BITS) + LOW_BITS) | differs;
        !differs >> 7 & EACH_LANE
    })
}

/// One bit of each lane: the lowest, in what `of_word` makes of eight fingerprints.
#[inline]
fn gather(words: &[AtomicU64], of_word: impl Fn(u64) -> u64) -> Slots {
    /// Moves the lowest bit of lane `i` to bit `56 + i`.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    words.iter().enumerate().fold(0, |slots, (index, word)| {
        let bits = of_word(word.load(Ordering::Relaxed))
            .wrapping_mul(GATHER)
            .to_le_bytes()[7];
        slots | Slots::from(bits) << (LANES * index)
    })
}

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
mod x86_64 {
    use std::arch::asm;
    use std::arch::x86_64::{__m256i, _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_set1_epi8};

    use super::{AtomicU64, Fingerprint, Slots};

    #[target_feature(enable = "avx2")]
    pub(super) fn matching_avx2(words: &[AtomicU64; 4], fingerprint: Fingerprint) -> Slots {
        let fingerprints: __m256i;
        // SAFETY: the array is four words long.
        unsafe {
            asm!(
                "vmovdqu {fingerprints}, [{words}]",
                fingerprints = lateout(ymm_reg) fingerprints,
                words = in(reg) words.as_ptr(),
                options(nostack, readonly, preserves_flags)
            );
        }
        let sought = _mm256_set1_epi8(fingerprint.0.cast_signed());
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(fingerprints, sought)).cast_unsigned()
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
                let expected = if present | 1 == sought | 1 { 1 << slot } else { 0 };
                let sought = Fingerprint::of_hash(sought as u64);
                assert_eq!(matching(&words, sought), expected, "{present} {sought:?}");
                assert_eq!(
                    matching_by_words(&words, sought),
                    expected,
                    "{present} {sought:?}"
                );
            }
        }
    }
}
