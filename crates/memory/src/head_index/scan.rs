//! Reading many entries, part by part.

use std::ops::{Bound, RangeBounds};

use crossbeam_epoch as epoch;

use super::index::HeadIndex;
use crate::map::key::Key;
use crate::map::range::{End, Leaves, inclusive, words_of};
use crate::search::columns::Words;

impl<K: Key> HeadIndex<K> {
    /// Copies the first entries whose keys lie in `bounds`, ascending, to the beginning of `keys`
    /// and `values`; returns how many. It stops at the end of the range or of the shorter slice: to
    /// continue, begin after the last key.
    ///
    /// ```
    /// use bedload_memory::{HeadIndex, HeadKind};
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
            // Words between two keys stand for the key below them; only start bounds may be such.
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
    fn read(
        &self,
        from: End,
        bounds: (Bound<K::Words>, Bound<K::Words>),
        entries: &mut Vec<(K::Words, u64)>,
    ) -> Option<K::Words> {
        let (start, end) = inclusive(bounds)?;
        let guard = &epoch::pin();
        let before = entries.len();
        loop {
            let part = self.layout.part_of(match from {
                End::Least => &start,
                End::Greatest => &end,
            });
            let part_end = part.end.map_or(end, |part_end| part_end.min(end));
            let within = (Bound::Included(part.start.max(start)), Bound::Included(part_end));
            if let Some(map) = self.maps.map(part.kind, guard) {
                let next = map.read(from, within, entries);
                if self.layout.stands(&part) {
                    return match (from, part.end) {
                        (End::Least, Some(end)) => next.filter(|next| *next <= end).or(end.successor()),
                        (End::Least, None) => next,
                        (End::Greatest, _) => {
                            let next = next.filter(|next| *next > part.start);
                            next.or(Some(part.start).filter(|start| *start > K::Words::MIN))
                        }
                    };
                }
            }
            entries.truncate(before);
        }
    }
}
