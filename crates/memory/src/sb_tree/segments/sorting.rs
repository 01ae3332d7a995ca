//! Sorts logs whose keys do not ascend, a stretch at a time, and lanes.
//!
//! Keys that arrive a little late belong a few positions before their own in the log: each is
//! inserted there. Those that belong further away, such as updates of arbitrary keys, are kept
//! apart and merged with the others at the end.

use super::log::LOG_CAP;
use crate::search::columns::Words;
use crate::search::words::{VectorUnit, below_of_16};
use crate::sync::primitive::{AtomicU64, Ordering};

/// Moves per entry of a stretch on average, and the maximum for one entry.
const MOVES: usize = 16;
const MOVES_OF_ONE: usize = 64;

/// Keys of a log with their positions, ascending; equal ones by position.
#[derive(Debug)]
pub(crate) struct Sorting<W> {
    in_order: Vec<(W, u16)>,
    /// Entries that belong far before their position; those of one stretch are in order.
    strays: Vec<(W, u16)>,
}

impl<W: Ord + Copy> Sorting<W> {
    /// Creates an empty one with room for `entries`.
    pub(crate) fn new(entries: usize) -> Self {
        Self {
            in_order: Vec::with_capacity(entries),
            strays: Vec::new(),
        }
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.in_order.len() + self.strays.len()
    }

    /// Returns a key and its position in the log, after [`finish`](Self::finish).
    pub(crate) fn entry(&self, index: usize) -> (W, usize) {
        let (key, place) = self.in_order[index];
        (key, usize::from(place))
    }

    /// Returns how many entries have keys up to `greatest`, after [`finish`](Self::finish).
    pub(crate) fn up_to(&self, greatest: &W) -> usize {
        self.in_order.partition_point(|(key, _)| key <= greatest)
    }

    /// Adds the next stretch of the log.
    pub(crate) fn add(&mut self, stretch: impl ExactSizeIterator<Item = (W, usize)>) {
        let Self { in_order, strays } = self;
        let mut moves = MOVES * stretch.len();
        let strays_before = strays.len();
        for (key, place) in stretch {
            let entry = (key, u16::try_from(place).unwrap_or(u16::MAX));
            let mut to = in_order.len();
            if to > 0 && in_order[to - 1].0 > key {
                let reach = to.saturating_sub(moves.min(MOVES_OF_ONE));
                if reach > 0 && in_order[reach - 1].0 > key {
                    strays.push(entry);
                    continue;
                }
                in_order.push(entry);
                while to > 0 && in_order[to - 1].0 > key {
                    in_order[to] = in_order[to - 1];
                    to -= 1;
                }
                moves -= in_order.len() - 1 - to;
                in_order[to] = entry;
            } else {
                in_order.push(entry);
            }
        }
        strays[strays_before..].sort_unstable();
    }

    /// Merges the entries kept apart, when all are added.
    pub(crate) fn finish(&mut self) {
        let Self { in_order, strays } = self;
        // Consists of sorted stretches.
        strays.sort();
        let mut left = in_order.len();
        in_order.extend_from_slice(strays);
        let mut end = in_order.len();
        while let Some(stray) = strays.pop() {
            // Gallops: few come far apart, many close together.
            let mut step = 1;
            while step < left && in_order[left - step] > stray {
                step *= 2;
            }
            let from = left.saturating_sub(step);
            let place = from + in_order[from..left].partition_point(|entry| *entry < stray);
            in_order.copy_within(place..left, end - (left - place));
            end -= left - place + 1;
            left = place;
            in_order[end] = stray;
        }
    }
}

