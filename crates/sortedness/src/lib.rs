//! Exact measures K and L of how far a finished sequence is from sorted.
//!
//! For a sequence of `n` keys in order of arrival:
//!
//! * **K** is `n` less the length of a longest *non-decreasing* subsequence: the fewest rows whose
//!   removal leaves the rest in order.
//! * **L** is the largest distance between a row's position of arrival and its position in the
//!   *stable* sorted order.
//!
//! Both are the (K, L)-sortedness of Ben-Moshe et al. (ICDT 2011), used in the literature on
//! sortedness-aware indexes. The K parameter of a workload generator, a share of keys to be
//! swapped, is another quantity.
//!
//! # Why it is cheap
//!
//! List the positions of arrival in stable sorted order: `p[0], p[1], …`, a permutation of `0..n`.
//! Then `L = max |rank − p[rank]|`, and a set of rows is non-decreasing by arrival exactly if its
//! positions *increase* along the list, so `K = n − (longest increasing subsequence of p)`.
//! [`Displacement`] reads that list once, by patience sorting (Fredman, Discrete Mathematics 11,
//! 1975), and discards state that can no longer change: once every position below `m` has been
//! seen, all later ones are at least `m`, and a pile that ends below `m` is final. Since
//! `rank − L ≤ m`, it keeps O(L) positions for any `n`, and L need not be known in advance. So one
//! scan by key measures a table that knows each row's number of arrival.

mod ahead;
mod estimator;
mod piles;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use ahead::RunnerUp;
pub use estimator::{Estimate, Estimator, SavedOrder};

use std::collections::{BTreeMap, VecDeque};

/// Words of a bitmap of positions. Few under test, so that bitmaps are given back often.
const BITMAP_WORDS: usize = if cfg!(test) { 1 } else { 64 };
/// Positions of a bitmap.
const BITMAP: u64 = BITMAP_WORDS as u64 * WORD;
const WORD: u64 = u64::BITS as u64;

/// How far a finished sequence is from sorted.
///
/// ```
/// use bedload_sortedness::Sortedness;
///
/// let measured = Sortedness::of_keys(&[10, 30, 40, 20, 20, 50]);
/// assert_eq!(measured.rows, 6);
/// assert_eq!(measured.k, 2); // without two rows (the 30 and the 40, or both 20s) the rest is in order
/// assert_eq!(measured.l, 2); // 30 arrived at place 1 and belongs at 3
/// assert_eq!(measured.below_running_max, 2);
/// assert_eq!(measured.adjacent_inversions, 1); // 40, 20
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sortedness {
    /// Keys in the sequence.
    pub rows: u64,
    /// Rows less the length of a longest non-decreasing subsequence.
    pub k: u64,
    /// The largest distance, in rows, between a row's position of arrival and its position in the
    /// stable sorted order.
    pub l: u64,
    /// Rows whose key lies below the largest key that arrived before them; they cannot be appended
    /// at the right edge.
    pub below_running_max: u64,
    /// Rows whose key lies below that of the row just before them.
    pub adjacent_inversions: u64,
}

impl Sortedness {
    /// Measures a sequence of keys in order of arrival. Time O(n log n), memory O(n).
    ///
    /// Keys that compare equal keep their order of arrival, so a sequence of equal keys is sorted.
    #[must_use]
    pub fn of_keys<T: Ord>(keys: &[T]) -> Self {
        Self::of_order(keys, &arrivals_in_sorted_order(keys))
    }

    /// Like [`of_keys`](Self::of_keys), given what [`arrivals_in_sorted_order`] returns of the keys.
    ///
    /// ```
    /// use bedload_sortedness::{Sortedness, arrivals_in_sorted_order};
    ///
    /// let keys = [1, 5, 2, 4];
    /// let order = arrivals_in_sorted_order(&keys);
    /// assert_eq!(Sortedness::of_order(&keys, &order), Sortedness::of_keys(&keys));
    /// ```
    #[must_use]
    pub fn of_order<T: Ord>(keys: &[T], order: &[usize]) -> Self {
        let mut arrivals = Arrivals::new();
        for key in keys {
            arrivals.push(key);
        }
        let mut displacement = Displacement::new();
        for &place in order {
            let seen = displacement.push(place as u64);
            debug_assert!(seen.is_ok(), "a sorted list of places is a permutation");
        }
        Self::of_parts(&arrivals, &displacement)
    }

