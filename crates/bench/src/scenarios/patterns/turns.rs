//! One map's turn at one pattern.

use std::hint::black_box;
use std::time::Instant;

use bedload_testkit::Rng;

use super::keys::Pattern;
use crate::record::Figure;
use crate::subjects::{SerialSubject, add_entry, value_of};

/// Inserts between two looks at the clock.
const TIMED_TOGETHER: usize = 1000;
/// Lookups of each kind.
const LOOKUPS_MAX: usize = 500_000;

/// The keys of a pattern, and what is asked of a map that has them.
pub(super) struct Input {
    keys: Vec<u64>,
    /// Number of distinct keys, and the sum of their entries.
    all: (usize, u64),
    hits: Vec<u64>,
    /// Absent keys that lie between others.
    misses: Vec<u64>,
    /// Absent keys above all others.
    beyond: Vec<u64>,
}

impl Input {
    pub(super) fn new(pattern: Pattern, entries: usize) -> Self {
        let keys = pattern.keys(entries);
        let mut distinct = keys.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let entry = |&key: &u64| (key, value_of(key));
        let all = distinct.iter().map(entry).fold((0, 0), add_entry);
        let last = distinct.last().copied().unwrap_or(0);
        let mut rng = Rng::new(0x6869_7473);
        let lookups = LOOKUPS_MAX.min(entries);
        let hits: Vec<u64> = (0..lookups).map(|_| keys[rng.index(keys.len())]).collect();
        Self {
            all,
            misses: hits.iter().map(|key| key | 1).collect(),
            beyond: (0..lookups).map(|_| last + 2 + rng.below(1 << 32)).collect(),
            hits,
            keys,
        }
    }
}

/// Loads a new map with the keys, checks it, and reads from it.
pub(super) fn take<S: SerialSubject>(make: impl Fn() -> S, input: &Input) -> Vec<Figure> {
    let mut map = make();
    let (mut all, mut slowest) = (0.0, 0.0_f64);
    for keys in input.keys.chunks(TIMED_TOGETHER) {
        let begin = Instant::now();
        for &key in keys {
            map.insert(key, value_of(key));
        }
        let seconds = begin.elapsed().as_secs_f64();
        all += seconds;
        slowest = slowest.max(seconds);
    }
    for &key in &input.hits {
        assert_eq!(map.get(key), Some(value_of(key)), "a key is lost");
    }
    for &key in input.misses.iter().chain(&input.beyond) {
        assert_eq!(map.get(key), None, "a key is found");
    }
    assert_eq!(map.sum(0, u64::MAX), input.all, "a scan differs");

    let per_entry =
        |metric, seconds: f64, count: usize| Figure::new(metric, "ns", seconds * 1e9 / count.max(1) as f64);
    let begin = Instant::now();
    black_box(map.sum(0, u64::MAX));
    let scan = per_entry("full scan", begin.elapsed().as_secs_f64(), input.all.0);
    let mut lookups = |metric, keys: &[u64]| {
        let begin = Instant::now();
        for &key in keys {
            black_box(map.get(black_box(key)));
        }
        per_entry(metric, begin.elapsed().as_secs_f64(), keys.len())
    };
    vec![
        per_entry("insert", all, input.keys.len()),
        Figure::new("slowest 1,000 inserts", "us", slowest * 1e6),
        lookups("hit", &input.hits),
        lookups("miss", &input.misses),
        lookups("miss beyond", &input.beyond),
        scan,
    ]
}
