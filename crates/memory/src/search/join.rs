//! Joining a leaf with its pending entries, with vectors of 512 bits.
//!
//! Pending entries need not be sorted. The rank of a pending entry among the joined ones is the
//! number of keys of the leaf below its own, plus the number of pending keys before it. Then the
//! columns are written eight entries at a time: the leaf's entries are spread over the remaining
//! slots, and the pending ones are put between them.

#![expect(unsafe_code, reason = "vector instructions that the compiler does not find")]

use std::arch::x86_64::{
    __m512i, _mm_loadl_epi64, _mm_min_epu16, _mm_set_epi64x, _mm_set1_epi16, _mm256_cmple_epu16_mask,
    _mm256_loadu_epi16, _mm256_set_m128i, _mm512_castsi256_si512, _mm512_castsi512_si256,
    _mm512_cmple_epu64_mask, _mm512_cmplt_epu16_mask, _mm512_cmplt_epu64_mask, _mm512_cvtepu8_epi64,
    _mm512_cvtusepi64_epi16, _mm512_inserti64x4, _mm512_mask_blend_epi16, _mm512_maskz_compress_epi64,
    _mm512_max_epu64, _mm512_or_si512, _mm512_permutexvar_epi64, _mm512_set1_epi16, _mm512_set1_epi64,
    _mm512_setr_epi64, _mm512_setzero_si512, _mm512_sllv_epi64, _mm512_srl_epi64, _mm512_storeu_epi16,
    _mm512_storeu_epi64, _mm512_sub_epi64,
};
use std::ops::Range;

use super::keys::{EntryColumns, EntryColumnsMut, FINGERPRINTS, GROUP, LANES, MOST, NO_SAMPLE};
use super::prefetch::prefetch;
use super::wide::{Wide, load};

/// Lines of keys prefetched for each pending entry that is placed: those of a leaf with an average
/// number of pending entries.
const ASKED: usize = 2;

/// Joined entries whose places have bits: a vector of them.
const PLACES: usize = 512;

/// Entries that may wait.
const LATE: usize = FINGERPRINTS;

const _: () = assert!(
    LATE == 4 * LANES && LATE * 16 == 512,
    "samples of what waits fill a vector"
);

/// The columns of a leaf, padded with the greatest key, and a sample of each group of keys: how far
/// its first key lies above the base, in steps of so many bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampled<'l, const N: usize> {
    pub(crate) keys: &'l [u64; N],
    pub(crate) values: &'l [u64; N],
    pub(crate) samples: &'l [u16; GROUP],
    pub(crate) base: u64,
    pub(crate) step_bits: u8,
}

/// Lines of columns of keys and values, to be asked for.
pub(crate) type Lines<'l> = (&'l [[u64; LANES]], &'l [[u64; LANES]]);

/// Late entries in order of arrival, at the beginning of columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unsorted<'w> {
    pub(crate) keys: &'w [u64; LATE],
    pub(crate) values: &'w [u64; LATE],
    pub(crate) len: usize,
}

/// The positions of the pending entries among the joined ones.
struct JoinedPlaces {
    /// By order of arrival.
    of_waiting: [usize; LATE],
    /// For each eight places which of them these are.
    masks: [u8; PLACES / LANES],
}

/// Writes the entries of a stretch of a leaf and those that wait, which belong between the
/// neighbours of the stretch, to the beginnings of columns, and asks for the next leaf meanwhile, a
/// few lines at a time: of all at once most would wait for the first ones, and the join with them.
/// Returns how many there are. If an entry replaces another one, or keys are too near to one
/// another for samples to tell them apart, nothing is written.
#[inline(always)]
pub(crate) fn join_waiting<const N: usize>(
    leaf: Sampled<'_, N>,
    stretch: Range<usize>,
    waiting: Unsorted<'_>,
    (next_keys, next_values): Lines<'_>,
    target: EntryColumnsMut<'_>,
    _: Wide,
) -> Option<usize> {
    // SAFETY: the processor has the features, or there were no such value.
    unsafe { join_with_vectors(leaf, stretch, waiting, (next_keys, next_values), target) }
}