    /// Combines the counts made as rows arrived with the result of a later scan in sorted order.
    #[must_use]
    pub fn of_parts<T>(arrivals: &Arrivals<T>, displacement: &Displacement) -> Self {
        Self {
            rows: displacement.rows(),
            k: displacement.k(),
            l: displacement.l(),
            below_running_max: arrivals.below_running_max(),
            adjacent_inversions: arrivals.adjacent_inversions(),
        }
    }

    /// K as a share of the rows, from 0 to 1.
    #[must_use]
    pub fn k_share(&self) -> f64 {
        share(self.k, self.rows)
    }

    /// L as a share of the rows, from 0 to 1.
    #[must_use]
    pub fn l_share(&self) -> f64 {
        share(self.l, self.rows)
    }

    /// The share of rows below the running maximum, from 0 to 1.
    #[must_use]
    pub fn below_running_max_share(&self) -> f64 {
        share(self.below_running_max, self.rows)
    }

    /// The share of neighbouring pairs that are inverted, from 0 to 1.
    #[must_use]
    pub fn adjacent_inversions_share(&self) -> f64 {
        share(self.adjacent_inversions, self.rows.saturating_sub(1))
    }
}

/// Returns the positions of arrival (indices into `keys`) in the stable sorted order of the keys.
/// Time O(n log n).
///
/// ```
/// use bedload_sortedness::arrivals_in_sorted_order;
/// assert_eq!(arrivals_in_sorted_order(&['b', 'a', 'b', 'a']), [1, 3, 0, 2]);
/// ```
#[must_use]
pub fn arrivals_in_sorted_order<T: Ord>(keys: &[T]) -> Vec<usize> {
    let mut keyed: Vec<(&T, usize)> = keys.iter().zip(0..).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, place)| place).collect()
}

/// Counts, as rows arrive, those below the running maximum and the adjacent inversions. Memory
/// O(1).
///
/// ```
/// use bedload_sortedness::Arrivals;
///
/// let mut arrivals = Arrivals::new();
/// for key in [1, 5, 2, 4] {
///     arrivals.push(key);
/// }
/// assert_eq!(arrivals.below_running_max(), 2); // 2 and 4 lie below 5
/// assert_eq!(arrivals.adjacent_inversions(), 1); // 5, 2
/// ```
#[derive(Debug, Clone, Default)]
pub struct Arrivals<T> {
    /// The largest key so far, and the newest if it is not the largest.
    max: Option<T>,
    below_max: Option<T>,
    below_running_max: u64,
    adjacent_inversions: u64,
}

impl<T: Ord> Arrivals<T> {
    /// Creates a counter of no rows.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max: None,
            below_max: None,
            below_running_max: 0,
            adjacent_inversions: 0,
        }
    }

    /// Counts the next key.
    pub fn push(&mut self, key: T) {
        if self
            .below_max
            .as_ref()
            .or(self.max.as_ref())
            .is_some_and(|newest| key < *newest)
        {
            self.adjacent_inversions += 1;
        }
        if self.max.as_ref().is_some_and(|max| key < *max) {
            self.below_running_max += 1;
            self.below_max = Some(key);
        } else {
            self.max = Some(key);
            self.below_max = None;
        }
    }
}

impl<T> Arrivals<T> {
    /// Returns the number of rows whose key lies below the largest key that arrived before them.
    #[must_use]
    pub fn below_running_max(&self) -> u64 {
        self.below_running_max
    }

    /// Returns the number of rows whose key lies below that of the row just before them.
    #[must_use]
    pub fn adjacent_inversions(&self) -> u64 {
        self.adjacent_inversions
    }
}

