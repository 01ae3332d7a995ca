//! Splits of hash leaves: how far from the middle a sampled median divides them, and how full they
//! were (Figures 13 and 14 of the Blink-hash paper).

use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::Trial;
use bedload_memory::{BlinkHash, BlinkHashOptions};
use bedload_testkit::Rng;

/// Shares of a leaf's keys sampled, in percent; the first is the default.
const SAMPLES: [(&str, u8); 4] = [
    ("sample-3", 3),
    ("sample-1", 1),
    ("sample-5", 5),
    ("sample-10", 10),
];
/// Neighbouring buckets probed; the first is the default.
const PROBES: [(&str, u8); 3] = [("probes-4", 4), ("probes-2", 2), ("probes-8", 8)];

const PERCENTILES: [usize; 7] = [10, 25, 50, 75, 90, 95, 99];

const ENTRY_BYTES: usize = 16;

pub(super) fn subjects() -> Vec<&'static str> {
    SAMPLES.iter().chain(&PROBES).map(|(name, _)| *name).collect()
}

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let splits = (plan.entries() / 1_000).max(4);
    let skews = Trial::new("blink-hash-splits", SAMPLES[0].0, plan)
        .param("splits", splits)
        .run(|round, samples| {
            for (name, percent) in SAMPLES {
                let options = BlinkHashOptions::new()
                    .append_percentile(50)
                    .sample_percent(percent);
                let mut rng = Rng::new(round);
                let all = (0..splits).map(|_| first_split(options, || rng.next_u64()).skew_percent());
                samples.add(name, distribution("skew", all.collect()));
            }
        });
    let loads = Trial::new("blink-hash-splits", PROBES[0].0, plan)
        .param("splits", splits)
        .run(|_, samples| {
            for (name, probes) in PROBES {
                let options = BlinkHashOptions::new().probes(probes);
                let all = (0..splits.div_ceil(10)).map(|number| {
                    let mut key = (number as u64) << 32;
                    let ascending = || {
                        key += 1 << 16;
                        key
                    };
                    first_split(options, ascending).load_percent()
                });
                samples.add(name, distribution("load when full", all.collect()));
            }
        });
    [skews, loads].concat()
}

/// A full leaf, and the key at which it was split.
struct Split {
    room: usize,
    entries: usize,
    below: usize,
}

impl Split {
    /// Returns how far the share of entries below the key deviates from half.
    fn skew_percent(&self) -> f64 {
        (self.below as f64 / self.entries as f64 - 0.5).abs() * 100.0
    }

    fn load_percent(&self) -> f64 {
        self.entries as f64 / self.room as f64 * 100.0
    }
}

/// Inserts distinct keys until the first leaf splits.
fn first_split(options: BlinkHashOptions, mut next: impl FnMut() -> u64) -> Split {
    let index = BlinkHash::<u64>::with_options(options);
    let room = index.memory_use().entries_unoccupied / ENTRY_BYTES;
    let mut keys = Vec::with_capacity(room);
    loop {
        let key = next();
        index.insert(key, key);
        if let [fence] = index.fences()[..] {
            let below = keys.iter().filter(|&&key| key < fence).count();
            let entries = keys.len();
            return Split { room, entries, below };
        }
        keys.push(key);
    }
}

fn distribution(metric: &str, mut values: Vec<f64>) -> Vec<Figure> {
    values.sort_by(f64::total_cmp);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let figure = |what: String, value: f64| Figure::new(format!("{metric}, {what}"), "%", value);
    let percentiles = PERCENTILES.map(|percentile| {
        let place = (values.len() - 1) * percentile / 100;
        figure(format!("p{percentile}"), values[place])
    });
    [&[figure("mean".to_owned(), mean)][..], &percentiles].concat()
}
