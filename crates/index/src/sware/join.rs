//! Joining the entries of a leaf with those that come late.
//!
//! The places of the late ones in the joined columns are known from their ranks. With vectors of 512 bits the columns are
//! written eight entries at a time, by spreading both sides over the lanes that their masks tell; otherwise what lies
//! between two late entries is copied as a whole.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "vector instructions that the compiler does not find")
)]

use std::ops::Range;

use super::leaf::Leaf;
use super::options::LEAF_ENTRIES;
use super::search::Columns;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::search::{GROUP, LANES};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::wide::{Wide, load};

/// Late entries that are joined at once.
const LATE: usize = 64;
/// Entries copied at once, more than needed: what is between two late entries is seldom longer.
const COPIED: usize = 32;
/// Room for a leaf, what is late, and what is copied too much.
const JOINED: usize = LEAF_ENTRIES + LATE + COPIED;

const _: () = assert!(
    JOINED.is_multiple_of(8),
    "joined columns are written eight entries at a time"
);

/// A stretch of a leaf joined with what is late.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Joined {
    keys: [u64; JOINED],
    values: [u64; JOINED],
    len: usize,
}

/// Where joined entries are written: as many as there are in both, and whatever comes, up to a multiple of eight or of
/// what is copied at once.
type Target<'t> = (&'t mut [u64], &'t mut [u64]);

/// Where late entries stand among those of a stretch.
struct Places {
    ranks: [usize; LATE],
    /// Whether a late entry takes the place of one in the leaf.
    replaces: bool,
}

impl Joined {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            keys: [0; JOINED],
            values: [0; JOINED],
            len: 0,
        })
    }

    /// Calls `visit` with the entries of a stretch of a leaf and those that are late, which win; these ascend and belong
    /// between the neighbours of the stretch. Meanwhile the columns of the leaf that is to be joined next are asked for.
    #[inline(always)]
    pub(super) fn visit(
        &mut self,
        (leaf, next): (&Leaf, Option<&Leaf>),
        stretch: Range<usize>,
        mut late: Columns<'_>,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        let mut from = stretch.start;
        while late.0.len() > LATE {
            let (keys, more_keys) = late.0.split_at(LATE);
            let (values, more_values) = late.1.split_at(LATE);
            let to = leaf.rank(more_keys[0]).max(from);
            self.join((leaf, None), from..to, (keys, values));
            visit(&self.keys[..self.len], &self.values[..self.len]);
            (from, late) = (to, (more_keys, more_values));
        }
        if late.0.is_empty() {
            let rest = from..stretch.end.max(from);
            if !rest.is_empty() {
                visit(&leaf.keys()[rest.clone()], &leaf.values()[rest]);
            }
            return;
        }
        self.join((leaf, next), from..stretch.end.max(from), late);
        visit(&self.keys[..self.len], &self.values[..self.len]);
    }

    #[inline(always)]
    fn join(&mut self, leaves: (&Leaf, Option<&Leaf>), stretch: Range<usize>, late: Columns<'_>) {
        self.len = join(leaves, stretch, late, (&mut self.keys, &mut self.values));
    }
}

/// Writes the entries of a stretch of a leaf, and those that are late, which win, to the beginnings of columns; returns how
/// many there are. Meanwhile the columns of the leaf that is to be joined next are asked for.
#[inline(always)]
pub(super) fn join(
    (leaf, next): (&Leaf, Option<&Leaf>),
    stretch: Range<usize>,
    late: Columns<'_>,
    target: Target<'_>,
) -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(wide) = Wide::detect() {
        // SAFETY: the processor has the features.
        return unsafe { join_with_vectors((leaf, next), stretch, late, target, wide) };
    }
    if let Some(next) = next {
        next.prefetch_columns();
    }
    let places = Places::find(leaf, &stretch, late.0);
    copy_between(leaf, stretch, late, &places, target)
}

/// Copies what lies between late entries.
#[inline(always)]
fn copy_between(
    leaf: &Leaf,
    stretch: Range<usize>,
    late: Columns<'_>,
    places: &Places,
    (keys, values): Target<'_>,
) -> usize {
    let mut len = 0;
    let mut from = stretch.start;
    for ((&key, &value), &to) in late.0.iter().zip(late.1).zip(&places.ranks) {
        len = copy(leaf, from..to, len, (keys, values));
        keys[len] = key;
        values[len] = value;
        len += 1;
        from = to + usize::from(places.replaces && leaf.keys().get(to) == Some(&key));
    }
    copy(leaf, from..stretch.end, len, (keys, values))
}

/// Copies a stretch of a leaf behind the entries there are, whole groups of it, so that the length decides nothing; returns
/// how many there are then.
#[inline(always)]
fn copy(leaf: &Leaf, stretch: Range<usize>, len: usize, (keys, values): Target<'_>) -> usize {
    let end = len + stretch.len();
    let (mut from, mut at) = (stretch.start, len);
    while at < end {
        copy_group(&leaf.all_keys()[from..], &mut keys[at..]);
        copy_group(&leaf.all_values()[from..], &mut values[at..]);
        from += COPIED;
        at += COPIED;
    }
    end
}

