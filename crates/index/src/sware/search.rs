//! Counting in short ascending columns of keys: how a place is found in a node.
//!
//! Columns have a fixed length and are padded with [`NO_KEY`], so there is no branch to mispredict, and the compiler
//! makes vector instructions of the loops wherever the caller is compiled for a processor that has them. So whole
//! operations are compiled once more for such processors, and [`vectorised`] chooses. For 512 bits it makes worse code than
//! for 256: counts are taken from masks bit by bit. So what is done for many keys at once is written with such vectors by hand.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(
        unsafe_code,
        reason = "calls of functions compiled for more features, and a vector load"
    )
)]

/// Stands where there is no key: greater than every key in a node.
pub(super) const NO_KEY: u64 = u64::MAX;

/// Keys and their values.
pub(super) type Columns<'c> = (&'c [u64], &'c [u64]);

/// Keys searched at once.
pub(super) const GROUP: usize = 16;

/// Lanes of a vector.
pub(super) const LANES: usize = 8;

/// How many keys of the column lie below `probe`.
#[inline(always)]
pub(super) fn count_below<const N: usize>(column: &[u64; N], probe: u64) -> usize {
    let below: u64 = column.iter().map(|&key| u64::from(key < probe)).sum();
    usize_of(below)
}

/// How many keys of the column are at most `probe`, which is not [`NO_KEY`].
#[inline(always)]
pub(super) fn count_up_to<const N: usize>(column: &[u64; N], probe: u64) -> usize {
    let up_to: u64 = column.iter().map(|&key| u64::from(key <= probe)).sum();
    usize_of(up_to)
}

#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "counts lie below the length of a slice"
)]
const fn usize_of(count: u64) -> usize {
    count as usize
}

/// An operation that searches nodes.
pub(super) trait Searching {
    /// What it answers.
    type Answer;

    /// Does it. Must be `inline(always)`, and so must everything in it that searches, or vectors are not used.
    fn run(self) -> Self::Answer;
}

/// Does an operation with vectors of 256 bits, if the processor has them.
#[inline(always)]
pub(super) fn vectorised<S: Searching>(operation: S) -> S::Answer {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature.
            return unsafe { with_avx2(operation) };
        }
    }
    operation.run()
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
fn with_avx2<S: Searching>(operation: S) -> S::Answer {
    operation.run()
}

/// Whether the processor has vectors of 512 bits, and counts and shifts the bits of their masks.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(super) fn has_wide_vectors() -> bool {
    std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("popcnt")
}

/// A vector of these keys.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(keys: &[u64; LANES]) -> std::arch::x86_64::__m512i {
    // SAFETY: as many lanes are read as there are keys.
    unsafe { std::arch::x86_64::_mm512_loadu_epi64(keys.as_ptr().cast()) }
}

/// How many keys of the groups lie below `probe`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
pub(super) fn count_below_with_vectors(groups: &[[u64; LANES]], probe: u64) -> usize {
    use std::arch::x86_64::{_mm512_cmplt_epu64_mask, _mm512_set1_epi64};

    let probe = _mm512_set1_epi64(probe.cast_signed());
    let below = |group| _mm512_cmplt_epu64_mask(load(group), probe).count_ones() as usize;
    groups.iter().map(below).sum()
}
