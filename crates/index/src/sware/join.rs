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
use super::search::LANES;

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
        let places = Places::find(leaf, &stretch, late.0);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if !places.replaces && std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the feature.
            unsafe { self.spread(leaf, stretch, late, &places.masks) };
            return;
        }
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
        let mut places = Self {
            ranks: [0; LATE],
            masks: [0; MASKS],
            replaces: false,
        };
        for (number, (&key, rank)) in late.iter().zip(&mut places.ranks).enumerate() {
            *rank = leaf.rank(key).clamp(stretch.start, stretch.end);
            places.replaces |= leaf.keys().get(*rank) == Some(&key);
            let at = *rank - stretch.start + number;
            places.masks[at / 64] |= 1 << (at % 64);
        }
        places
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Joined {
    /// Writes the joined columns. `masks` has a bit for each late entry.
    #[target_feature(enable = "avx512f")]
    fn spread(&mut self, leaf: &Leaf, stretch: Range<usize>, late: Columns<'_>, masks: &[u64; MASKS]) {
        self.len = stretch.len() + late.0.len();
        let end = stretch.end;
        let keys = &leaf.all_keys()[stretch.start..end];
        spread_column(
            late.0,
            keys,
            masks,
            &mut self.keys[..self.len.next_multiple_of(LANES)],
        );
        let values = &leaf.all_values()[stretch.start..end];
        spread_column(
            late.1,
            values,
            masks,
            &mut self.values[..self.len.next_multiple_of(LANES)],
        );
    }
}

/// Writes eight entries at a time: from `late` where the masks have a bit, from `stored` otherwise, and whatever comes
/// when both are at their ends.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f")]
fn spread_column(mut late: &[u64], mut stored: &[u64], masks: &[u64; MASKS], joined: &mut [u64]) {
    use std::arch::x86_64::{
        _mm512_mask_expand_epi64, _mm512_maskz_expand_epi64, _mm512_maskz_loadu_epi64, _mm512_storeu_epi64,
    };

    let masks = masks.map(u64::to_le_bytes);
    let lanes_and_masks = joined
        .as_chunks_mut::<LANES>()
        .0
        .iter_mut()
        .zip(masks.as_flattened());
    for (lanes, &mask) in lanes_and_masks {
        let late_here = mask.count_ones() as usize;
        // The last lanes may be more than there is left.
        let from_stored = if stored.len() < LANES - late_here {
            !mask & u8::MAX >> (LANES - late_here - stored.len())
        } else {
            !mask
        };
        let (late_now, late_then) = late.split_at(late_here);
        let (stored_now, stored_then) = stored.split_at(from_stored.count_ones() as usize);
        // Loaded first and then spread in the register: spreading while loading is slow on some processors.
        // SAFETY: as many are read as the mask has bits, which is the length of the slice.
        let spread =
            unsafe { _mm512_maskz_loadu_epi64(lowest_bits(from_stored), stored_now.as_ptr().cast()) };
        // SAFETY: as before.
        let late_lanes = unsafe { _mm512_maskz_loadu_epi64(lowest_bits(mask), late_now.as_ptr().cast()) };
        let spread = _mm512_maskz_expand_epi64(from_stored, spread);
        let spread = _mm512_mask_expand_epi64(spread, mask, late_lanes);
        // SAFETY: there are as many lanes as are written.
        unsafe { _mm512_storeu_epi64(lanes.as_mut_ptr().cast(), spread) };
        (late, stored) = (late_then, stored_then);
    }
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
