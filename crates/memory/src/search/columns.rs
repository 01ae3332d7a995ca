//! Keys in atomic memory, one column for each word, so that a column is searched by SIMD.
//!
//! Everything here may race with a writer (rule 1 of
//! [`version_latch`](crate::sync::version_latch)): loads and stores are relaxed atomics, a key of
//! several words may be torn, and a search of a changing column returns some position within its
//! bounds. Readers validate before they use a result.

use std::fmt::Debug;

use super::copy::{move_down, move_up};
use super::words::{VectorUnit, lower_bound, rank_above_of_16, rank_of_8, rank_of_16, upper_bound};
use crate::sync::primitive::{AtomicU64, Ordering};

/// The words of a key: an array of one to four.
pub trait Words: Copy + Ord + Debug + Send + Sync + 'static {
    /// Room for `CAP` keys.
    type KeyColumns<const CAP: usize>: Debug + Send + Sync;

    /// The least key.
    const MIN: Self;

    /// The greatest key.
    const MAX: Self;

    /// The next greater key; none above the greatest.
    fn successor(&self) -> Option<Self>;

    /// The next smaller key; none below the least.
    fn predecessor(&self) -> Option<Self>;

    /// How many bits a key has.
    const BITS: u32;

    /// The greatest key that differs in no more than the `bits` lowest bits.
    fn with_low_bits_set(self, bits: u32) -> Self;

    /// The first word.
    fn first_word(&self) -> u64;

    /// The last word.
    fn last_word(&self) -> u64;

    /// A hash of all words.
    fn hash(&self, seed: u64) -> u64;

    /// A cheaper hash of all words, of which only the upper bits are mixed.
    fn quick_hash(&self) -> u64;

    /// Columns of zeros.
    fn new_columns<const CAP: usize>() -> Self::KeyColumns<CAP>;

    /// The column, where keys have one word.
    fn only_column<const CAP: usize>(columns: &Self::KeyColumns<CAP>) -> Option<&[AtomicU64; CAP]>;

    /// The key at `index`.
    fn load<const CAP: usize>(columns: &Self::KeyColumns<CAP>, index: usize) -> Self;

    /// Puts this key at `index`.
    fn store<const CAP: usize>(self, columns: &Self::KeyColumns<CAP>, index: usize);

    /// Moves the keys from `from` to `end` one position up; no other thread may be writing.
    fn move_up<const CAP: usize>(columns: &Self::KeyColumns<CAP>, from: usize, end: usize);

    /// Moves the keys after position `to`, up to position `end`, one position down, likewise.
    fn move_down<const CAP: usize>(columns: &Self::KeyColumns<CAP>, to: usize, end: usize);

    /// How many of the first `len` keys, which ascend, lie below this one, and whether the next is
    /// this one.
    fn search<const CAP: usize>(&self, columns: &Self::KeyColumns<CAP>, len: usize) -> (usize, bool) {
        self.search_from(columns, 0, len)
    }

    /// How many of the first `end` keys lie below this one if the first `start` do, and whether the
    /// next is this one; the keys from `start` on ascend.
    fn search_from<const CAP: usize>(
        &self,
        columns: &Self::KeyColumns<CAP>,
        start: usize,
        end: usize,
    ) -> (usize, bool);

    /// How many keys of a group, of those into which columns are divided, come before the first
    /// that is not below this one. Keys after it need not ascend.
    fn rank_in_group<const CAP: usize, const GROUP: usize>(
        &self,
        columns: &Self::KeyColumns<CAP>,
        group: usize,
        unit: VectorUnit,
    ) -> usize;

    /// How many of the first `end` keys are not above this one.
    fn rank_above<const CAP: usize>(
        &self,
        columns: &Self::KeyColumns<CAP>,
        end: usize,
        unit: VectorUnit,
    ) -> usize;
}

impl<const W: usize> Words for [u64; W] {
    type KeyColumns<const CAP: usize> = [[AtomicU64; CAP]; W];

    const MIN: Self = [0; W];
    const MAX: Self = [u64::MAX; W];
    #[expect(clippy::cast_possible_truncation, reason = "keys have up to four words")]
    const BITS: u32 = W as u32 * u64::BITS;

    fn with_low_bits_set(mut self, bits: u32) -> Self {
        let mut left = bits;
        for word in self.iter_mut().rev() {
            let own = left.min(u64::BITS);
            *word |= u64::MAX.checked_shr(u64::BITS - own).unwrap_or(0);
            left -= own;
        }
        self
    }

    fn successor(&self) -> Option<Self> {
        let mut words = *self;
        for word in words.iter_mut().rev() {
            *word = word.wrapping_add(1);
            if *word != 0 {
                return Some(words);
            }
        }
        None
    }

    fn predecessor(&self) -> Option<Self> {
        let mut words = *self;
        for word in words.iter_mut().rev() {
            let is_done = *word != 0;
            *word = word.wrapping_sub(1);
            if is_done {
                return Some(words);
            }
        }
        None
    }

    fn first_word(&self) -> u64 {
        self[0]
    }

    fn last_word(&self) -> u64 {
        self[W - 1]
    }

    fn hash(&self, seed: u64) -> u64 {
        self.iter().fold(seed, |state, word| mix(state ^ word))
    }

