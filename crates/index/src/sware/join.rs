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

use super::leaf::{LEAF_ENTRIES, Leaf};
use super::pending::Columns;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::search::{GROUP, LANES, has_wide_vectors, load};

/// Late entries that are joined at once.
const LATE: usize = 64;
/// Entries copied at once, more than needed: what is between two late entries is seldom longer.
const COPIED: usize = 32;
/// Room for a leaf, what is late, and what is copied too much.
const JOINED: usize = LEAF_ENTRIES + LATE + COPIED;
const MASKS: usize = JOINED.div_ceil(64);

/// A stretch of a leaf joined with what is late.
#[derive(Debug)]
pub(super) struct Joined {
    keys: [u64; JOINED],
    values: [u64; JOINED],
    len: usize,
}

/// Where late entries stand among those of a stretch.
struct Places {
    ranks: [usize; LATE],
    /// A bit for each joined entry: whether it is late.
    masks: [u64; MASKS],
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
    /// between the neighbours of the stretch.
    #[inline(always)]
    pub(super) fn visit(
        &mut self,
        leaf: &Leaf,
        stretch: Range<usize>,
        mut late: Columns<'_>,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        let mut from = stretch.start;
        while late.0.len() > LATE {
            let (keys, more_keys) = late.0.split_at(LATE);
            let (values, more_values) = late.1.split_at(LATE);
            let to = leaf.rank(more_keys[0]).max(from);
            self.join(leaf, from..to, (keys, values));
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
        self.join(leaf, from..stretch.end.max(from), late);
        visit(&self.keys[..self.len], &self.values[..self.len]);
    }

    #[inline(always)]
    fn join(&mut self, leaf: &Leaf, stretch: Range<usize>, late: Columns<'_>) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if has_wide_vectors() {
            // SAFETY: the processor has the features.
            unsafe { self.join_with_vectors(leaf, stretch, late) };
            return;
        }
        let places = Places::find(leaf, &stretch, late.0);
        self.copy_between(leaf, stretch, late, &places);
    }

    /// Copies what lies between late entries.
    #[inline(always)]
    fn copy_between(&mut self, leaf: &Leaf, stretch: Range<usize>, late: Columns<'_>, places: &Places) {
        self.len = 0;
        let mut from = stretch.start;
        for ((&key, &value), &to) in late.0.iter().zip(late.1).zip(&places.ranks) {
            self.copy(leaf, from..to);
            self.keys[self.len] = key;
            self.values[self.len] = value;
            self.len += 1;
            from = to + usize::from(places.replaces && leaf.keys().get(to) == Some(&key));
        }
        self.copy(leaf, from..stretch.end);
    }

