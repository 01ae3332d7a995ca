//! Joining the entries of a leaf with late ones.
//!
//! Where the processor has 512-bit vectors, a leaf's pending entries, and the few newer ones, are
//! [joined](crate::search::join) with it in their order of arrival. Otherwise, and where entries
//! replace others, late entries are sorted first, and the stretch between two of them is copied as
//! one.

use std::ops::Range;

use super::late::SortedLate;
use super::waiting::Waiting;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::waiting::WaitingRoom;
use crate::near_sorted::options::LEAF_ENTRIES;
use crate::near_sorted::tree::leaf::Leaf;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::search::dispatch::Wide;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::search::join::{Lines, join_waiting, late_between};
use crate::search::keys::{EntryColumns, EntryColumnsMut};

/// Maximum number of late entries joined at once.
const LATE: usize = 64;
/// Minimum number of entries copied: the stretch between two late entries is seldom longer.
const COPIED: usize = 32;
/// Room for a leaf, late entries, and the surplus of copies.
const JOINED: usize = LEAF_ENTRIES + LATE + COPIED;

const _: () = assert!(
    JOINED.is_multiple_of(8),
    "joined columns are written eight entries at a time"
);

/// Late entries of a leaf: pending ones in order of arrival, and newer ones in ascending order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LateEntries<'l> {
    pub(crate) waiting: Option<Waiting<'l>>,
    pub(crate) newer: EntryColumns<'l>,
}

/// Joins leaves with their late entries.
#[derive(Debug)]
pub(crate) struct Joining {
    late: SortedLate,
    joined: Option<Box<Joined>>,
}

/// A stretch of a leaf joined with late entries.
#[derive(Debug)]
#[repr(align(64))]
struct Joined {
    keys: [u64; JOINED],
    values: [u64; JOINED],
    /// Buffer for late entries within the bounds.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    within: WaitingRoom,
}

/// Ranks of late entries among those of a stretch.
struct LatePlaces {
    ranks: [usize; LATE],
    /// Whether a late entry replaces one in the leaf.
    replaces: bool,
}

/// The part of ascending columns that lies between the bounds.
#[inline(always)]
pub(crate) fn part_between((keys, values): EntryColumns<'_>, lower: u64, upper: u64) -> EntryColumns<'_> {
    if keys.first().is_none_or(|&first| first >= lower) && keys.last().is_none_or(|&last| last <= upper) {
        return (keys, values);
    }
    let from = keys.partition_point(|&key| key < lower);
    let to = keys.partition_point(|&key| key <= upper);
    (&keys[from..to], &values[from..to])
}

impl Joining {
    pub(crate) const fn new() -> Self {
        Self {
            late: SortedLate::new(),
            joined: None,
        }
    }

    /// Returns the bytes used on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.late.bytes() + self.joined.as_ref().map_or(0, |_| size_of::<Joined>())
    }

    /// Calls `visit` with the entries of a leaf between the bounds, neither of which is the
    /// greatest possible key, joined with late ones; the newer of these lie between the bounds.
    /// Prefetches the next leaf meanwhile, if it is to be joined.
    #[inline(always)]
    pub(crate) fn visit(
        &mut self,
        leaf: &Leaf,
        (lower, upper): (u64, u64),
        LateEntries { waiting, newer }: LateEntries<'_>,
        next: Option<&Leaf>,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        let stretch = leaf.between(lower, upper);
        if waiting.is_none() && newer.0.is_empty() {
            prefetch_columns(next);
            return visit_stored(leaf, stretch, visit);
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(wide) = Wide::detect() {
            let joined = &mut **self.joined.get_or_insert_with(Joined::new);
            let late = late_between(
                waiting.map(Waiting::unsorted),
                newer,
                (lower, upper),
                joined.within.columns_mut(),
                wide,
            );
            if let Some(late) = late {
                if late.len == 0 {
                    prefetch_columns(next);
                    return visit_stored(leaf, stretch, visit);
                }
                let target: EntryColumnsMut<'_> = (&mut joined.keys, &mut joined.values);
                if let Some(len) = join_waiting(
                    leaf.sampled(),
                    stretch.clone(),
                    late,
                    lines_of(next),
                    target,
                    wide,
                ) {
                    return visit(&joined.keys[..len], &joined.values[..len]);
                }
            }
        }
        prefetch_columns(next);
        let late = part_between(self.late.of_leaf(waiting, newer), lower, upper);
        visit_sorted(&mut self.joined, leaf, stretch, late, visit);
    }

    /// Writes the entries of a leaf joined with its pending ones to the beginnings of columns;
    /// returns how many. Prefetches the next leaf meanwhile, if it is to be joined.
    #[inline(always)]
    pub(crate) fn join(
        &mut self,
        leaf: &Leaf,
        waiting: Option<Waiting<'_>>,
        next: Option<&Leaf>,
        (keys, values): EntryColumnsMut<'_>,
    ) -> usize {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let (Some(waiting), Some(wide)) = (waiting, Wide::detect()) {
            let target: EntryColumnsMut<'_> = (&mut *keys, &mut *values);
            if let Some(len) = join_waiting(
                leaf.sampled(),
                0..leaf.len(),
                waiting.unsorted(),
                lines_of(next),
                target,
                wide,
            ) {
                return len;
            }
        }
        prefetch_columns(next);
        let late = self.late.of_leaf(waiting, (&[], &[]));
        join_sorted(leaf, 0..leaf.len(), late, (keys, values))
    }
}

/// Returns the lines of the next leaf, to be prefetched during the join.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn lines_of(next: Option<&Leaf>) -> Lines<'_> {
    next.map_or((&[], &[]), Leaf::lines)
}

