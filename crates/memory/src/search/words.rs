//! Searching an ascending column of words that a writer may be changing.
//!
//! Vector loads of racing memory have no counterpart in the language: an ordinary load would be a
//! data race. They are therefore written in assembly, where each 8-byte lane is what the processor
//! makes of it: an aligned, and so indivisible, load, the same as a relaxed atomic load of that
//! word. Under Miri and loom, and on processors without the instructions, words are loaded one by
//! one.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri), not(loom)),
    expect(
        unsafe_code,
        reason = "vector loads of racing memory, and calls of functions compiled for more features"
    )
)]

use crate::sync::primitive::hint::AtomicU32;
use crate::sync::primitive::{AtomicU64, Ordering};

/// How many words of an ascending column lie below `probe`. For a column that is changing, or does
/// not ascend: some number up to its length.
#[inline]
pub(crate) fn lower_bound(column: &[AtomicU64], probe: u64) -> usize {
    // A model of cache lines sees no vector loads.
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if !cfg!(feature = "coherence") && std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature.
        return unsafe { x86_64::lower_bound_avx2(column, probe) };
    }
    lower_bound_scalar(column, probe)
}

/// The vector instructions that the processor has: asked for once where several short columns are
/// searched.
#[derive(Debug, Clone, Copy)]
pub struct VectorUnit {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    avx512: bool,
}

impl VectorUnit {
    #[inline]
    pub(crate) fn of_this_processor() -> Self {
        Self {
            // A model of cache lines sees no vector loads.
            #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
            avx512: !cfg!(feature = "coherence") && std::is_x86_feature_detected!("avx512bw"),
        }
    }

    /// Whether to count those of many words that lie below another takes a few instructions; in
    /// tests it is as if it did.
    #[inline]
    pub(crate) fn count_many(self) -> bool {
        #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
        if self.avx512 {
            return true;
        }
        cfg!(any(test, miri, loom))
    }

    /// How many words lie below `probe`.
    #[inline]
    pub(crate) fn count_below<const N: usize>(self, words: &[AtomicU32; N], probe: u32) -> usize {
        #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
        if self.avx512
            && N == 64
            && let Some(words) = words.first_chunk()
        {
            // SAFETY: the processor has the feature.
            return unsafe { x86_64::count_below_of_64(words, probe) };
        }
        words
            .iter()
            .filter(|word| word.load(Ordering::Relaxed) < probe)
            .count()
    }
}

/// A mask of the words, of 8 or 16, for which the comparison of the probe with the word holds.
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
macro_rules! mask_of {
    (8, $compare:literal, $words:expr, $probe:expr) => {{
        let mask: u32;
        // SAFETY: the processor has the instructions, and only the 8 words are read. Registers from
        // 16 on have no counterpart in older instruction sets, so nothing slows down because they
        // are in use.
        unsafe {
            std::arch::asm!(
                "vpbroadcastq zmm16, {probe}",
                concat!($compare, " k1, zmm16, [{words}]"),
                "kmovw {mask:e}, k1",
                probe = in(reg) $probe,
                words = in(reg) $words.as_ptr(),
                mask = lateout(reg) mask,
                out("xmm16") _,
                out("k1") _,
                options(nostack, readonly, preserves_flags)
            );
        }
        mask
    }};
    (16, $compare:literal, $words:expr, $probe:expr) => {{
        let mask: u32;
        // SAFETY: as for 8 words, of 16.
        unsafe {
            std::arch::asm!(
                "vpbroadcastq zmm16, {probe}",
                concat!($compare, " k1, zmm16, [{words}]"),
                concat!($compare, " k2, zmm16, [{words} + 64]"),
                "kunpckbw k1, k2, k1",
                "kmovw {mask:e}, k1",
                probe = in(reg) $probe,
                words = in(reg) $words.as_ptr(),
                mask = lateout(reg) mask,
                out("xmm16") _,
                out("k1") _,
                out("k2") _,
                options(nostack, readonly, preserves_flags)
            );
        }
        mask
    }};
}

/// The position of the first of 16 words that is not below `probe`; 16 if all are. Words after it
/// need not ascend. For changing words, some number up to 16. Unlike [`lower_bound`] it compiles to
/// a few inline instructions, without a branch that depends on the words, where the processor has
/// AVX-512.
#[inline]
pub(crate) fn rank_of_16(words: &[AtomicU64; 16], probe: u64, _unit: VectorUnit) -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if _unit.avx512 {
        return (mask_of!(16, "vpcmpleuq", words, probe) | 1 << 16).trailing_zeros() as usize;
    }
    first_that(words, |word| word >= probe)
}

