//! Nearly sorted sequences: the (K,L) generator of BoDS (Raman et al., "BoDS: A Benchmark on Data
//! Sortedness", TPCTC 2022).
//!
//! K has two meanings in the literature. The generator's K is the share of keys that it *swaps*, in
//! percent; here it is [`NearlySorted::swapped_percent`]. The *measured* K of a sequence is the
//! number of rows less the length of a longest non-decreasing subsequence, which is always smaller
//! than the number of keys swapped. The generator's L is [`NearlySorted::displacement_percent`].
//!
//! Unlike in the original, the same seed gives the same sequence, fractional percentages are
//! allowed, positions run from 0 to N−1, and no key is lost or repeated.

use std::num::NonZeroU32;

use super::places::Places;
use crate::Rng;

/// Parameters of a nearly sorted sequence of the numbers `0..len`.
///
/// ```
/// use bedload_testkit::workload::NearlySorted;
/// let spec = NearlySorted { swapped_percent: 10.0, displacement_percent: 5.0, ..NearlySorted::new(1000, 42) };
/// let sequence = spec.generate();
/// assert_eq!(sequence.swaps, 50);
/// assert_eq!(sequence.keys, spec.generate().keys);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct NearlySorted {
    /// N, the number of keys.
    pub len: usize,
    /// The generator's K: the share of keys that are moved, in percent of N, from 0 to 100. Half as
    /// many swaps are made.
    pub swapped_percent: f64,
    /// The generator's L: the largest displacement of a key, in percent of N, from 0 to 100.
    pub displacement_percent: f64,
    /// The first shape of the Beta distribution of displacements; 1 and 1 is uniform.
    pub alpha: NonZeroU32,
    /// The second shape of that distribution.
    pub beta: NonZeroU32,
    /// The same seed gives the same sequence.
    pub seed: u64,
}

/// The result of [`NearlySorted::generate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disordered {
    /// A permutation of `0..len`.
    pub keys: Vec<u64>,
    /// Disjoint swaps between the ascending sequence and this one. There are fewer than requested
    /// only if a source found no free partner in its window, which takes a K near 100 and a small
    /// L.
    pub swaps: usize,
}

/// Draws to attempt before taking the next free position of the window after another draw.
const TRIES: u32 = 128;

impl NearlySorted {
    /// Creates the ascending sequence of `len` keys: no swaps, uniform shapes.
    #[must_use]
    pub fn new(len: usize, seed: u64) -> Self {
        Self {
            len,
            swapped_percent: 0.0,
            displacement_percent: 0.0,
            alpha: NonZeroU32::MIN,
            beta: NonZeroU32::MIN,
            seed,
        }
    }

    /// Returns S = ⌊N·(K/2)/100⌋, the requested swaps.
    #[must_use]
    pub fn swaps(&self) -> usize {
        share(self.len, self.swapped_percent / 2.0)
    }

    /// Returns Lmax = ⌊N·L/100⌋, at most N−1: the largest displacement, in positions.
    #[must_use]
    pub fn displacement_max(&self) -> usize {
        share(self.len, self.displacement_percent).min(self.len.saturating_sub(1))
    }

    /// Generates the sequence. One swap spans exactly [`displacement_max`](Self::displacement_max)
    /// positions. Takes expected time O(N).
    ///
    /// # Panics
    ///
    /// If a percentage is not within 0 to 100.
    #[must_use]
    pub fn generate(&self) -> Disordered {
        for percent in [self.swapped_percent, self.displacement_percent] {
            assert!((0.0..=100.0).contains(&percent), "{percent} is not a percentage");
        }
        let mut keys: Vec<u64> = (0..self.len as u64).collect();
        let (swaps_wanted, reach) = (self.swaps(), self.displacement_max());
        if swaps_wanted == 0 || reach == 0 {
            return Disordered { keys, swaps: 0 };
        }
        let mut rng = Rng::new(self.seed);
        let mut free = Places::all(self.len);

        let near = rng.index(self.len - reach);
        keys.swap(near, near + reach);
        free.remove(near);
        free.remove(near + reach);

        let sources = self.draw_sources(swaps_wanted - 1, &mut free, &mut rng);
        let mut swaps = 1;
        for source in sources {
            let Some(target) = self.draw_target(source, reach, &free, &mut rng) else {
                free.insert(source);
                continue;
            };
            keys.swap(source, target);
            free.remove(target);
            swaps += 1;
        }
        Disordered { keys, swaps }
    }

    /// Draws distinct random positions in random order. At most half of all positions are taken, so
    /// a draw succeeds at least every second time on average.
    fn draw_sources(&self, count: usize, free: &mut Places, rng: &mut Rng) -> Vec<usize> {
        let mut sources = Vec::with_capacity(count);
        while sources.len() < count {
            let place = rng.index(self.len);
            if free.contains(place) {
                free.remove(place);
                sources.push(place);
            }
        }
        sources
    }