#[inline(always)]
fn copy_group(from: &[u64], to: &mut [u64]) {
    match (from.first_chunk::<COPIED>(), to.first_chunk_mut::<COPIED>()) {
        (Some(from), Some(to)) => *to = *from,
        _ => {
            let count = from.len().min(to.len());
            to[..count].copy_from_slice(&from[..count]);
        }
    }
}

impl Places {
    #[inline(always)]
    fn find(leaf: &Leaf, stretch: &Range<usize>, late: &[u64]) -> Self {
        let mut places = Self {
            ranks: [0; LATE],
            replaces: false,
        };
        for (&key, rank) in late.iter().zip(&mut places.ranks) {
            let found = leaf.rank(key);
            places.replaces |= leaf.keys().get(found) == Some(&key);
            *rank = found.clamp(stretch.start, stretch.end);
        }
        places
    }
}

/// For each eight joined entries which of them are late.
#[cfg(all(target_arch = "x86_64", not(miri)))]
type Masks = [u8; JOINED / LANES];

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
fn join_with_vectors(
    (leaf, next): (&Leaf, Option<&Leaf>),
    stretch: Range<usize>,
    late: Columns<'_>,
    target: Target<'_>,
    wide: Wide,
) -> usize {
    let mut masks: Masks = [0; JOINED / LANES];
    let mut replaces = false;
    for (number, &key) in late.0.iter().enumerate() {
        let (rank, is_there) = rank_with_vectors(leaf, key, wide);
        replaces |= is_there;
        let at = rank.clamp(stretch.start, stretch.end) - stretch.start + number;
        masks[at / LANES] |= 1 << (at % LANES);
    }
    // What is not joined is asked for beside what is.
    let next = next.unwrap_or(leaf);
    if replaces {
        next.prefetch_columns();
        let places = Places::find(leaf, &stretch, late.0);
        return copy_between(leaf, stretch, late, &places, target);
    }
    let len = stretch.len() + late.0.len();
    spread(leaf, next, stretch, late, &masks, target);
    len
}

/// Writes the joined columns eight entries at a time: late ones where the masks have a bit, stored ones otherwise, and
/// whatever comes when both are at their ends.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
fn spread(
    leaf: &Leaf,
    next: &Leaf,
    stretch: Range<usize>,
    late: Columns<'_>,
    masks: &Masks,
    (keys, values): Target<'_>,
) {
    let lanes = (stretch.len() + late.0.len()).div_ceil(LANES);
    assert!(
        stretch.end <= LEAF_ENTRIES && lanes * LANES <= keys.len().min(values.len()),
        "there is room for what is joined"
    );
    let (late_keys, late_values) = (late.0.as_ptr(), late.1.as_ptr());
    let (stored_keys, stored_values) = (leaf.all_keys().as_ptr(), leaf.all_values().as_ptr());
    let (keys, values) = (keys.as_mut_ptr(), values.as_mut_ptr());
    // So many times eight stored entries may be read from wherever one is, as none is beyond what has been written.
    let whole = (LEAF_ENTRIES - stretch.start) / LANES;
    let mut late_from = 0;
    for (number, &mask) in masks[..lanes].iter().enumerate() {
        // A few lines at a time: asked for at once they would fill the queue of loads, and all that follows waited.
        next.prefetch_lines(number);
        let late_here = mask.count_ones() as usize;
        let stored_from = stretch.start + number * LANES - late_from;
        let stored_here = if number < whole {
            LANES
        } else {
            (LANES - late_here).min(stretch.end - stored_from)
        };
        // SAFETY: the masks have a bit for each late entry, so no more of these are read than there are; stored ones are
        // read from `stretch.start + number * LANES` on at most, to the end of the column or of the stretch; and there is
        // room for as many lanes as are written.
        unsafe {
            spread_lanes(
                mask,
                (late_keys.wrapping_add(late_from), late_here),
                (stored_keys.wrapping_add(stored_from), stored_here),
                keys.wrapping_add(number * LANES),
            );
        }
        // SAFETY: as before.
        unsafe {
            spread_lanes(
                mask,
                (late_values.wrapping_add(late_from), late_here),
                (stored_values.wrapping_add(stored_from), stored_here),
                values.wrapping_add(number * LANES),
            );
        }
        late_from += late_here;
    }
}