/// Prefetches all of the next leaf, where no join runs meanwhile.
#[inline(always)]
fn prefetch_columns(next: Option<&Leaf>) {
    if let Some(next) = next {
        next.prefetch_columns();
    }
}

/// As [`Joining::visit`], for a stretch of a leaf; late entries ascend and lie between the
/// neighbours of the stretch.
#[inline(always)]
fn visit_sorted(
    joined: &mut Option<Box<Joined>>,
    leaf: &Leaf,
    stretch: Range<usize>,
    mut late: EntryColumns<'_>,
    visit: &mut impl FnMut(&[u64], &[u64]),
) {
    if late.0.is_empty() {
        return visit_stored(leaf, stretch, visit);
    }
    let joined = joined.get_or_insert_with(Joined::new);
    let mut from = stretch.start;
    while late.0.len() > LATE {
        let (keys, more_keys) = late.0.split_at(LATE);
        let (values, more_values) = late.1.split_at(LATE);
        let to = leaf.rank(more_keys[0]).max(from);
        let len = join_sorted(leaf, from..to, (keys, values), joined.target());
        visit(&joined.keys[..len], &joined.values[..len]);
        (from, late) = (to, (more_keys, more_values));
    }
    let len = join_sorted(leaf, from..stretch.end.max(from), late, joined.target());
    visit(&joined.keys[..len], &joined.values[..len]);
}

/// Visits a stretch of a leaf that has no late entries.
#[inline(always)]
fn visit_stored(leaf: &Leaf, stretch: Range<usize>, visit: &mut impl FnMut(&[u64], &[u64])) {
    if !stretch.is_empty() {
        visit(&leaf.keys()[stretch.clone()], &leaf.values()[stretch]);
    }
}

impl Joined {
    #[cold]
    fn new() -> Box<Self> {
        Box::new(Self {
            keys: [0; JOINED],
            values: [0; JOINED],
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            within: WaitingRoom::EMPTY,
        })
    }

    fn target(&mut self) -> EntryColumnsMut<'_> {
        (&mut self.keys, &mut self.values)
    }
}

/// Writes the entries of a stretch of a leaf joined with late ones, which ascend and win, to the
/// beginnings of columns; returns how many.
#[inline(always)]
fn join_sorted(
    leaf: &Leaf,
    stretch: Range<usize>,
    late: EntryColumns<'_>,
    target: EntryColumnsMut<'_>,
) -> usize {
    let places = LatePlaces::find(leaf, &stretch, late.0);
    copy_between(leaf, stretch, late, &places, target)
}