    /// Draws a free position in the window of a source, which is itself not free.
    fn draw_target(&self, source: usize, reach: usize, free: &Places, rng: &mut Rng) -> Option<usize> {
        let low = source.saturating_sub(reach);
        let high = (source + reach).min(self.len - 1);
        (0..TRIES)
            .map(|_| low + self.draw_offset(high - low + 1, rng))
            .find(|&target| free.contains(target))
            .or_else(|| {
                let start = low + rng.index(high - low + 1);
                let next = free.next(start).filter(|&target| target <= high);
                next.or_else(|| free.next(low).filter(|&target| target < start))
            })
    }

    /// Draws an offset below `width` from Beta(α, β): the α-th smallest of α + β − 1 uniform
    /// numbers.
    fn draw_offset(&self, width: usize, rng: &mut Rng) -> usize {
        if self.alpha.get() == 1 && self.beta.get() == 1 {
            return rng.index(width);
        }
        let draws = self.alpha.get() + self.beta.get() - 1;
        let mut drawn: Vec<usize> = (0..draws).map(|_| rng.index(width)).collect();
        drawn.sort_unstable();
        drawn[(self.alpha.get() - 1) as usize]
    }
}

/// Returns ⌊len · percent / 100⌋.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a length, rounded down, is a length"
)]
fn share(len: usize, percent: f64) -> usize {
    (len as f64 * percent / 100.0).floor() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(len: usize, k: f64, l: f64, seed: u64) -> NearlySorted {
        NearlySorted {
            swapped_percent: k,
            displacement_percent: l,
            ..NearlySorted::new(len, seed)
        }
    }

    fn displacements(keys: &[u64]) -> Vec<u64> {
        keys.iter()
            .enumerate()
            .map(|(place, &key)| key.abs_diff(place as u64))
            .collect()
    }

    #[test]
    fn laws_hold_for_every_k_and_l() {
        for (k, l) in [
            (10.0, 5.0),
            (20.0, 10.0),
            (50.0, 25.0),
            (60.0, 100.0),
            (2.0, 0.1),
            (0.3, 1.7),
        ] {
            for seed in 0..5 {
                let spec = spec(10_000, k, l, seed);
                let made = spec.generate();
                let mut sorted = made.keys.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..10_000), "{spec:?}: not a permutation");
                assert_eq!(made.swaps, spec.swaps(), "{spec:?}");
                let displaced = displacements(&made.keys);
                assert_eq!(displaced.iter().filter(|&&d| d > 0).count(), 2 * spec.swaps());
                assert_eq!(displaced.iter().max(), Some(&(spec.displacement_max() as u64)));
            }
        }
    }

    #[test]
    fn counts_round_down_and_take_fractions() {
        assert_eq!(spec(1000, 0.3, 0.19, 0).swaps(), 1);
        assert_eq!(spec(1000, 0.3, 0.19, 0).displacement_max(), 1);
        assert_eq!(spec(1000, 10.0, 100.0, 0).displacement_max(), 999);
    }

    #[test]
    fn nothing_to_swap_gives_the_ascending_sequence() {
        for spec in [
            spec(100, 0.0, 50.0, 1),
            spec(100, 50.0, 0.0, 1),
            spec(0, 10.0, 5.0, 1),
        ] {
            let made = spec.generate();
            assert!(made.keys.into_iter().eq(0..spec.len as u64));
            assert_eq!(made.swaps, 0);
        }
    }

    #[test]
    fn all_keys_swapped_is_nearly_reached() {
        let made = spec(10_000, 100.0, 50.0, 9).generate();
        assert!((4_950..=5_000).contains(&made.swaps), "{}", made.swaps);
    }

    #[test]
    fn a_seed_decides_everything() {
        let make = |seed| spec(1000, 10.0, 5.0, seed).generate();
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
    }

    #[test]
    fn shapes_move_displacements_to_one_side() {
        let shift = |alpha, beta| {
            let spec = NearlySorted {
                alpha: NonZeroU32::new(alpha).expect("positive"),
                beta: NonZeroU32::new(beta).expect("positive"),
                ..spec(10_000, 5.0, 10.0, 3)
            };
            let mut rng = Rng::new(8);
            (0..1000).map(|_| spec.draw_offset(1000, &mut rng)).sum::<usize>() / 1000
        };
        assert!((700..800).contains(&shift(3, 1)), "{}", shift(3, 1));
        assert!((200..300).contains(&shift(1, 3)), "{}", shift(1, 3));
    }
}
