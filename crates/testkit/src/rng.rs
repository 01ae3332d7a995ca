//! Random numbers that are equal on all platforms.
//!
//! Only integer arithmetic and operations that IEEE 754 rounds exactly are used, so that neither
//! the platform's mathematical library nor a new version of a crate changes the numbers of a seed.

/// A seeded generator: xoshiro256** (Blackman, Vigna, 2018), its state filled by SplitMix64.
///
/// ```
/// use bedload_testkit::Rng;
/// let (mut a, mut b) = (Rng::new(7), Rng::new(7));
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert!(a.below(10) < 10);
/// ```
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Creates the generator of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let state = std::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            finalise(x)
        });
        Self { state }
    }

    /// Creates a generator for one of several independent streams of a seed, such as one per
    /// thread.
    #[must_use]
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self::new(seed ^ finalise(stream.wrapping_add(0x5851_f42d_4c95_7f2d)))
    }

    /// Returns 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Returns a uniform number in `0..bound`, without bias (Lemire, "Fast random integer
    /// generation in an interval", 2019).
    ///
    /// # Panics
    ///
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number lies below zero");
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if low_half(product) >= bound.wrapping_neg() % bound {
                return high_half(product);
            }
        }
    }

    /// Like [`Rng::below`], for indexes.
    ///
    /// # Panics
    ///
    /// If `bound` is zero.
    pub fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("lies below a usize")
    }

    /// Returns a uniform number in `[0, 1)`, a multiple of 2⁻⁵³.
    pub fn unit(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.next_u64() >> 11) as f64 * SCALE
    }

    /// Returns true with a probability of `percent` %.
    pub fn percent(&mut self, percent: f64) -> bool {
        self.unit() * 100.0 < percent
    }

    /// Shuffles the items uniformly (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection in which every input
/// bit affects every output bit.
pub(crate) const fn finalise(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

const fn high_half(x: u128) -> u64 {
    low_half(x >> 64)
}

#[expect(clippy::cast_possible_truncation, reason = "only the low half is needed")]
const fn low_half(x: u128) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut rng = Rng::new(42);
        let drawn: [u64; 4] = std::array::from_fn(|_| rng.next_u64());
        assert_eq!(
            drawn,
            [
                1_546_998_764_402_558_742,
                6_990_951_692_964_543_102,
                12_544_586_762_248_559_009,
                17_057_574_109_182_124_193
            ]
        );
    }

    #[test]
    fn below_is_even_and_in_bounds() {
        let mut rng = Rng::new(1);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[rng.index(6)] += 1;
        }
        assert!(
            counts.iter().all(|count| (9_500..10_500).contains(count)),
            "{counts:?}"
        );
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn shuffle_keeps_every_item() {
        let mut items: Vec<u64> = (0..1000).collect();
        Rng::new(3).shuffle(&mut items);
        assert_ne!(items, (0..1000).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn streams_differ() {
        assert_ne!(Rng::stream(5, 0).next_u64(), Rng::stream(5, 1).next_u64());
    }
}