/// Copies the stretches between late entries.
#[inline(always)]
fn copy_between(
    leaf: &Leaf,
    stretch: Range<usize>,
    late: EntryColumns<'_>,
    places: &LatePlaces,
    (keys, values): EntryColumnsMut<'_>,
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

/// Appends a stretch of a leaf in full groups, so that no branch depends on its length; returns the
/// new length.
#[inline(always)]
fn copy(leaf: &Leaf, stretch: Range<usize>, len: usize, (keys, values): EntryColumnsMut<'_>) -> usize {
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

impl LatePlaces {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bedload_testkit::Rng;

    use super::super::waiting::{Fingerprints, WaitingRoom};
    use super::*;
    use crate::near_sorted::options::LEAF_WAITING;
    use crate::near_sorted::tree::leaf_pages::PagePool;

    /// Returns `count` ascending keys below `end`, congruent to `residue` modulo 2.
    fn keys(rng: &mut Rng, count: usize, end: u64, residue: u64) -> Vec<u64> {
        let mut keys = BTreeMap::new();
        while keys.len() < count {
            keys.insert(rng.below(end / 2) * 2 + residue, ());
        }
        keys.into_keys().collect()
    }

    /// A leaf of these keys, and its pending entries.
    fn leaf_and_room(stored: &[u64], late: &[(u64, u64)]) -> (Leaf, WaitingRoom) {
        let mut leaf = Leaf::new(PagePool::new().take());
        for &key in stored {
            leaf.push(key, key + 1);
        }
        let (mut room, mut fingerprints) = (WaitingRoom::EMPTY, Fingerprints::NONE);
        // Fills the slots after the last entry with stale data.
        for place in 0..LEAF_WAITING {
            room.push(&mut fingerprints, place, (place as u64 * 101, 0));
        }
        for (place, &entry) in late.iter().enumerate() {
            room.push(&mut fingerprints, place, entry);
        }
        (leaf, room)
    }

    #[test]
    fn joining_is_merging_between_any_bounds() {
        let mut rng = Rng::new(7);
        for round in 0..if cfg!(miri) { 10 } else { 6_000 } {
            // Keys that are close, far apart, or mostly at one end.
            let end = [600, 4_000, 1 << 40, u64::MAX - 9][round % 4];
            let key = |rng: &mut Rng| {
                let is_near = round % 5 == 0 && rng.below(2) == 0;
                rng.below(if is_near { 600 } else { end })
            };
            let mut stored: Vec<u64> = (0..rng.index(LEAF_ENTRIES + 1)).map(|_| key(&mut rng)).collect();
            stored.sort_unstable();
            stored.dedup();
            // In every third round some late keys are present already, or come twice.
            let late: Vec<(u64, u64)> = (0..rng.index(LEAF_WAITING + 1))
                .map(|place| match rng.below(2) {
                    0 if round % 3 == 0 && !stored.is_empty() => {
                        (stored[rng.index(stored.len())], place as u64)
                    }
                    _ => (key(&mut rng), place as u64),
                })
                .collect();
            let mut newer: Vec<u64> = (0..rng.index(8) * (round % 2)).map(|_| key(&mut rng)).collect();
            newer.sort_unstable();
            newer.dedup();
            let (mut lower, mut upper) = (key(&mut rng), key(&mut rng));
            if lower > upper {
                (lower, upper) = (upper, lower);
            }
            if round % 7 < 3 {
                (lower, upper) = (0, u64::MAX - 1);
            }
            let newer = part_between((&newer, &newer), lower, upper);
            let (leaf, room) = leaf_and_room(&stored, &late);
            let waiting = (!late.is_empty()).then(|| room.waiting(late.len()));

            let mut all: BTreeMap<u64, u64> = stored.iter().map(|&key| (key, key + 1)).collect();
            all.extend(late.iter().copied());
            let mut model = all.clone();
            model.extend(newer.0.iter().map(|&key| (key, key)));
            let model: Vec<(u64, u64)> = model
                .range(lower..=upper)
                .map(|(&key, &value)| (key, value))
                .collect();

            let mut joining = Joining::new();
            let next = (round % 2 == 0).then_some(&leaf);
            let mut visited = Vec::new();
            joining.visit(
                &leaf,
                (lower, upper),
                LateEntries { waiting, newer },
                next,
                &mut |keys, values| {
                    visited.extend(keys.iter().copied().zip(values.iter().copied()));
                },
            );
            assert_eq!(visited, model, "round {round}");

            let (mut keys, mut values) = ([0; JOINED], [0; JOINED]);
            let len = joining.join(&leaf, waiting, next, (&mut keys, &mut values));
            let joined: Vec<(u64, u64)> = keys[..len].iter().copied().zip(values).collect();
            assert_eq!(
                joined,
                all.into_iter().collect::<Vec<_>>(),
                "all of round {round}"
            );
        }
    }

    #[test]
    fn copying_between_sorted_ones_is_merging() {
        let mut rng = Rng::new(7);
        for round in 0..if cfg!(miri) { 10 } else { 2_000 } {
            let stored = keys(&mut rng, round % LEAF_ENTRIES, 4_000, 0);
            let (leaf, _) = leaf_and_room(&stored, &[]);
            // In every other round some late keys are present already, and are replaced.
            let late_keys = keys(&mut rng, 1 + round % LATE, 4_000, (round % 2) as u64);
            let late_values: Vec<u64> = late_keys.iter().map(|key| key + 2).collect();
            let mut from = rng.index(stored.len() + 1);
            let mut to = rng.index(stored.len() + 1);
            if from > to {
                (from, to) = (to, from);
            }
            // Late keys lie between the neighbours of the stretch.
            let lower = if from > 0 { stored[from - 1] + 1 } else { 0 };
            let upper = stored.get(to).copied().unwrap_or(u64::MAX);
            let here =
                late_keys.partition_point(|&key| key < lower)..late_keys.partition_point(|&key| key < upper);
            let late = (&late_keys[here.clone()], &late_values[here]);

            let mut model: BTreeMap<u64, u64> = stored[from..to].iter().map(|&key| (key, key + 1)).collect();
            model.extend(late.0.iter().copied().zip(late.1.iter().copied()));
            let (model_keys, model_values): (Vec<u64>, Vec<u64>) = model.into_iter().unzip();

            let mut joined = Joined::new();
            let len = join_sorted(&leaf, from..to, late, joined.target());
            assert_eq!(joined.keys[..len], model_keys, "keys of round {round}");
            assert_eq!(joined.values[..len], model_values, "values of round {round}");
        }
    }
}
