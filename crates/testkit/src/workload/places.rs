//! A set of positions with fast successor search.

/// Bits of a word.
const BITS: usize = 64;

/// A set of numbers below a length, as a hierarchy of bitmaps: a bit for each number, a bit for
/// each nonzero word of these, and so on up to a single word.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// The lowest level, of the numbers themselves, comes first.
    levels: Vec<Vec<u64>>,
}

impl Places {
    /// Creates the set of all numbers below `len`.
    pub(super) fn all(len: usize) -> Self {
        let mut levels = Vec::new();
        let mut len = len;
        loop {
            let mut words = vec![u64::MAX; len.div_ceil(BITS)];
            if let (Some(last), 1..) = (words.last_mut(), len % BITS) {
                *last = (1 << (len % BITS)) - 1;
            }
            len = words.len();
            levels.push(words);
            if len <= 1 {
                return Self { levels };
            }
        }
    }

    pub(super) fn contains(&self, place: usize) -> bool {
        self.levels[0][place / BITS] >> (place % BITS) & 1 == 1
    }

    pub(super) fn insert(&mut self, mut place: usize) {
        for words in &mut self.levels {
            words[place / BITS] |= 1 << (place % BITS);
            place /= BITS;
        }
    }

    pub(super) fn remove(&mut self, mut place: usize) {
        for words in &mut self.levels {
            let word = &mut words[place / BITS];
            *word &= !(1 << (place % BITS));
            if *word != 0 {
                return;
            }
            place /= BITS;
        }
    }

    /// Returns the least element at or above `from`. Time O(log n).
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let mut from = from;
        for (level, words) in self.levels.iter().enumerate() {
            let word = words.get(from / BITS)? >> (from % BITS);
            if word != 0 {
                let found = from + word.trailing_zeros() as usize;
                let below = self.levels[..level].iter().rev();
                return Some(below.fold(found, |found, words| {
                    found * BITS + words[found].trailing_zeros() as usize
                }));
            }
            // The rest of this word is empty; the level above finds the next nonempty word.
            from = from / BITS + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Rng;

    #[test]
    fn the_next_place_is_that_of_a_set() {
        let mut rng = Rng::new(4);
        for len in [1, 2, 63, 64, 65, 4_095, 4_096, 4_097, 10_000] {
            let mut places = Places::all(len);
            let mut model: BTreeSet<usize> = (0..len).collect();
            for _ in 0..2 * len {
                let place = rng.index(len);
                if rng.below(8) == 0 {
                    places.insert(place);
                    model.insert(place);
                } else {
                    places.remove(place);
                    model.remove(&place);
                }
                let from = rng.index(len + 1);
                assert_eq!(places.contains(place), model.contains(&place), "{place} of {len}");
                assert_eq!(
                    places.next(from),
                    model.range(from..).next().copied(),
                    "from {from} of {len}"
                );
            }
        }
    }
}