/// Copies the first `len` entries of two columns to `entries`, ascending; of equal keys the last.
pub(crate) fn in_order<'e, W: Words, const CAP: usize>(
    keys: &W::KeyColumns<CAP>,
    values: &[AtomicU64; CAP],
    len: usize,
    entries: &'e mut [(W, u64); CAP],
) -> &'e [(W, u64)] {
    const GROUP: usize = 16;
    let entry = |place: usize| (W::load(keys, place), values[place].load(Ordering::Relaxed));
    if let Some(column) = W::only_column(keys)
        && CAP.is_multiple_of(GROUP)
        && CAP <= u64::BITS as usize
    {
        // A key's rank is the number of keys below it. Equal ones share a rank, at which the last
        // remains.
        let unit = VectorUnit::of_this_processor();
        let (groups, _) = column.as_chunks::<GROUP>();
        let counted = match len {
            0 => 0,
            len => u64::MAX >> (u64::BITS as usize - len),
        };
        let mut taken = 0_u64;
        for place in 0..len {
            let (key, value) = entry(place);
            let mask_of = |group| u64::from(below_of_16(group, key.first_word(), unit));
            let masks = groups.iter().rev().map(mask_of);
            let below = masks.fold(0, |below, mask| below << GROUP | mask) & counted;
            let rank = below.count_ones() as usize % CAP;
            entries[rank] = (key, value);
            taken |= 1 << rank;
        }
        if taken == counted {
            return &entries[..len];
        }
        let mut kept = 0;
        for place in (0..len).filter(|place| taken >> place & 1 == 1) {
            entries[kept] = entries[place];
            kept += 1;
        }
        return &entries[..kept];
    }
    let entries = &mut entries[..len];
    for (place, to) in entries.iter_mut().enumerate() {
        *to = entry(place);
    }
    entries.sort_by_key(|entry| entry.0);
    let mut kept = 0;
    for place in 0..len {
        kept -= usize::from(kept > 0 && entries[kept - 1].0 == entries[place].0);
        entries[kept] = entries[place];
        kept += 1;
    }
    &entries[..kept]
}

const _: () = assert!(LOG_CAP <= u16::MAX as usize);

#[cfg(all(test, not(loom)))]
mod tests {
    use bedload_testkit::Rng;

    use super::*;

    #[test]
    fn whatever_the_disorder_keys_ascend_and_equal_ones_by_place() {
        let mut rng = Rng::new(1);
        for disorder in [1, 3, 40, 1_000_000] {
            let keys: Vec<u64> = (0..1_000).map(|place| place + rng.below(disorder)).collect();
            let mut expected: Vec<(u64, usize)> = keys.iter().copied().zip(0..).collect();
            expected.sort();
            let mut sorting = Sorting::new(0);
            for (number, stretch) in keys.chunks(100).enumerate() {
                sorting.add(
                    stretch
                        .iter()
                        .enumerate()
                        .map(|(place, &key)| (key, 100 * number + place)),
                );
                assert_eq!(sorting.len(), 100 * (number + 1));
            }
            sorting.finish();
            let sorted: Vec<_> = (0..sorting.len()).map(|index| sorting.entry(index)).collect();
            assert_eq!(sorted, expected);
        }
    }

    /// With and without vectors.
    fn of_columns_of<const CAP: usize>() {
        let mut rng = Rng::new(CAP as u64);
        let (keys, values) = (
            <[u64; 1]>::new_columns::<CAP>(),
            [const { AtomicU64::new(0) }; CAP],
        );
        for (number, range) in
            (0..if cfg!(miri) { 9 } else { 1_000 }).zip([2, 10, 1_000_000].into_iter().cycle())
        {
            let mut expected = std::collections::BTreeMap::new();
            let len = number % (CAP + 1);
            for (place, value) in values.iter().enumerate() {
                let key = [u64::MAX - rng.below(range)];
                key.store(&keys, place);
                value.store(place as u64, Ordering::Relaxed);
                if place < len {
                    expected.insert(key, place as u64);
                }
            }
            let mut entries = [([0], 0); CAP];
            let found = in_order(&keys, &values, len, &mut entries);
            assert!(found.iter().copied().eq(expected), "{len} of {range}");
        }
    }

    #[test]
    fn of_equal_keys_in_columns_the_last_is_left() {
        of_columns_of::<4>();
        of_columns_of::<16>();
        of_columns_of::<32>();
        of_columns_of::<64>();
    }
}