/// Measures K and L from positions of arrival in stable sorted order, as a scan by key yields them.
///
/// One pass; time O(log L) per row, memory O(L), and no more than some 600 bytes per row whatever
/// the positions are. The [crate documentation](self) explains why that suffices.
///
/// ```
/// use bedload_sortedness::Displacement;
///
/// // Keys 10, 30, 40, 20 arrived at places 0, 1, 2, 3; in sorted order they stand at 0, 3, 1, 2.
/// let mut displacement = Displacement::new();
/// for place in [0, 3, 1, 2] {
///     displacement.push(place)?;
/// }
/// assert_eq!((displacement.k(), displacement.l()), (1, 2));
/// # Ok::<(), bedload_sortedness::NotAPermutation>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Displacement {
    rows: u64,
    l: u64,
    /// Every position below this one has been seen; this one has not.
    complete_below: u64,
    /// Which positions from `complete_below` on have been seen: bitmaps by the number of the
    /// bitmap.
    seen: BTreeMap<u64, Box<[u64; BITMAP_WORDS]>>,
    /// Piles that end below `complete_below` and are final.
    final_piles: u64,
    /// The last position on each of the other piles, ascending: pile `i` ends with the smallest
    /// position that can end an increasing subsequence of length `final_piles + i + 1`.
    piles: VecDeque<u64>,
}

/// A position of arrival was given twice, so the input is not a permutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("place of arrival {place} was given twice")]
pub struct NotAPermutation {
    /// The repeated position.
    pub place: u64,
}

impl Displacement {
    /// Creates a measurement of no rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the position of arrival, from 0, of the next row in stable sorted order.
    ///
    /// # Errors
    ///
    /// The position was given before; the row is not counted.
    pub fn push(&mut self, place: u64) -> Result<(), NotAPermutation> {
        if place < self.complete_below || !self.note_seen(place) {
            return Err(NotAPermutation { place });
        }
        self.l = self.l.max(self.rows.abs_diff(place));
        self.rows += 1;

        let pile = self.piles.partition_point(|&last| last < place);
        match self.piles.get_mut(pile) {
            Some(last) => *last = place,
            None => self.piles.push_back(place),
        }

        if place == self.complete_below {
            self.pass_seen();
        }
        while self.piles.front().is_some_and(|&last| last < self.complete_below) {
            self.piles.pop_front();
            self.final_piles += 1;
        }
        Ok(())
    }

    /// Notes a position; returns whether it is new.
    fn note_seen(&mut self, place: u64) -> bool {
        let bitmap = self
            .seen
            .entry(place / BITMAP)
            .or_insert_with(|| Box::new([0; BITMAP_WORDS]));
        let word = &mut bitmap[word_of(place)];
        let bit = 1 << (place % WORD);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Passes all positions that have been seen.
    fn pass_seen(&mut self) {
        while let Some(bitmap) = self.seen.get(&(self.complete_below / BITMAP)) {
            let word = bitmap[word_of(self.complete_below)] >> (self.complete_below % WORD);
            let seen = u64::from(word.trailing_ones());
            if seen == 0 {
                return;
            }
            self.complete_below += seen;
            if self.complete_below.is_multiple_of(BITMAP) {
                self.seen.pop_first();
            }
        }
    }

    /// Returns the number of rows seen.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns whether the positions seen are exactly `0..rows`. Only then are [`k`](Self::k) and
    /// [`l`](Self::l) those of a complete sequence.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete_below == self.rows
    }

    /// Returns the rows less the length of a longest non-decreasing subsequence of those seen.
    #[must_use]
    pub fn k(&self) -> u64 {
        self.rows - self.final_piles - self.piles.len() as u64
    }

    /// Returns the largest distance between position of arrival and sorted position.
    #[must_use]
    pub fn l(&self) -> u64 {
        self.l
    }
}