/// Late entries between the bounds, in the same order, and newer ones behind them; in `room` if
/// they are not just `waiting`. Nothing if there are more than may wait.
#[inline(always)]
pub(crate) fn late_between<'w>(
    waiting: Option<Unsorted<'w>>,
    newer: EntryColumns<'_>,
    bounds: (u64, u64),
    room: (&'w mut [u64; LATE], &'w mut [u64; LATE]),
    _: Wide,
) -> Option<Unsorted<'w>> {
    // SAFETY: the processor has the features, or there were no such value.
    unsafe { late_with_vectors(waiting, newer, bounds, room) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,popcnt")]
fn join_with_vectors<const N: usize>(
    leaf: Sampled<'_, N>,
    stretch: Range<usize>,
    waiting: Unsorted<'_>,
    (next_keys, next_values): Lines<'_>,
    target: EntryColumnsMut<'_>,
) -> Option<usize> {
    const { assert!(N + LATE <= PLACES, "every place has a bit") };
    let mut places = JoinedPlaces {
        of_waiting: [0; LATE],
        masks: [0; PLACES / LANES],
    };
    if !places.find(leaf, stretch.start, waiting, next_keys) {
        return None;
    }
    let len = stretch.len() + waiting.len;
    let columns = (target.0.as_chunks_mut().0, target.1.as_chunks_mut().0);
    let masks = &places.masks[..len.div_ceil(LANES)];
    spread(leaf, stretch.start, masks, columns, next_values);
    let late = waiting.keys.iter().zip(waiting.values).take(waiting.len);
    for ((&key, &value), &place) in late.zip(&places.of_waiting) {
        target.0[place] = key;
        target.1[place] = value;
    }
    Some(len)
}

impl JoinedPlaces {
    /// Finds the places of what waits in a stretch of a leaf from this rank on; says whether no
    /// entry replaces another one, and samples tell all of them apart. Asks for the next lines
    /// meanwhile.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,popcnt")]
    fn find<const N: usize>(
        &mut self,
        leaf: Sampled<'_, N>,
        start: usize,
        waiting: Unsorted<'_>,
        next: &[[u64; LANES]],
    ) -> bool {
        let samples = samples_of_waiting(leaf, waiting);
        let mut each_sample = [0_u16; LATE];
        // SAFETY: there are as many as the vector has.
        unsafe { _mm512_storeu_epi16(each_sample.as_mut_ptr().cast(), samples) };
        // SAFETY: as many are read as there are.
        let of_groups = unsafe { _mm256_loadu_epi16(leaf.samples.as_ptr().cast()) };
        let (groups, _) = leaf.keys.as_chunks::<GROUP>();
        let firsts = _mm512_setr_epi64(0, 64, 128, 192, 256, 320, 384, 448);
        let mut masks = _mm512_setzero_si512();
        let (mut is_there, mut before_others) = (false, 0);
        let keys = &waiting.keys[..waiting.len];
        let mut next = next.iter();
        for ((&key, &sample), place) in keys.iter().zip(&each_sample).zip(&mut self.of_waiting) {
            next.by_ref().take(ASKED).for_each(prefetch);
            let sample = _mm512_set1_epi16(sample.cast_signed());
            let begun = _mm256_cmple_epu16_mask(of_groups, _mm512_castsi512_si256(sample));
            let group = (begun.count_ones() as usize).saturating_sub(1) % groups.len();
            let waiting_below = _mm512_cmplt_epu16_mask(samples, sample).count_ones() as usize;
            let probe = _mm512_set1_epi64(key.cast_signed());
            let mut below = 0;
            for keys in groups[group].as_chunks().0.iter().rev() {
                below = below << LANES | u32::from(_mm512_cmplt_epu64_mask(load(keys), probe));
            }
            let mut rank = group * GROUP + below.count_ones() as usize;
            if below == 0 && group > 0 {
                rank = rank_before(leaf.keys, key);
            }
            is_there |= leaf.keys[rank % N] == key;
            before_others += waiting_below;
            *place = rank + waiting_below - start;
            // A shift by 64 or more, or by a negative number, leaves nothing.
            let bits = _mm512_sub_epi64(_mm512_set1_epi64(place.cast_signed() as i64), firsts);
            masks = _mm512_or_si512(masks, _mm512_sllv_epi64(_mm512_set1_epi64(1), bits));
        }
        next.for_each(prefetch);
        // SAFETY: there are as many bytes as the vector has.
        unsafe { _mm512_storeu_epi64(self.masks.as_mut_ptr().cast(), masks) };
        // One of two entries is before the other.
        let are_apart = before_others == waiting.len * (waiting.len.saturating_sub(1)) / 2;
        are_apart && !is_there
    }
}

/// The rank of a key that belongs before the group that its sample says.
#[cold]
#[inline(never)]
fn rank_before(keys: &[u64], key: u64) -> usize {
    keys.partition_point(|&stored| stored < key)
}

/// Returns the samples of the pending keys, and after them [`NO_SAMPLE`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,popcnt")]
fn samples_of_waiting<const N: usize>(leaf: Sampled<'_, N>, waiting: Unsorted<'_>) -> __m512i {
    let base = _mm512_set1_epi64(leaf.base.cast_signed());
    let step_bits = _mm_set_epi64x(0, leaf.step_bits.into());
    let most = _mm_set1_epi16(MOST.cast_signed());
    // Lines behind the last entry may be far away.
    let last = waiting.len.saturating_sub(1) / LANES % (LATE / LANES);
    let sample = |group: usize| {
        let eight = load(&waiting.keys.as_chunks().0[group.min(last)]);
        let distances = _mm512_sub_epi64(_mm512_max_epu64(eight, base), base);
        let steps = _mm512_cvtusepi64_epi16(_mm512_srl_epi64(distances, step_bits));
        _mm_min_epu16(steps, most)
    };
    let low = _mm256_set_m128i(sample(1), sample(0));
    let high = _mm256_set_m128i(sample(3), sample(2));
    let samples = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
    _mm512_mask_blend_epi16(
        lowest_bits(waiting.len),
        _mm512_set1_epi16(NO_SAMPLE.cast_signed()),
        samples,
    )
}

/// So many bits, at most 32, from the lowest on.
#[inline]
#[target_feature(enable = "bmi2")]
#[expect(clippy::cast_possible_truncation, reason = "there are 32 at most")]
fn lowest_bits(count: usize) -> u32 {
    std::arch::x86_64::_bzhi_u32(u32::MAX, count as u32)
}

/// By the bits of places that are left free, which stored entries go to the eight places: the first
/// ones to those without a bit.
const SPREAD: [[u8; LANES]; 256] = {
    let mut spread = [[0; LANES]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut stored) = (0, 0);
        while lane < LANES {
            spread[mask][lane] = stored;
            stored += (mask >> lane & 1 == 0) as u8;
            lane += 1;
        }
        mask += 1;
    }
    spread
};

