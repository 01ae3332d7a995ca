//! Searching nodes with vectors of 512 bits.

#![expect(
    unsafe_code,
    reason = "vector loads, and calls of functions compiled for more features"
)]

use std::arch::x86_64::{
    __m512i, _mm_cvtsi128_si64, _mm256_cmple_epu16_mask, _mm256_loadu_epi16, _mm256_set1_epi16,
    _mm512_castsi512_si128, _mm512_cmpeq_epu16_mask, _mm512_cmpeq_epu64_mask, _mm512_cmple_epu64_mask,
    _mm512_cmplt_epu64_mask, _mm512_loadu_epi16, _mm512_loadu_epi64, _mm512_maskz_compress_epi64,
    _mm512_or_si512, _mm512_set1_epi16, _mm512_set1_epi64,
};

use super::options::LEAF_WAITING;
use super::search::{GROUP, LANES, Vectors};

const _: () = assert!(LEAF_WAITING == 32, "fingerprints fill a vector");

/// Exists only where the processor has vectors of 512 bits, and counts and shifts the bits of their masks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wide(());

impl Wide {
    pub(super) fn detect() -> Option<Self> {
        let has_all = std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512vl")
            && std::is_x86_feature_detected!("bmi1")
            && std::is_x86_feature_detected!("bmi2")
            && std::is_x86_feature_detected!("popcnt");
        has_all.then_some(Self(()))
    }
}

impl Vectors for Wide {
    #[inline(always)]
    fn up_to<const N: usize>(self, column: &[u64; N], probe: u64) -> usize {
        // SAFETY: the processor has the features, or there were no such value.
        unsafe { up_to(column.as_chunks().0, probe) }
    }

    #[inline(always)]
    fn samples_up_to(self, samples: &[u16; GROUP], probe: u16) -> usize {
        // SAFETY: as above.
        unsafe { samples_up_to(samples, probe) }
    }

    #[inline(always)]
    fn is_among(self, fingerprints: &[u16; LEAF_WAITING], one: u16) -> bool {
        // SAFETY: as above.
        unsafe { is_among(fingerprints, one) }
    }

    #[inline(always)]
    fn value_of(self, keys: &[u64; GROUP], values: &[u64; GROUP], key: u64) -> Option<u64> {
        // SAFETY: as above.
        unsafe { value_of(keys, values, key) }
    }
}

/// A vector of these keys.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(keys: &[u64; LANES]) -> __m512i {
    // SAFETY: as many lanes are read as there are keys.
    unsafe { _mm512_loadu_epi64(keys.as_ptr().cast()) }
}

/// How many keys of up to eight groups are at most `probe`.
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
fn up_to(groups: &[[u64; LANES]], probe: u64) -> usize {
    let probe = _mm512_set1_epi64(probe.cast_signed());
    let mut up_to = 0_u64;
    for group in groups.iter().rev() {
        up_to = up_to << LANES | u64::from(_mm512_cmple_epu64_mask(load(group), probe));
    }
    up_to.count_ones() as usize
}

/// How many keys of the groups lie below `probe`.
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
pub(super) fn count_below_with_vectors(groups: &[[u64; LANES]], probe: u64) -> usize {
    let probe = _mm512_set1_epi64(probe.cast_signed());
    let below = |group| _mm512_cmplt_epu64_mask(load(group), probe).count_ones() as usize;
    groups.iter().map(below).sum()
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,popcnt")]
fn samples_up_to(samples: &[u16; GROUP], probe: u16) -> usize {
    // SAFETY: as many lanes are read as there are samples.
    let samples = unsafe { _mm256_loadu_epi16(samples.as_ptr().cast()) };
    let up_to = _mm256_cmple_epu16_mask(samples, _mm256_set1_epi16(probe.cast_signed()));
    up_to.count_ones() as usize
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn is_among(fingerprints: &[u16; LEAF_WAITING], one: u16) -> bool {
    // SAFETY: as many lanes are read as there are fingerprints.
    let fingerprints = unsafe { _mm512_loadu_epi16(fingerprints.as_ptr().cast()) };
    _mm512_cmpeq_epu16_mask(fingerprints, _mm512_set1_epi16(one.cast_signed())) != 0
}

#[inline]
#[target_feature(enable = "avx512f")]
fn value_of(keys: &[u64; GROUP], values: &[u64; GROUP], key: u64) -> Option<u64> {
    let probe = _mm512_set1_epi64(key.cast_signed());
    let [low_keys, high_keys] = keys.as_chunks().0 else {
        return None;
    };
    let [low_values, high_values] = values.as_chunks().0 else {
        return None;
    };
    let low = _mm512_cmpeq_epu64_mask(load(low_keys), probe);
    let high = _mm512_cmpeq_epu64_mask(load(high_keys), probe);
    let value = _mm512_or_si512(
        _mm512_maskz_compress_epi64(low, load(low_values)),
        _mm512_maskz_compress_epi64(high, load(high_values)),
    );
    let value = _mm_cvtsi128_si64(_mm512_castsi512_si128(value)).cast_unsigned();
    (low | high != 0).then_some(value)
}
