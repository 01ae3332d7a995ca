//! Searching nodes with vectors of 512 bits.

#![expect(
    unsafe_code,
    reason = "vector loads, and calls of functions compiled for more features"
)]

use std::arch::x86_64::{
    __m512i, _mm256_cmple_epu16_mask, _mm256_loadu_epi16, _mm256_set1_epi16, _mm512_cmpeq_epu16_mask,
    _mm512_cmpeq_epu64_mask, _mm512_cmple_epu64_mask, _mm512_cmplt_epu64_mask, _mm512_loadu_epi16,
    _mm512_loadu_epi64, _mm512_set1_epi16, _mm512_set1_epi64,
};

use super::keys::{FINGERPRINTS, GROUP, LANES, Vectors};
use super::prefetch::prefetch;

const _: () = assert!(FINGERPRINTS == 32, "fingerprints fill a vector");

/// Exists only where the processor has vectors of 512 bits, and counts and shifts the bits of their
/// masks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wide(());

impl Wide {
    pub(crate) fn detect() -> Option<Self> {
        let has_all = std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512dq")
            && std::is_x86_feature_detected!("avx512vl")
            && std::is_x86_feature_detected!("bmi1")
            && std::is_x86_feature_detected!("bmi2")
            && std::is_x86_feature_detected!("popcnt");
        has_all.then_some(Self(()))
    }
}

impl Vectors for Wide {
    #[inline(always)]
    fn count_up_to(self, line: &[u64; LANES], probe: u64) -> usize {
        // SAFETY: the processor has the features, or there were no such value.
        unsafe { count_up_to(line, probe) }
    }

    #[inline(always)]
    fn last_sample_up_to(self, samples: &[u16; GROUP], probe: u16) -> usize {
        // SAFETY: as above.
        unsafe { last_sample_up_to(samples, probe) }
    }

    #[inline(always)]
    fn matching(self, fingerprints: &[u16; FINGERPRINTS], one: u16) -> u32 {
        // SAFETY: as above.
        unsafe { matching(fingerprints, one) }
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
pub(crate) fn load(keys: &[u64; LANES]) -> __m512i {
    // SAFETY: as many lanes are read as there are keys.
    unsafe { _mm512_loadu_epi64(keys.as_ptr().cast()) }
}

/// How many keys of a line are at most `probe`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,popcnt")]
fn count_up_to(line: &[u64; LANES], probe: u64) -> usize {
    let up_to = _mm512_cmple_epu64_mask(load(line), _mm512_set1_epi64(probe.cast_signed()));
    up_to.count_ones() as usize
}

/// How many keys of the groups lie below `probe`.
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
pub(crate) fn count_below_with_vectors(groups: &[[u64; LANES]], probe: u64) -> usize {
    let probe = _mm512_set1_epi64(probe.cast_signed());
    let below = |group| _mm512_cmplt_epu64_mask(load(group), probe).count_ones() as usize;
    groups.iter().map(below).sum()
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,popcnt")]
fn last_sample_up_to(samples: &[u16; GROUP], probe: u16) -> usize {
    // SAFETY: as many lanes are read as there are samples.
    let samples = unsafe { _mm256_loadu_epi16(samples.as_ptr().cast()) };
    let up_to = _mm256_cmple_epu16_mask(samples, _mm256_set1_epi16(probe.cast_signed()));
    (up_to & !1).count_ones() as usize
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn matching(fingerprints: &[u16; FINGERPRINTS], one: u16) -> u32 {
    // SAFETY: as many lanes are read as there are fingerprints.
    let fingerprints = unsafe { _mm512_loadu_epi16(fingerprints.as_ptr().cast()) };
    _mm512_cmpeq_epu16_mask(fingerprints, _mm512_set1_epi16(one.cast_signed()))
}

/// Values are asked for before the keys have come, and only one is read: of what waits for keys the
/// processor holds little.
#[inline]
#[target_feature(enable = "avx512f,bmi1")]
fn value_of(keys: &[u64; GROUP], values: &[u64; GROUP], key: u64) -> Option<u64> {
    let probe = _mm512_set1_epi64(key.cast_signed());
    let [low_keys, high_keys] = keys.as_chunks().0 else {
        return None;
    };
    values.as_chunks::<LANES>().0.iter().for_each(prefetch);
    let low = _mm512_cmpeq_epu64_mask(load(low_keys), probe);
    let high = _mm512_cmpeq_epu64_mask(load(high_keys), probe);
    let there = u32::from(high) << LANES | u32::from(low);
    values.get(there.trailing_zeros() as usize).copied()
}
