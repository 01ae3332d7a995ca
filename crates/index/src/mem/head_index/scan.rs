//! Reading many entries, part by part.

use std::ops::{Bound, RangeBounds};

use crossbeam_epoch as epoch;

use super::super::columns::Words;
use super::super::key::Key;
use super::super::range::{Leaves, words_of};
use super::super::sb_tree::inclusive;
use super::index::HeadIndex;

impl<K: Key> HeadIndex<K> {
    /// Copies the least entries whose keys lie in `bounds`, ascending, to the beginning of `keys` and `values`; returns
    /// how many. It stops where the range or the shorter slice ends: to go on, begin behind the last key.
    ///
    /// ```
    /// use bedload_index::mem::{HeadIndex, HeadKind};
    /// let index = HeadIndex::<u64>::new();
    /// (0..50).for_each(|key| index.insert(key, key + 1));
    /// index.switch_head(HeadKind::BlinkHash);
    /// (50..100).for_each(|key| index.insert(key, key + 1));
    /// let (mut keys, mut values) = ([0; 60], [0; 60]);
    /// assert_eq!(index.scan(45.., &mut keys, &mut values), 55);
    /// assert_eq!(values[..6], [46, 47, 48, 49, 50, 51]);
    /// ```
    pub fn scan(&self, bounds: impl RangeBounds<K>, keys: &mut [K], values: &mut [u64]) -> usize {
        let Some((mut start, end)) = inclusive(words_of(bounds)) else {
            return 0;
        };
        let room = keys.len().min(values.len());
        let mut filled = 0;
        while filled < room {
            let part = self.layout.part_of(&start);
            let part_end = part.end.map_or(end, |part_end| part_end.min(end));
            // Words beside a key stand for the key below them: only bounds behind which a range begins may be such.
            let before = start.predecessor().map(K::from_words);
            let piece = (
                before.map_or(Bound::Unbounded, Bound::Excluded),
                Bound::Included(K::from_words(part_end)),
            );
            let (keys, values) = (&mut keys[filled..room], &mut values[filled..room]);
            let read = self.maps.scan(part.kind, piece, keys, values);
            let Some(read) = read.filter(|_| self.layout.stands(&part)) else {
                continue;
            };
            filled += read;
            match part_end.successor().filter(|next| *next <= end) {
                Some(next) => start = next,
                None => break,
            }
        }
        filled
    }
}

impl<K: Key> Leaves<K::Words> for HeadIndex<K> {
    fn read_least(
        &self,
        lower: Bound<K::Words>,
        upper: Bound<K::Words>,
        entries: &mut Vec<(K::Words, u64)>,
    ) -> Option<K::Words> {
        let (start, end) = inclusive((lower, upper))?;
        let guard = &epoch::pin();
        let before = entries.len();
        loop {
            let part = self.layout.part_of(&start);
            let part_end = part.end.map_or(end, |part_end| part_end.min(end));
            let bounds = (Bound::Included(start), Bound::Included(part_end));
            if let Some(map) = self.maps.map(part.kind, guard) {
                let next = map.read_least(bounds.0, bounds.1, entries);
                if self.layout.stands(&part) {
                    return match part.end {
                        Some(part_end) => next.filter(|next| *next <= part_end).or(part_end.successor()),
                        None => next,
                    };
                }
            }
            entries.truncate(before);
        }
    }

    fn read_greatest(
        &self,
        lower: Bound<K::Words>,
        upper: Bound<K::Words>,
        entries: &mut Vec<(K::Words, u64)>,
    ) -> Option<K::Words> {
        let (start, end) = inclusive((lower, upper))?;
        let guard = &epoch::pin();
        let before = entries.len();
        loop {
            let part = self.layout.part_of(&end);
            let part_start = part.start.max(start);
            let bounds = (Bound::Included(part_start), Bound::Included(end));
            if let Some(map) = self.maps.map(part.kind, guard) {
                let next = map.read_greatest(bounds.0, bounds.1, entries);
                if self.layout.stands(&part) {
                    let next = next.filter(|next| *next > part.start);
                    return next.or(Some(part.start).filter(|part_start| *part_start > K::Words::MIN));
                }
            }
            entries.truncate(before);
        }
    }
}