/// As [`Leaf::rank`], and whether the key is there.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
fn rank_with_vectors(leaf: &Leaf, key: u64, wide: Wide) -> (usize, bool) {
    use std::arch::x86_64::{_mm512_cmplt_epu64_mask, _mm512_set1_epi64};

    let probe = _mm512_set1_epi64(key.cast_signed());
    let mut below = 0;
    let group = leaf.group_of(key, wide);
    for keys in leaf.all_keys().as_chunks::<GROUP>().0[group]
        .as_chunks()
        .0
        .iter()
        .rev()
    {
        below = below << LANES | u32::from(_mm512_cmplt_epu64_mask(load(keys), probe));
    }
    let rank = group * GROUP + below.count_ones() as usize;
    (rank, leaf.keys().get(rank) == Some(&key))
}

/// Writes eight entries of a column: late ones where the mask has a bit, of which there are as many, stored ones otherwise,
/// and whatever comes where there are not enough.
///
/// # Safety
///
/// So many late and stored ones, at most eight of each, may be read, and eight entries written.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
unsafe fn spread_lanes(mask: u8, late: (*const u64, usize), stored: (*const u64, usize), lanes: *mut u64) {
    use std::arch::x86_64::{
        _mm512_mask_expand_epi64, _mm512_maskz_expand_epi64, _mm512_maskz_loadu_epi64, _mm512_storeu_epi64,
    };

    // Loaded first and then spread in the register: spreading while loading is slow on some processors.
    let (stored_lanes, late_lanes) = (lowest_bits(stored.1), lowest_bits(late.1));
    // SAFETY: the caller's promise.
    let stored = unsafe { _mm512_maskz_loadu_epi64(stored_lanes, stored.0.cast()) };
    // SAFETY: the caller's promise.
    let late = unsafe { _mm512_maskz_loadu_epi64(late_lanes, late.0.cast()) };
    let spread = _mm512_maskz_expand_epi64(!mask, stored);
    let spread = _mm512_mask_expand_epi64(spread, mask, late);
    // SAFETY: the caller's promise.
    unsafe { _mm512_storeu_epi64(lanes.cast(), spread) };
}

/// So many bits, at most eight, from the lowest on.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[target_feature(enable = "bmi2")]
#[expect(clippy::cast_possible_truncation, reason = "there are eight at most")]
fn lowest_bits(count: usize) -> u8 {
    std::arch::x86_64::_bzhi_u32(u8::MAX.into(), count as u32) as u8
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bedload_testkit::Rng;

    use super::super::leaf_pages::PagePool;
    use super::*;

    /// As many keys below `end`, ascending, of this residue modulo 2.
    fn keys(rng: &mut Rng, count: usize, end: u64, residue: u64) -> Vec<u64> {
        let mut keys = BTreeMap::new();
        while keys.len() < count {
            keys.insert(rng.below(end / 2) * 2 + residue, ());
        }
        keys.into_keys().collect()
    }

    #[test]
    fn joining_with_and_without_vectors_is_merging() {
        let mut rng = Rng::new(7);
        for round in 0..if cfg!(miri) { 10 } else { 2_000 } {
            let stored = keys(&mut rng, round % LEAF_ENTRIES, 4_000, 0);
            let mut leaf = Leaf::new(PagePool::new().take());
            for &key in &stored {
                leaf.push(key, key + 1);
            }
            // Every other time some late keys are there already, and replaced.
            let late_keys = keys(&mut rng, 1 + round % LATE, 4_000, (round % 2) as u64);
            let late_values: Vec<u64> = late_keys.iter().map(|key| key + 2).collect();
            let mut from = rng.index(stored.len() + 1);
            let mut to = rng.index(stored.len() + 1);
            if from > to {
                (from, to) = (to, from);
            }
            // Late keys belong between the neighbours of the stretch.
            let lower = if from > 0 { stored[from - 1] + 1 } else { 0 };
            let upper = stored.get(to).copied().unwrap_or(u64::MAX);
            let here =
                late_keys.partition_point(|&key| key < lower)..late_keys.partition_point(|&key| key < upper);
            let late = (&late_keys[here.clone()], &late_values[here]);

            let mut model: BTreeMap<u64, u64> = stored[from..to].iter().map(|&key| (key, key + 1)).collect();
            model.extend(late.0.iter().copied().zip(late.1.iter().copied()));
            let (model_keys, model_values): (Vec<u64>, Vec<u64>) = model.into_iter().unzip();

            let mut joined = Joined::new();
            let places = Places::find(&leaf, &(from..to), late.0);
            let target: Target<'_> = (&mut joined.keys, &mut joined.values);
            joined.len = copy_between(&leaf, from..to, late, &places, target);
            assert_eq!(
                joined.keys[..joined.len],
                model_keys,
                "keys of round {round}, copied"
            );
            assert_eq!(
                joined.values[..joined.len],
                model_values,
                "values of round {round}, copied"
            );

            let mut joined = Joined::new();
            joined.join((&leaf, Some(&leaf)), from..to, late);
            assert_eq!(joined.keys[..joined.len], model_keys, "keys of round {round}");
            assert_eq!(
                joined.values[..joined.len],
                model_values,
                "values of round {round}"
            );
        }
    }
}