/// Returns the word of its bitmap that has a position.
const fn word_of(place: u64) -> usize {
    (place % BITMAP / WORD) as usize
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    /// K by the quadratic recurrence, L and the counts by their definitions.
    fn brute_force(keys: &[i64]) -> Sortedness {
        let n = keys.len();
        let mut longest = vec![1_u64; n];
        for i in 0..n {
            for j in 0..i {
                if keys[j] <= keys[i] {
                    longest[i] = longest[i].max(longest[j] + 1);
                }
            }
        }
        let rank = |i: usize| {
            let before = keys[..i].iter().filter(|&&key| key <= keys[i]).count();
            before + keys[i..].iter().filter(|&&key| key < keys[i]).count()
        };
        Sortedness {
            rows: n as u64,
            k: n as u64 - longest.iter().max().copied().unwrap_or(0),
            l: (0..n).map(|i| rank(i).abs_diff(i)).max().unwrap_or(0) as u64,
            below_running_max: (0..n)
                .filter(|&i| keys[..i].iter().any(|&key| key > keys[i]))
                .count() as u64,
            adjacent_inversions: keys.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64,
        }
    }

    proptest! {
        #[test]
        fn agrees_with_brute_force_on_any_keys(keys in prop::collection::vec(any::<i64>(), 0..120)) {
            prop_assert_eq!(Sortedness::of_keys(&keys), brute_force(&keys));
        }

        #[test]
        fn agrees_with_brute_force_on_many_equal_keys(keys in prop::collection::vec(-4_i64..4, 0..120)) {
            prop_assert_eq!(Sortedness::of_keys(&keys), brute_force(&keys));
        }

        #[test]
        fn agrees_with_brute_force_on_near_sorted_keys(delays in prop::collection::vec(0_i64..12, 0..250)) {
            let keys: Vec<i64> = delays.iter().zip(0..).map(|(delay, i)| i + delay).collect();
            prop_assert_eq!(Sortedness::of_keys(&keys), brute_force(&keys));
        }

        #[test]
        fn remembers_no_more_than_the_displacement(delays in prop::collection::vec(0_i64..12, 0..2000)) {
            let keys: Vec<i64> = delays.iter().zip(0..).map(|(delay, i)| i + delay).collect();
            let mut displacement = Displacement::new();
            for place in arrivals_in_sorted_order(&keys) {
                displacement.push(place as u64).unwrap();
                // A delay below 12 displaces by at most 11 rows in either direction.
                // 64 positions each.
                prop_assert!(displacement.seen.len() <= 2);
                prop_assert!(displacement.piles.len() <= 2 * 12);
            }
            prop_assert!(displacement.is_complete());
        }
    }

    #[test]
    fn sequences_whose_measures_are_known() {
        let measure = |keys: &[i64]| {
            let measured = Sortedness::of_keys(keys);
            (measured.k, measured.l)
        };
        assert_eq!(measure(&[]), (0, 0));
        assert_eq!(measure(&[7]), (0, 0));
        assert_eq!(measure(&[7, 7, 7]), (0, 0));
        assert_eq!(measure(&[3, 2, 1, 0]), (3, 3));
        assert_eq!(measure(&[1, 2, 3, 0]), (1, 3));
        assert_eq!(measure(&[i64::MAX, i64::MIN]), (1, 1));
    }

    #[test]
    fn shares_of_nothing_are_zero() {
        let nothing = Sortedness::default();
        assert_eq!(
            nothing.k_share() + nothing.l_share() + nothing.adjacent_inversions_share(),
            0.0
        );
    }

    #[test]
    fn a_place_given_twice_is_refused() {
        let mut displacement = Displacement::new();
        displacement.push(0).unwrap();
        displacement.push(2).unwrap();
        assert_eq!(displacement.push(0), Err(NotAPermutation { place: 0 }));
        assert_eq!(displacement.push(2), Err(NotAPermutation { place: 2 }));
        assert!(!displacement.is_complete());
        displacement.push(1).unwrap();
        assert!(displacement.is_complete());
        assert_eq!(displacement.rows(), 3);
    }

    #[test]
    fn any_place_is_taken_in_little_memory() {
        let mut displacement = Displacement::new();
        for place in [u64::MAX, 1 << 40, 0, 1 << 50] {
            displacement.push(place).unwrap();
            assert_eq!(displacement.push(place), Err(NotAPermutation { place }));
        }
        assert_eq!((displacement.rows(), displacement.l()), (4, u64::MAX));
        assert!(!displacement.is_complete());
        assert_eq!(displacement.seen.len(), 4);
    }

    /// A year of departures, in order of schedule.
    #[test]
    fn real_departures() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/flights.csv.gz");
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        // All have one format and zone, so the strings sort like the times.
        let departures: Vec<&str> = text
            .lines()
            .skip(1)
            .filter_map(|line| line.split(',').nth(1))
            .collect();
        assert_eq!(departures.len(), 336_776);
        let departed: Vec<&str> = departures.into_iter().filter(|time| !time.is_empty()).collect();

        let measured = Sortedness::of_keys(&departed);
        assert_eq!(measured.rows, 328_521);
        assert_eq!(measured.k, 156_941);
        assert_eq!(measured.l, 770);
        assert_eq!(
            format!("{:.1}", 100.0 * measured.below_running_max_share()),
            "94.8"
        );
        assert_eq!(
            format!("{:.1}", 100.0 * measured.adjacent_inversions_share()),
            "24.2"
        );
    }
}