/// Writes the stored entries from this rank on to the places whose bits are not set in the masks,
/// and whatever comes to the others, and behind the last one. Asks for the next lines meanwhile.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,popcnt")]
fn spread<const N: usize>(
    leaf: Sampled<'_, N>,
    start: usize,
    masks: &[u8],
    (keys, values): (&mut [[u64; LANES]], &mut [[u64; LANES]]),
    next: &[[u64; LANES]],
) {
    let mut from = start;
    let mut next = next.iter();
    for (&mask, (keys, values)) in masks.iter().zip(keys.iter_mut().zip(values)) {
        next.next().into_iter().for_each(prefetch);
        let (eight_keys, eight_values) = (eight_from(leaf.keys, from), eight_from(leaf.values, from));
        // SAFETY: as many bytes are read as there are.
        let lanes = unsafe { _mm_loadl_epi64(SPREAD[usize::from(mask)].as_ptr().cast()) };
        let lanes = _mm512_cvtepu8_epi64(lanes);
        store(keys, _mm512_permutexvar_epi64(lanes, eight_keys));
        store(values, _mm512_permutexvar_epi64(lanes, eight_values));
        from += LANES - mask.count_ones() as usize;
    }
    next.for_each(prefetch);
}

/// Eight entries of a column from this one on, or as many as there are.
#[inline]
#[target_feature(enable = "avx512f")]
fn eight_from<const N: usize>(column: &[u64; N], from: usize) -> __m512i {
    match column.get(from..).and_then(|column| column.first_chunk()) {
        Some(eight) => load(eight),
        None => load(&last_from(column, from)),
    }
}