/// The place of the first of 16 words that is above `probe`, likewise.
#[inline]
pub(crate) fn rank_above_of_16(words: &[AtomicU64; 16], probe: u64, _unit: VectorUnit) -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if _unit.avx512 {
        return (mask_of!(16, "vpcmpltuq", words, probe) | 1 << 16).trailing_zeros() as usize;
    }
    first_that(words, |word| word > probe)
}

/// A mask of those of 16 words, in whatever order, that lie below `probe`.
#[inline]
pub(crate) fn below_of_16(words: &[AtomicU64; 16], probe: u64, _unit: VectorUnit) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if _unit.avx512 {
        return mask_of!(16, "vpcmpnleuq", words, probe);
    }
    words.iter().rev().fold(0, |mask, word| {
        mask << 1 | u32::from(word.load(Ordering::Relaxed) < probe)
    })
}

/// The place of the first of 8 words that is not below `probe`, likewise.
#[inline]
pub(crate) fn rank_of_8(words: &[AtomicU64; 8], probe: u64, _unit: VectorUnit) -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if _unit.avx512 {
        return (mask_of!(8, "vpcmpleuq", words, probe) | 1 << 8).trailing_zeros() as usize;
    }
    first_that(words, |word| word >= probe)
}

/// The position of the first word for which `is_it` holds, whatever follows it.
fn first_that(words: &[AtomicU64], is_it: impl Fn(u64) -> bool) -> usize {
    let found = words.iter().position(|word| is_it(word.load(Ordering::Relaxed)));
    found.unwrap_or(words.len())
}

/// How many words of an ascending column are at most `probe`, with the reserve of [`lower_bound`].
#[inline]
pub(crate) fn upper_bound(column: &[AtomicU64], probe: u64) -> usize {
    match probe.checked_add(1) {
        Some(next) => lower_bound(column, next),
        None => column.len(),
    }
}

