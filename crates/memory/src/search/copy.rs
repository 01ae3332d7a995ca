//! Copying words that a writer may be changing, into memory of one's own; and moving words that
//! others may be reading.
//!
//! Vectors are loaded as in [`search`](super::words): each word is read as by a relaxed atomic
//! load. They are stored likewise: each word, which is aligned, as by a relaxed atomic store.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri), not(loom)),
    expect(unsafe_code, reason = "vector loads of racing memory")
)]

use crate::sync::primitive::{AtomicU64, Ordering};

/// Copies `count` words of a column, from place `from` on, to the beginning of `target`: fewer if
/// the column or the target ends before.
///
/// How often it loops depends on the target's length alone. So the processor can foresee it where
/// `count` is on its way from memory still. Most often the target is filled: that takes few
/// instructions, so that the processor gets to what comes next while it waits for the words.
#[inline]
pub(crate) fn copy_words(column: &[AtomicU64], from: usize, count: usize, target: &mut [u64]) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if !cfg!(feature = "coherence") && std::is_x86_feature_detected!("avx512f") {
        if let Some(words) = column.get(from..)
            && count.min(words.len()) >= target.len()
        {
            // SAFETY: the processor has the feature, and there are as many words as the target
            // takes.
            return unsafe { x86_64::fill_avx512(words, target) };
        }
        // SAFETY: the processor has the feature.
        return unsafe { x86_64::copy_avx512(column, from, count, target) };
    }
    copy_scalar(column, from, count, target);
}

fn copy_scalar(column: &[AtomicU64], from: usize, count: usize, target: &mut [u64]) {
    let words = column.iter().skip(from).take(count);
    for (place, word) in target.iter_mut().zip(words) {
        *place = word.load(Ordering::Relaxed);
    }
}