    /// Copies a stretch of a leaf behind the entries there are, whole groups of it, so that the length decides nothing.
    #[inline(always)]
    fn copy(&mut self, leaf: &Leaf, stretch: Range<usize>) {
        let end = self.len + stretch.len();
        let (mut from, mut at) = (stretch.start, self.len);
        while at < end {
            copy_group(&leaf.all_keys()[from..], &mut self.keys[at..]);
            copy_group(&leaf.all_values()[from..], &mut self.values[at..]);
            from += COPIED;
            at += COPIED;
        }
        self.len = end;
    }
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
        Self::of_ranks(stretch, late, |key| {
            let rank = leaf.rank(key);
            (rank, leaf.keys().get(rank) == Some(&key))
        })
    }

    /// Of the rank of each late key in the leaf, and whether that has the key.
    #[inline(always)]
    fn of_ranks(stretch: &Range<usize>, late: &[u64], rank_of: impl Fn(u64) -> (usize, bool)) -> Self {
        let mut places = Self {
            ranks: [0; LATE],
            masks: [0; MASKS],
            replaces: false,
        };
        for (number, (&key, rank)) in late.iter().zip(&mut places.ranks).enumerate() {
            let (found, is_there) = rank_of(key);
            *rank = found.clamp(stretch.start, stretch.end);
            places.replaces |= is_there;
            let at = *rank - stretch.start + number;
            places.masks[at / 64] |= 1 << (at % 64);
        }
        places
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Joined {
    #[target_feature(enable = "avx512f,popcnt")]
    fn join_with_vectors(&mut self, leaf: &Leaf, stretch: Range<usize>, late: Columns<'_>) {
        let places = Places::of_ranks(&stretch, late.0, |key| rank_with_vectors(leaf, key));
        if places.replaces {
            self.copy_between(leaf, stretch, late, &places);
            return;
        }
        self.len = stretch.len() + late.0.len();
        let stored = (
            &leaf.all_keys()[stretch.start..stretch.end],
            &leaf.all_values()[stretch.start..stretch.end],
        );
        let padded = self.len.next_multiple_of(LANES);
        spread(
            late,
            stored,
            &places.masks,
            (&mut self.keys[..padded], &mut self.values[..padded]),
        );
    }
}

/// As [`Leaf::rank`], and whether the key is there.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,popcnt")]
fn rank_with_vectors(leaf: &Leaf, key: u64) -> (usize, bool) {
    use std::arch::x86_64::{
        _mm512_cmpeq_epu64_mask, _mm512_cmple_epu64_mask, _mm512_cmplt_epu64_mask, _mm512_set1_epi64,
    };

    let probe = _mm512_set1_epi64(key.cast_signed());
    let (mut up_to, mut below, mut equal) = (0, 0, 0);
    for samples in leaf.all_samples().as_chunks().0 {
        up_to += _mm512_cmple_epu64_mask(load(samples), probe).count_ones() as usize;
    }
    let group = up_to.saturating_sub(1);
    for keys in leaf.all_keys().as_chunks::<GROUP>().0[group].as_chunks().0 {
        let keys = load(keys);
        below += _mm512_cmplt_epu64_mask(keys, probe).count_ones() as usize;
        equal |= _mm512_cmpeq_epu64_mask(keys, probe);
    }
    (group * GROUP + below, equal != 0)
}

/// Writes the joined columns eight entries at a time: late ones where the masks have a bit, stored ones otherwise, and
/// whatever comes when both are at their ends.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,popcnt")]
fn spread(
    mut late: Columns<'_>,
    mut stored: Columns<'_>,
    masks: &[u64; MASKS],
    joined: (&mut [u64], &mut [u64]),
) {
    let masks = masks.map(u64::to_le_bytes);
    let lanes = joined
        .0
        .as_chunks_mut::<LANES>()
        .0
        .iter_mut()
        .zip(joined.1.as_chunks_mut::<LANES>().0);
    for ((keys, values), &mask) in lanes.zip(masks.as_flattened()) {
        let late_here = mask.count_ones() as usize;
        // The last lanes may be more than there is left.
        let from_stored = if stored.0.len() < LANES - late_here {
            !mask & u8::MAX >> (LANES - late_here - stored.0.len())
        } else {
            !mask
        };
        let stored_here = from_stored.count_ones() as usize;
        let late_now;
        (late_now, late) = split_columns(late, late_here);
        let stored_now;
        (stored_now, stored) = split_columns(stored, stored_here);
        spread_lanes((late_now.0, mask), (stored_now.0, from_stored), keys);
        spread_lanes((late_now.1, mask), (stored_now.1, from_stored), values);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn split_columns<'c>((keys, values): Columns<'c>, at: usize) -> (Columns<'c>, Columns<'c>) {
    let (keys, more_keys) = keys.split_at(at);
    let (values, more_values) = values.split_at(at);
    ((keys, values), (more_keys, more_values))
}

/// Writes eight entries of a column; each side has as many as its mask has bits.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,popcnt")]
fn spread_lanes((late, mask): (&[u64], u8), (stored, from_stored): (&[u64], u8), lanes: &mut [u64; LANES]) {
    use std::arch::x86_64::{
        _mm512_mask_expand_epi64, _mm512_maskz_expand_epi64, _mm512_maskz_loadu_epi64, _mm512_storeu_epi64,
    };

    // Loaded first and then spread in the register: spreading while loading is slow on some processors.
    // SAFETY: as many are read as the mask has bits, which is the length of the slice.
    let spread = unsafe { _mm512_maskz_loadu_epi64(lowest_bits(from_stored), stored.as_ptr().cast()) };
    // SAFETY: as before.
    let late = unsafe { _mm512_maskz_loadu_epi64(lowest_bits(mask), late.as_ptr().cast()) };
    let spread = _mm512_maskz_expand_epi64(from_stored, spread);
    let spread = _mm512_mask_expand_epi64(spread, mask, late);
    // SAFETY: there are as many lanes as are written.
    unsafe { _mm512_storeu_epi64(lanes.as_mut_ptr().cast(), spread) };
}

/// As many bits, from the lowest on.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn lowest_bits(mask: u8) -> u8 {
    u8::MAX.checked_shr(mask.count_zeros()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bedload_testkit::Rng;

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
            let mut leaf = Leaf::new();
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
            joined.copy_between(&leaf, from..to, late, &places);
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
            joined.join(&leaf, from..to, late);
            assert_eq!(joined.keys[..joined.len], model_keys, "keys of round {round}");
            assert_eq!(
                joined.values[..joined.len],
                model_values,
                "values of round {round}"
            );
        }
    }
}
