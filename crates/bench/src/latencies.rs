//! Latencies, to the ten-thousandth slowest operation.

use hdrhistogram::Histogram;

use crate::record::Figure;
use crate::stamps::Stamps;

/// Longer times are recorded as this one: a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// A histogram of latencies in nanoseconds, to three digits.
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self {
            histogram: Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are in order"),
        }
    }

    /// Times one operation, including the reading of the clock.
    pub(crate) fn time<T>(&mut self, stamps: &Stamps, operation: impl FnOnce() -> T) -> T {
        let before = stamps.now();
        let answer = operation();
        self.histogram
            .saturating_record(stamps.nanoseconds(before, stamps.now()));
        answer
    }

    pub(crate) fn mean_ns(&self) -> f64 {
        self.histogram.mean()
    }

    pub(crate) fn median_ns(&self) -> f64 {
        self.histogram.value_at_quantile(0.5) as f64
    }

    /// Divides the latencies at a multiple of the median. Returns for the lower and the upper part
    /// its share of all latencies and its nanoseconds, averaged over all.
    pub(crate) fn parted(&self, times_median: u64) -> ((f64, f64), (f64, f64)) {
        let bound = times_median * self.histogram.value_at_quantile(0.5).max(1);
        let all = self.histogram.len() as f64;
        let (mut quick, mut slow) = ((0.0, 0.0), (0.0, 0.0));
        for step in self.histogram.iter_recorded() {
            let count = step.count_at_value() as f64 / all;
            let part = if step.value_iterated_to() < bound {
                &mut quick
            } else {
                &mut slow
            };
            part.0 += count;
            part.1 += count * step.value_iterated_to() as f64;
        }
        (quick, slow)
    }

    pub(crate) fn merge(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::new(), |mut sum, other| {
            sum.histogram
                .add(&other.histogram)
                .expect("all have the same bounds");
            sum
        })
    }

    pub(crate) fn figures(&self, metric: &str) -> Vec<Figure> {
        [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)]
            .map(|(name, quantile)| {
                Figure::new(
                    format!("{metric} {name}"),
                    "ns",
                    self.histogram.value_at_quantile(quantile) as f64,
                )
            })
            .to_vec()
    }
}