/// Binary search whose steps are conditional moves: there is no branch to mispredict.
fn lower_bound_scalar(column: &[AtomicU64], probe: u64) -> usize {
    let mut base = 0;
    let mut len = column.len();
    while len > 0 {
        let half = len.div_ceil(2);
        if column[base + half - 1].load(Ordering::Relaxed) < probe {
            base += half;
        }
        len -= half;
    }
    base
}

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
mod x86_64 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m256i, _mm256_castsi256_pd, _mm256_cmpgt_epi64, _mm256_movemask_pd, _mm256_set1_epi64x,
        _mm256_xor_si256,
    };

    use super::{AtomicU32, AtomicU64, Ordering};

    /// Counts those of 64 words that lie below `probe`.
    ///
    /// # Safety
    ///
    /// The processor has AVX-512 with BW.
    #[inline]
    pub(crate) unsafe fn count_below_of_64(words: &[AtomicU32; 64], probe: u32) -> usize {
        let count: usize;
        // SAFETY: the processor has the instructions, POPCNT among them, and only the 64 words are
        // read. Registers from 16 on have no counterpart in older instruction sets, so nothing
        // slows down because they are in use.
        unsafe {
            asm!(
                "vpbroadcastd zmm16, {probe:e}",
                "vpcmpnleud k1, zmm16, [{words}]",
                "vpcmpnleud k2, zmm16, [{words} + 64]",
                "vpcmpnleud k3, zmm16, [{words} + 128]",
                "vpcmpnleud k4, zmm16, [{words} + 192]",
                "kunpckwd k1, k2, k1",
                "kunpckwd k3, k4, k3",
                "kunpckdq k1, k3, k1",
                "kmovq {count}, k1",
                "popcnt {count}, {count}",
                probe = in(reg) probe,
                words = in(reg) words.as_ptr(),
                count = lateout(reg) count,
                out("xmm16") _,
                out("k1") _,
                out("k2") _,
                out("k3") _,
                out("k4") _,
                options(nostack, readonly)
            );
        }
        count
    }

    #[target_feature(enable = "avx2")]
    pub(crate) fn lower_bound_avx2(column: &[AtomicU64], probe: u64) -> usize {
        const LANES: usize = 4;
        let sign = _mm256_set1_epi64x(i64::MIN);
        let probes = _mm256_xor_si256(_mm256_set1_epi64x(probe.cast_signed()), sign);
        let mut below = 0;
        let (chunks, rest) = column.as_chunks::<LANES>();
        for chunk in chunks {
            let words: __m256i;
            // SAFETY: the chunk is four words long.
            unsafe {
                asm!(
                    "vmovdqu {words}, [{chunk}]",
                    words = lateout(ymm_reg) words,
                    chunk = in(reg) chunk.as_ptr(),
                    options(nostack, readonly, preserves_flags)
                );
            }
            let is_below = _mm256_cmpgt_epi64(probes, _mm256_xor_si256(words, sign));
            below += _mm256_movemask_pd(_mm256_castsi256_pd(is_below)).count_ones() as usize;
        }
        below
            + rest
                .iter()
                .filter(|word| word.load(Ordering::Relaxed) < probe)
                .count()
    }

    #[cfg(test)]
    pub(crate) fn every_path() -> Vec<fn(&[AtomicU64], u64) -> usize> {
        let mut paths: Vec<fn(&[AtomicU64], u64) -> usize> = Vec::new();
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature.
            paths.push(|column, probe| unsafe { lower_bound_avx2(column, probe) });
        }
        paths
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_places() {
        let lanes = VectorUnit::of_this_processor();
        let words: [AtomicU64; 16] =
            std::array::from_fn(|place| AtomicU64::new(u64::MAX / 17 * (place as u64 + 1)));
        let eight = words.first_chunk().expect("there are more");
        let below = |probe, words: &[AtomicU64]| {
            words
                .iter()
                .filter(|word| word.load(Ordering::Relaxed) < probe)
                .count()
        };
        for word in words.iter().map(|word| word.load(Ordering::Relaxed)) {
            for probe in [0, word - 1, word, word.saturating_add(1), u64::MAX] {
                assert_eq!(rank_of_16(&words, probe, lanes), below(probe, &words), "{probe}");
                assert_eq!(rank_of_8(eight, probe, lanes), below(probe, eight), "{probe}");
                let up_to = probe.checked_add(1).map_or(16, |next| below(next, &words));
                assert_eq!(rank_above_of_16(&words, probe, lanes), up_to, "{probe}");
                let mask = below_of_16(&words, probe, lanes);
                assert_eq!(mask.count_ones() as usize, below(probe, &words), "{probe}");
            }
        }
    }

    #[test]
    fn words_below_are_counted() {
        let lanes = VectorUnit::of_this_processor();
        let words = [const { AtomicU32::new(0) }; 64];
        for (word, number) in words.iter().zip(1..) {
            word.store(u32::MAX / 64 * number - 7, Ordering::Relaxed);
        }
        for word in words.iter().map(|word| word.load(Ordering::Relaxed)) {
            for probe in [0, word - 1, word, word + 1, u32::MAX] {
                let below = words
                    .iter()
                    .filter(|word| word.load(Ordering::Relaxed) < probe)
                    .count();
                assert_eq!(lanes.count_below(&words, probe), below, "{probe}");
            }
        }
    }

    /// Columns are searched to their end, beyond what is in use.
    #[test]
    fn ranks_do_not_depend_on_what_lies_behind() {
        let lanes = VectorUnit::of_this_processor();
        let mut words = [const { AtomicU64::new(0) }; 16];
        for used in 0..16 {
            let column = words
                .each_ref()
                .map(|word| AtomicU64::new(word.load(Ordering::Relaxed)));
            let eight = column.first_chunk().expect("there are more");
            for expected in 1..=used {
                let probe = 10 * expected as u64 - 5;
                assert_eq!(first_that(&column, |word| word >= probe).min(used), expected);
                assert_eq!(rank_of_16(&column, probe, lanes).min(used), expected);
                assert_eq!(rank_above_of_16(&column, probe, lanes).min(used), expected);
                assert_eq!(rank_of_8(eight, probe, lanes).min(used), expected.min(8));
            }
            words[used] = AtomicU64::new(10 * used as u64);
        }
    }

    #[test]
    fn every_path_finds_every_place() {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        let vectors = x86_64::every_path();
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let vectors: [fn(&[AtomicU64], u64) -> usize; 0] = [];
        let mut paths: Vec<fn(&[AtomicU64], u64) -> usize> = vec![lower_bound_scalar, lower_bound];
        paths.extend(vectors);
        for len in 0..70_u64 {
            for scale in [1, 3, u64::MAX / 70] {
                let words: Vec<u64> = (0..len).map(|place| (place + 1) * scale).collect();
                let column: Vec<AtomicU64> = words.iter().map(|&word| AtomicU64::new(word)).collect();
                let probes = words
                    .iter()
                    .flat_map(|&word| [word - 1, word, word.saturating_add(1)]);
                for probe in probes.chain([0, u64::MAX, u64::MAX / 2]) {
                    let expected = words.partition_point(|&word| word < probe);
                    for path in &paths {
                        assert_eq!(path(&column, probe), expected, "{len} {scale} {probe}");
                    }
                    assert_eq!(
                        upper_bound(&column, probe),
                        words.partition_point(|&word| word <= probe)
                    );
                }
            }
        }
    }
}