/// Moves the words from position `from` to `end` one position up; the column has one more position.
/// Only the caller may be writing to them.
#[inline]
pub(crate) fn move_up(column: &[AtomicU64], from: usize, end: usize) {
    let words = &column[from..=end];
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    let left = x86_64::move_vectors_up(words);
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let left = words.len() - 1;
    for place in (0..left).rev() {
        words[place + 1].store(words[place].load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Moves the words after position `to`, up to position `end`, one position down, likewise.
#[inline]
pub(crate) fn move_down(column: &[AtomicU64], to: usize, end: usize) {
    let words = &column[to..end];
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    let done = x86_64::move_vectors_down(words);
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let done = 0;
    for place in done + 1..words.len() {
        words[place - 1].store(words[place].load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
mod x86_64 {
    use std::arch::asm;
    use std::arch::x86_64::{__m512i, _mm512_mask_storeu_epi64};

    use super::AtomicU64;

    const LANES: usize = 8;

    /// Moves the last words but one a place up, as many as vectors take; returns how many are left
    /// before them.
    #[inline]
    pub(crate) fn move_vectors_up(words: &[AtomicU64]) -> usize {
        let mut left = words.len() - 1;
        if !cfg!(feature = "coherence") && std::is_x86_feature_detected!("avx512f") {
            while left >= LANES {
                left -= LANES;
                // SAFETY: the processor has the feature, and a word more than the vector has is
                // there.
                unsafe { move_vector(&raw const words[left], &raw const words[left + 1]) };
            }
        }
        left
    }

    /// Moves all words but the first one position down, as many as vectors take; returns how many.
    #[inline]
    pub(crate) fn move_vectors_down(words: &[AtomicU64]) -> usize {
        let mut done = 0;
        if !cfg!(feature = "coherence") && std::is_x86_feature_detected!("avx512f") {
            while done + LANES < words.len() {
                // SAFETY: the processor has the feature, and a word more than the vector has is
                // there.
                unsafe { move_vector(&raw const words[done + 1], &raw const words[done]) };
                done += LANES;
            }
        }
        done
    }

    /// Loads a vector of words, and then stores it where it may overlap with them.
    ///
    /// # Safety
    ///
    /// The processor has AVX-512. Both are the first of so many words, and only the caller writes
    /// to the destination.
    #[inline]
    unsafe fn move_vector(source: *const AtomicU64, destination: *const AtomicU64) {
        // SAFETY: the words are there. Registers from 16 on have no counterpart in older
        // instruction sets.
        unsafe {
            asm!(
                "vmovdqu64 zmm16, [{source}]",
                "vmovdqu64 [{destination}], zmm16",
                source = in(reg) source,
                destination = in(reg) destination,
                out("xmm16") _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Fills the target.
    ///
    /// # Safety
    ///
    /// The processor has AVX-512, and the column is not shorter than the target.
    #[inline]
    pub(crate) unsafe fn fill_avx512(column: &[AtomicU64], target: &mut [u64]) {
        let (mut source, mut destination) = (column.as_ptr(), target.as_mut_ptr());
        let (chunks, rest) = (target.len() / LANES, target.len() % LANES);
        for _ in 0..chunks {
            // SAFETY: the processor has the feature, and both have so many words left.
            unsafe { move_vector(source, destination.cast()) };
            (source, destination) = (source.wrapping_add(LANES), destination.wrapping_add(LANES));
        }
        // SAFETY: both have so many words left as the mask has bits; masked-off lanes touch no
        // memory.
        unsafe {
            asm!(
                "kmovw k1, {lanes:e}",
                "vmovdqu64 zmm16{{k1}}{{z}}, [{source}]",
                "vmovdqu64 [{destination}]{{k1}}, zmm16",
                lanes = in(reg) (1_u32 << rest) - 1,
                source = in(reg) source,
                destination = in(reg) destination,
                out("xmm16") _,
                out("k1") _,
                options(nostack, preserves_flags)
            );
        }
    }

    #[target_feature(enable = "avx512f")]
    pub(crate) fn copy_avx512(column: &[AtomicU64], from: usize, count: usize, target: &mut [u64]) {
        let count = count.min(column.len().saturating_sub(from)).min(target.len());
        let (source, destination) = (column.as_ptr().wrapping_add(from), target.as_mut_ptr());
        for chunk in (0..target.len()).step_by(LANES) {
            let left = count.saturating_sub(chunk).min(LANES);
            let [lanes, _] = ((1_u16 << left) - 1).to_le_bytes();
            let words: __m512i;
            // SAFETY: only the first `count` words from `from` on are read, which the column has:
            // masked-off lanes touch no memory.
            unsafe {
                asm!(
                    "vmovdqu64 {words}{{{lanes}}}{{z}}, [{chunk}]",
                    words = lateout(zmm_reg) words,
                    lanes = in(kreg) lanes,
                    chunk = in(reg) source.wrapping_add(chunk),
                    options(nostack, readonly, preserves_flags)
                );
            }
            // SAFETY: only the first `count` words of the target are written, and it has as many.
            unsafe { _mm512_mask_storeu_epi64(destination.wrapping_add(chunk).cast(), lanes, words) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_copied_and_no_more() {
        let column: Vec<AtomicU64> = (100..140).map(AtomicU64::new).collect();
        for copy in [copy_words, copy_scalar] {
            for from in [0, 1, 7, 8, 33, 39, 40, 50] {
                for count in [0, 1, 7, 8, 9, 17, 40, 100] {
                    for room in [0, 1, 8, 15, 40, 64] {
                        let mut target = vec![0; room];
                        copy(&column, from, count, &mut target);
                        let copied = (from..40).take(count.min(room)).map(|place| 100 + place as u64);
                        let expected: Vec<u64> = copied.chain(std::iter::repeat(0)).take(room).collect();
                        assert_eq!(target, expected, "{count} from {from} for {room}");
                    }
                }
            }
        }
    }

    #[test]
    fn words_move_by_one_place() {
        for len in [0, 1, 7, 8, 9, 16, 17, 40] {
            for from in 0..=len {
                let column: Vec<AtomicU64> = (0..=len as u64).map(AtomicU64::new).collect();
                let words =
                    || -> Vec<u64> { column.iter().map(|word| word.load(Ordering::Relaxed)).collect() };
                let before = words();
                move_up(&column, from, len);
                let mut expected = before.clone();
                expected.copy_within(from..len, from + 1);
                assert_eq!(words(), expected, "up from {from} of {len}");
                // The word at `from` is there twice.
                move_down(&column, from, len + 1);
                expected.copy_within(from + 1.., from);
                assert_eq!(words(), expected, "down to {from} of {len}");
            }
        }
    }
}