#[cold]
fn last_from<const N: usize>(column: &[u64; N], from: usize) -> [u64; LANES] {
    let mut eight = [0; LANES];
    for (entry, &stored) in eight.iter_mut().zip(&column[from.min(N)..]) {
        *entry = stored;
    }
    eight
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(eight: &mut [u64; LANES], entries: __m512i) {
    // SAFETY: as many are written as there is room for.
    unsafe { _mm512_storeu_epi64(eight.as_mut_ptr().cast(), entries) };
}

#[target_feature(enable = "avx512f,bmi1,bmi2,popcnt")]
fn late_with_vectors<'w>(
    waiting: Option<Unsorted<'w>>,
    newer: EntryColumns<'_>,
    bounds: (u64, u64),
    (keys, values): (&'w mut [u64; LATE], &'w mut [u64; LATE]),
) -> Option<Unsorted<'w>> {
    let mut len = 0;
    if let Some(waiting) = waiting {
        let inside = inside(waiting, bounds);
        if newer.0.is_empty() && inside == lowest_bits(waiting.len) {
            return Some(waiting);
        }
        len = copy_inside(waiting, inside, keys, values);
    }
    for (&key, &value) in newer.0.iter().zip(newer.1) {
        *keys.get_mut(len)? = key;
        *values.get_mut(len)? = value;
        len += 1;
    }
    Some(Unsorted { keys, values, len })
}

/// Bits of those that wait with keys between the bounds.
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
fn inside(waiting: Unsorted<'_>, (lower, upper): (u64, u64)) -> u32 {
    let groups = waiting.len.div_ceil(LANES).min(LATE / LANES);
    let below = _mm512_set1_epi64(lower.cast_signed());
    let width = _mm512_set1_epi64(upper.wrapping_sub(lower).cast_signed());
    let mut inside = 0;
    for keys in waiting.keys.as_chunks().0[..groups].iter().rev() {
        let distances = _mm512_sub_epi64(load(keys), below);
        inside = inside << LANES | u32::from(_mm512_cmple_epu64_mask(distances, width));
    }
    inside & lowest_bits(waiting.len)
}

/// Copies those that wait and have bits, in the same order; returns how many there are.
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
fn copy_inside(
    waiting: Unsorted<'_>,
    mut inside: u32,
    keys_inside: &mut [u64; LATE],
    values_inside: &mut [u64; LATE],
) -> usize {
    let mut len = 0;
    let (keys, values) = (waiting.keys.as_chunks().0, waiting.values.as_chunks().0);
    for (keys, values) in keys.iter().zip(values) {
        let [mask, ..] = inside.to_le_bytes();
        inside >>= LANES;
        // No more are written before the last ones than there are in all groups before these.
        for (column, eight) in [(&mut *keys_inside, keys), (&mut *values_inside, values)] {
            if let Some(room) = column.get_mut(len..).and_then(|column| column.first_chunk_mut()) {
                store(room, _mm512_maskz_compress_epi64(mask, load(eight)));
            }
        }
        len += mask.count_ones() as usize;
    }
    len
}
