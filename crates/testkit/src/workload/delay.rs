//! Late keys: time stamps delayed at random, or keys drawn from the past.

use crate::Rng;

/// Poisson-distributed numbers, by PTRS (Hörmann, "The transformed rejection method for generating
/// Poisson random variables", 1993) for means of 10 and more, and by counting exponential gaps
/// below.
///
/// ```
/// use bedload_testkit::{Rng, workload::Poisson};
/// let poisson = Poisson::new(1_000_000.0);
/// assert!(poisson.draw(&mut Rng::new(1)).abs_diff(1_000_000) < 10_000);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Poisson {
    mean: f64,
}

impl Poisson {
    /// Creates a distribution with this mean.
    ///
    /// # Panics
    ///
    /// If the mean is negative or above 2⁴⁸.
    #[must_use]
    pub fn new(mean: f64) -> Self {
        assert!((0.0..=(1_u64 << 48) as f64).contains(&mean), "{mean} is no mean");
        Self { mean }
    }

    /// Draws the next number.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        if self.mean < 10.0 {
            self.count_gaps(rng)
        } else {
            self.transform(rng)
        }
    }

    fn count_gaps(&self, rng: &mut Rng) -> u64 {
        let (mut count, mut sum) = (0, 0.0);
        loop {
            sum -= ln(1.0 - rng.unit());
            if sum > self.mean {
                return count;
            }
            count += 1;
        }
    }

    fn transform(&self, rng: &mut Rng) -> u64 {
        let b = 0.931 + 2.53 * self.mean.sqrt();
        let a = -0.059 + 0.024_83 * b;
        let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
        let squeeze = 0.9277 - 3.6224 / (b - 2.0);
        loop {
            let u = rng.unit() - 0.5;
            let v = 1.0 - rng.unit();
            let us = 0.5 - u.abs();
            let k = ((2.0 * a / us + b) * u + self.mean + 0.43).floor();
            if us >= 0.07 && v <= squeeze {
                return to_u64(k);
            }
            if k < 0.0 || (us < 0.013 && v > us) {
                continue;
            }
            if ln(v * inverse_alpha / (a / (us * us) + b)) <= k * ln(self.mean) - self.mean - ln_factorial(k)
            {
                return to_u64(k);
            }
        }
    }
}

/// Delays time stamps by a Poisson-distributed number of their units.
///
/// ```
/// use bedload_testkit::workload::PoissonDelay;
/// let mut delay = PoissonDelay::new(1000.0, 42);
/// assert!(delay.set_back(1_000_000) < 1_000_000);
/// ```
#[derive(Debug, Clone)]
pub struct PoissonDelay {
    poisson: Poisson,
    rng: Rng,
}

impl PoissonDelay {
    /// Creates delays with this mean.
    ///
    /// # Panics
    ///
    /// As for [`Poisson::new`].
    #[must_use]
    pub fn new(mean_ticks: f64, seed: u64) -> Self {
        Self {
            poisson: Poisson::new(mean_ticks),
            rng: Rng::new(seed),
        }
    }

    /// Returns the time of measurement of a reading that arrives at `now`; at least zero.
    pub fn set_back(&mut self, now: u64) -> u64 {
        now.saturating_sub(self.draw_ticks())
    }

    /// Draws the next delay, for callers that draw before they start the clock.
    pub fn draw_ticks(&mut self) -> u64 {
        self.poisson.draw(&mut self.rng)
    }
}

/// The kinds of late keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateKey {
    /// A key that was inserted before: the insert replaces its value.
    Existing,
    /// A new one between older ones.
    Fresh,
}

/// Draws a share of keys from the past, uniformly.
///
/// Keys are numbers `2n` for the n-th key in order; the odd numbers between are the fresh late
/// keys.
///
/// ```
/// use bedload_testkit::workload::{Late, LateKey};
/// let keys: Vec<u64> = Late::new(0.0, LateKey::Fresh, 1).take(3).collect();
/// assert_eq!(keys, [0, 2, 4]);
/// ```
#[derive(Debug, Clone)]
pub struct Late {
    share_percent: f64,
    kind: LateKey,
    in_order: u64,
    rng: Rng,
}

impl Late {
    /// `share_percent` of the keys, from 0 to 100, are late.
    #[must_use]
    pub fn new(share_percent: f64, kind: LateKey, seed: u64) -> Self {
        Self {
            share_percent,
            kind,
            in_order: 0,
            rng: Rng::new(seed),
        }
    }

