//! Numbers by Zipf's law (Gray et al., "Quickly generating billion-record synthetic databases",
//! SIGMOD 1994).

use bedload_testkit::Rng;

/// The exponent of the distribution, as in YCSB.
const SKEW: f64 = 0.99;

/// Draws numbers below a bound, small ones most often.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Zipf {
    bound: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    pub(super) fn new(bound: u64) -> Self {
        let zeta = |bound: u64| (1..=bound).map(|n| (n as f64).powf(-SKEW)).sum::<f64>();
        let all = zeta(bound);
        let eta = (1.0 - (2.0 / bound as f64).powf(1.0 - SKEW)) / (1.0 - zeta(2) / all);
        Self {
            bound: bound as f64,
            zeta: all,
            eta,
        }
    }

    /// Draws the next number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number below the bound"
    )]
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let unit = rng.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(SKEW) {
            return 1;
        }
        (self.bound * (self.eta * unit - self.eta + 1.0).powf(1.0 / (1.0 - SKEW))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_numbers_are_drawn_often() {
        let (zipf, mut rng) = (Zipf::new(10_000), Rng::new(1));
        let drawn: Vec<u64> = (0..100_000).map(|_| zipf.draw(&mut rng)).collect();
        assert!(drawn.iter().all(|&number| number < 10_000));
        let share = |below: u64| drawn.iter().filter(|&&number| number < below).count() as f64 / 1e5;
        assert!((0.08..0.13).contains(&share(1)), "{}", share(1));
        assert!((0.45..0.60).contains(&share(100)), "{}", share(100));
    }
}
