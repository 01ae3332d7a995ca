//! Latencies, to the ten-thousandth slowest operation.

use std::hint::black_box;

use bedload_testkit::Rng;
use hdrhistogram::Histogram;

use super::time_series::{Operation, draw, load, sensors};
use crate::record::Record;
use crate::runner::{Figure, Plan, Stamps, on_threads, rounds};
use crate::subjects::INDEXES;

/// What takes longer counts as this: a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Latencies in nanoseconds, to three digits.
pub(super) struct Latencies {
    histogram: Histogram<u64>,
}

impl Latencies {
    pub(super) fn new() -> Self {
        Self {
            histogram: Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are in order"),
        }
    }

    /// Times one operation, the reading of the clock included.
    pub(super) fn time<T>(&mut self, stamps: &Stamps, operation: impl FnOnce() -> T) -> T {
        let before = stamps.now();
        let answer = operation();
        self.histogram
            .saturating_record(stamps.nanoseconds(before, stamps.now()));
        answer
    }

    pub(super) fn mean_ns(&self) -> f64 {
        self.histogram.mean()
    }

    /// Those of less than so many times the median, and the others: which share of all they are, and the nanoseconds of all
    /// that they take, each on average over all.
    pub(super) fn parted(&self, times_median: u64) -> ((f64, f64), (f64, f64)) {
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

    pub(super) fn merge(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::new(), |mut sum, other| {
            sum.histogram
                .add(&other.histogram)
                .expect("all have the same bounds");
            sum
        })
    }

    pub(super) fn figures(&self, metric: &str) -> Vec<Figure> {
        [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)]
            .map(|(name, quantile)| Figure {
                metric: format!("{metric} {name}"),
                unit: "ns",
                value: self.histogram.value_at_quantile(quantile) as f64,
            })
            .to_vec()
    }
}

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    rounds("timeseries-latency", plan, INDEXES, |subject, threads, round| {
        let stamps = Stamps::new();
        let (keys, _) = load(subject, threads, plan.entries() / 2, &stamps, round);
        let share = plan.share(keys.len(), threads);
        let (measured, _) = on_threads(threads, |thread| {
            let (mut inserts, mut queries, mut nothing) =
                (Latencies::new(), Latencies::new(), Latencies::new());
            let mut rng = Rng::stream(round, thread as u64);
            let mut stream = sensors(thread);
            for _ in 0..share {
                let key = stream.key_at(stamps.now());
                inserts.time(&stamps, || subject.insert(key, !key));
                nothing.time(&stamps, || black_box(key));
            }
            for key in &keys[thread * share..(thread + 1) * share] {
                match draw(&mut rng, false) {
                    Operation::Insert => {
                        let key = stream.key_at(stamps.now());
                        subject.insert(key, !key);
                    }
                    Operation::Lookup => {
                        queries.time(&stamps, || black_box(subject.get(*key)));
                    }
                    Operation::Scan(limit) => {
                        queries.time(&stamps, || black_box(subject.scan(*key, limit)));
                    }
                }
            }
            (inserts, queries, nothing)
        });
        let (mut inserts, mut queries, mut nothing) = (Vec::new(), Vec::new(), Vec::new());
        for (insert, query, empty) in measured {
            inserts.push(insert);
            queries.push(query);
            nothing.push(empty);
        }
        [
            ("insert", inserts),
            ("query under the mix", queries),
            ("nothing", nothing),
        ]
        .into_iter()
        .flat_map(|(metric, latencies)| Latencies::merge(latencies.into_iter()).figures(metric))
        .collect()
    })
}