    /// Continues after `keys` keys, 0 to `2 (keys - 1)`, were inserted in order.
    #[must_use]
    pub const fn after(mut self, keys: u64) -> Self {
        self.in_order = keys;
        self
    }
}

impl Iterator for Late {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.in_order > 0 && self.rng.percent(self.share_percent) {
            let past = 2 * self.rng.below(self.in_order);
            return Some(match self.kind {
                LateKey::Existing => past,
                LateKey::Fresh => past + 1,
            });
        }
        self.in_order += 1;
        Some(2 * (self.in_order - 1))
    }
}

/// Returns the natural logarithm of a positive normal number, by operations that round the same
/// everywhere. The relative error is below 10⁻¹⁵ away from 1.
fn ln(x: f64) -> f64 {
    const MANTISSA_BITS: u32 = 52;
    const ONE: u64 = 1023 << MANTISSA_BITS;
    let bits = x.to_bits();
    let mut exponent = (bits >> MANTISSA_BITS) as f64 - 1023.0;
    let mut mantissa = f64::from_bits((bits & ((1 << MANTISSA_BITS) - 1)) | ONE);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let series = (0..12_u32)
        .rev()
        .fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    exponent * std::f64::consts::LN_2 + 2.0 * z * series
}

/// Returns ln(k!), by Stirling's series, or by the product where that is inexact.
fn ln_factorial(k: f64) -> f64 {
    if k < 16.0 {
        let mut product = 1.0;
        let mut factor = 2.0;
        while factor <= k {
            product *= factor;
            factor += 1.0;
        }
        return ln(product);
    }
    let x = k + 1.0;
    let inverse_square = 1.0 / (x * x);
    let tail = (1.0 / 12.0 - inverse_square * (1.0 / 360.0 - inverse_square / 1260.0)) / x;
    (x - 0.5) * ln(x) - x + 0.5 * ln(2.0 * std::f64::consts::PI) + tail
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a non-negative whole number below 2^53"
)]
fn to_u64(whole: f64) -> u64 {
    whole as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_close() {
        for x in [1e-300, 1e-5, 0.3, 0.999, 1.5, 2.0, 10.0, 1e9, 1e300] {
            assert!((ln(x) - f64::ln(x)).abs() <= 1e-14 * f64::ln(x).abs(), "{x}");
        }
        assert_eq!(ln(1.0), 0.0);
        assert!((ln_factorial(20.0) - f64::ln(2_432_902_008_176_640_000.0)).abs() < 1e-11);
    }

    #[test]
    fn poisson_has_its_mean_and_variance() {
        for mean in [0.0, 0.5, 7.0, 10.0, 1000.0, 1e9] {
            let (poisson, mut rng) = (Poisson::new(mean), Rng::new(11));
            let drawn: Vec<f64> = (0..20_000).map(|_| poisson.draw(&mut rng) as f64).collect();
            let count = drawn.len() as f64;
            let average = drawn.iter().sum::<f64>() / count;
            let variance = drawn.iter().map(|x| (x - average).powi(2)).sum::<f64>() / count;
            let tolerance = 5.0 * (mean / count).sqrt();
            assert!((average - mean).abs() <= tolerance, "{mean}: {average}");
            assert!((variance - mean).abs() <= 0.05 * mean, "{mean}: {variance}");
        }
    }

    #[test]
    fn delays_saturate_at_zero() {
        let mut delay = PoissonDelay::new(1e6, 1);
        assert_eq!(delay.set_back(10), 0);
    }

    #[test]
    fn late_shares_and_kinds_are_as_asked() {
        for (kind, parity) in [(LateKey::Existing, 0), (LateKey::Fresh, 1)] {
            let (mut newest, mut late) = (None, 0);
            for key in Late::new(30.0, kind, 5).take(10_000) {
                if newest.is_some_and(|newest| key < newest || (key == newest && kind == LateKey::Existing))
                    || key % 2 == 1
                {
                    assert_eq!(key % 2, parity);
                    late += 1;
                } else {
                    newest = Some(key);
                }
            }
            assert!((2_800..3_200).contains(&late), "{kind:?}: {late}");
        }
        assert!(
            Late::new(100.0, LateKey::Existing, 5)
                .take(50)
                .all(|key| key == 0)
        );
    }
}