    #[inline]
    fn quick_hash(&self) -> u64 {
        self.iter().fold(0, |state, word| {
            (state ^ word ^ word >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    fn new_columns<const CAP: usize>() -> Self::KeyColumns<CAP> {
        std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0)))
    }

    #[inline]
    fn only_column<const CAP: usize>(columns: &Self::KeyColumns<CAP>) -> Option<&[AtomicU64; CAP]> {
        if W == 1 { columns.first() } else { None }
    }

    #[inline]
    fn load<const CAP: usize>(columns: &Self::KeyColumns<CAP>, index: usize) -> Self {
        std::array::from_fn(|word| columns[word][index].load(Ordering::Relaxed))
    }

    #[inline]
    fn store<const CAP: usize>(self, columns: &Self::KeyColumns<CAP>, index: usize) {
        for (column, word) in columns.iter().zip(self) {
            column[index].store(word, Ordering::Relaxed);
        }
    }

    #[inline]
    fn move_up<const CAP: usize>(columns: &Self::KeyColumns<CAP>, from: usize, end: usize) {
        columns.iter().for_each(|column| move_up(column, from, end));
    }

    #[inline]
    fn move_down<const CAP: usize>(columns: &Self::KeyColumns<CAP>, to: usize, end: usize) {
        columns.iter().for_each(|column| move_down(column, to, end));
    }

    #[inline]
    fn search_from<const CAP: usize>(
        &self,
        columns: &Self::KeyColumns<CAP>,
        start: usize,
        end: usize,
    ) -> (usize, bool) {
        if W == 1 {
            let end = end.min(CAP);
            let start = start.min(end);
            let rank = start + lower_bound(&columns[0][start..end], self[0]);
            let found = columns[0].get(rank).filter(|_| rank < end);
            return (
                rank,
                found.is_some_and(|cell| cell.load(Ordering::Relaxed) == self[0]),
            );
        }
        let mut high = end.min(CAP);
        let mut low = start.min(high);
        for (column, &word) in columns.iter().zip(self) {
            let equal_so_far = &column[low..high];
            let below = lower_bound(equal_so_far, word);
            let first = equal_so_far.get(below);
            let is_equal = first.is_some_and(|cell| cell.load(Ordering::Relaxed) == word);
            if !is_equal {
                return (low + below, false);
            }
            high = low + below + upper_bound(&equal_so_far[below..], word);
            low += below;
        }
        (low, true)
    }

    #[inline]
    fn rank_in_group<const CAP: usize, const GROUP: usize>(
        &self,
        columns: &Self::KeyColumns<CAP>,
        group: usize,
        unit: VectorUnit,
    ) -> usize {
        if W == 1 && GROUP == 8 {
            let (groups, _) = columns[0].as_chunks();
            return rank_of_8(&groups[group % (CAP / 8)], self[0], unit);
        }
        if W == 1 && GROUP == 16 {
            let (groups, _) = columns[0].as_chunks();
            return rank_of_16(&groups[group % (CAP / 16)], self[0], unit);
        }
        let start = group * GROUP;
        (0..GROUP)
            .find(|place| Self::load(columns, (start + place) % CAP) >= *self)
            .unwrap_or(GROUP)
    }

    #[inline]
    fn rank_above<const CAP: usize>(
        &self,
        columns: &Self::KeyColumns<CAP>,
        end: usize,
        unit: VectorUnit,
    ) -> usize {
        if W == 1
            && CAP == 16
            && let Some(words) = columns[0].first_chunk()
        {
            return rank_above_of_16(words, self[0], unit).min(end);
        }
        match self.successor() {
            Some(next) => next.search_from(columns, 0, end).0,
            None => end,
        }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): every input bit reaches every
/// output bit.
const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn neighbours_carry_from_word_to_word() {
        for (key, next) in [([0, 0], [0, 1]), ([0, u64::MAX], [1, 0]), ([7, 8], [7, 9])] {
            assert_eq!(key.successor(), Some(next));
            assert_eq!(next.predecessor(), Some(key));
        }
        assert_eq!(<[u64; 2]>::MAX.successor(), None);
        assert_eq!(<[u64; 2]>::MIN.predecessor(), None);
    }

    #[test]
    fn low_bits_are_set_from_word_to_word() {
        for (bits, expected) in [
            (0, [4, 8]),
            (2, [4, 11]),
            (64, [4, u64::MAX]),
            (66, [7, u64::MAX]),
        ] {
            assert_eq!([4, 8].with_low_bits_set(bits), expected);
        }
        assert_eq!([4, 8].with_low_bits_set(128), [u64::MAX; 2]);
    }

    #[test]
    fn search_goes_from_word_to_word() {
        let mut keys: Vec<[u64; 2]> = (0..3)
            .flat_map(|a| (0..20).map(move |b| [a * 5, b * 2]))
            .collect();
        keys.extend([[u64::MAX, 0], [u64::MAX, u64::MAX]]);
        let columns = <[u64; 2]>::new_columns::<64>();
        for (index, key) in keys.iter().enumerate() {
            key.store(&columns, index);
            assert_eq!(<[u64; 2]>::load(&columns, index), *key);
        }
        for probe in [
            [0, 0],
            [0, 1],
            [5, 38],
            [5, 39],
            [5, 40],
            [6, 0],
            [u64::MAX, 1],
            [u64::MAX; 2],
        ] {
            let expected = keys.partition_point(|key| *key < probe);
            let is_there = keys.get(expected) == Some(&probe);
            assert_eq!(
                probe.search(&columns, keys.len()),
                (expected, is_there),
                "{probe:?}"
            );
        }
    }
}
