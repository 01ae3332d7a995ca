//! A time series under everything at once: ascending inserts, late ones, corrections, deletions of
//! the old end and in the middle, scans both ways, conversions. Every answer is checked.
//!
//! `BEDLOAD_SOAK_SECONDS=600 cargo test --release -p bedload-memory --test contract soak` goes on
//! for ten minutes, with a new seed each round.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bedload_memory::{BlinkHash, BlinkHashOptions, BlinkTree, SbTree, SharedMap};
use bedload_testkit::Rng;

const WRITERS: u64 = 4;
/// Operations of a writer in a round.
const OPERATIONS: u64 = 60_000;
/// Entries that a writer keeps.
const KEPT: usize = 8_000;
/// How far back late keys, corrections and scans reach, in keys of the writer.
const REACH: u64 = 6_000;
const SCAN_MAX: usize = 64;

/// A value that names its key, so that an answer that mixes two entries is seen.
fn value_of(key: u64, version: u64) -> u64 {
    key << 24 | version & 0xff_ffff
}

/// One of the writers, and what it knows to be there: the keys that leave its number when divided
/// by all writers'.
struct Writer<'m, M> {
    map: &'m M,
    number: u64,
    newest: u64,
    version: u64,
    expected: BTreeMap<u64, u64>,
    rng: Rng,
}

impl<M: SharedMap<u64>> Writer<'_, M> {
    fn key(&self, time: u64) -> u64 {
        time * WRITERS + self.number
    }

    fn recent(&mut self) -> u64 {
        let time = self.newest.saturating_sub(self.rng.below(REACH));
        self.key(time)
    }

    fn insert(&mut self, key: u64) {
        self.version += 1;
        let value = value_of(key, self.version);
        self.map.insert(key, value);
        self.expected.insert(key, value);
    }

    fn remove(&mut self, key: u64) {
        assert_eq!(self.map.remove(key), self.expected.remove(&key), "remove {key}");
    }

    /// Own entries among those that a scan finds, up to the last it covers.
    fn scan(&mut self) {
        let from = self.recent();
        let (mut keys, mut values) = ([0; SCAN_MAX], [0; SCAN_MAX]);
        let limit = self.rng.index(SCAN_MAX) + 1;
        let filled = self
            .map
            .scan(keys_from(from), &mut keys[..limit], &mut values[..limit]);
        assert!(keys[..filled].is_sorted_by(|a, b| a < b), "{:?}", &keys[..filled]);
        let last = if filled == limit {
            keys[filled - 1]
        } else {
            u64::MAX
        };
        let found = keys.iter().copied().zip(values).take(filled);
        let own = found.filter(|(key, _)| key % WRITERS == self.number);
        let expected = self
            .expected
            .range(from..=last)
            .map(|(&key, &value)| (key, value));
        assert!(own.eq(expected), "a scan from {from} to {last} differs");
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..62 => {
                // Gaps, for late keys to fall into.
                self.newest += 1 + self.rng.below(2);
                self.insert(self.key(self.newest));
            }
            62..72 => {
                let key = self.recent();
                self.insert(key);
            }
            72..80 => {
                let key = self.recent();
                self.remove(key);
            }
            80..90 => {
                let key = self.recent();
                assert_eq!(self.map.get(key), self.expected.get(&key).copied(), "get {key}");
            }
            _ => self.scan(),
        }
        while self.expected.len() > KEPT
            && let Some((&oldest, _)) = self.expected.first_key_value()
        {
            self.remove(oldest);
        }
    }
}

/// All keys from this one on.
fn keys_from(key: u64) -> (Bound<u64>, Bound<u64>) {
    (Bound::Included(key), Bound::Unbounded)
}

/// Walks over all there is, either way, while others write: keys come in order, and values with the
/// keys they name.
fn walk<M: SharedMap<u64>>(map: &M, rng: &mut Rng) {
    let range = map.range(keys_from(0));
    let check = |last: Option<u64>, (key, value): (u64, u64), ascends: bool| {
        assert_eq!(key & 0xff_ffff_ffff, value >> 24, "the value of another key");
        let is_in_order = last.is_none_or(|last| if ascends { last < key } else { last > key });
        assert!(is_in_order, "{last:?} before {key}");
        Some(key)
    };
    if rng.percent(50.0) {
        range.fold(None, |last, entry| check(last, entry, true));
    } else {
        range.rev().fold(None, |last, entry| check(last, entry, false));
    }
}

fn round<M: SharedMap<u64>>(map: &M, seed: u64, maintain: impl Fn(&M) + Sync) {
    let writing = AtomicU64::new(WRITERS);
    let expected = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let writing = &writing;
                scope.spawn(move || {
                    let mut writer = Writer {
                        map,
                        number,
                        newest: 0,
                        version: 0,
                        expected: BTreeMap::new(),
                        rng: Rng::stream(seed, number),
                    };
                    // The reader would go on for ever beside a writer that has panicked.
                    scopeguard::defer! {
                        writing.fetch_sub(1, Ordering::Relaxed);
                    }
                    (0..OPERATIONS).for_each(|_| writer.step());
                    writer.expected
                })
            })
            .collect();
        scope.spawn(|| {
            let mut rng = Rng::stream(seed, WRITERS);
            while writing.load(Ordering::Relaxed) > 0 {
                walk(map, &mut rng);
                maintain(map);
            }
        });
        let expected = writers
            .into_iter()
            .map(|writer| writer.join().expect("every answer was right"));
        expected.fold(BTreeMap::new(), |mut all, own| {
            all.extend(own);
            all
        })
    });
    assert_eq!(map.check_structure(), Ok(()));
    assert!(map.range(keys_from(0)).eq(expected), "what is left differs");
}

/// A round, and more for as long as the environment asks for.
fn soak<M: SharedMap<u64>>(new: impl Fn() -> M, maintain: impl Fn(&M) + Sync) {
    let seconds = std::env::var("BEDLOAD_SOAK_SECONDS").ok();
    let seconds = seconds.map_or(0, |seconds| seconds.parse().expect("a number of seconds"));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut rounds = 0;
    while rounds == 0 || Instant::now() < end {
        round(&new(), rounds, &maintain);
        rounds += 1;
    }
}

#[test]
fn blink_tree_under_a_time_series() {
    soak(BlinkTree::new, |_| ());
}

#[test]
fn blink_hash_under_a_time_series() {
    let options = BlinkHashOptions::new().node_bytes(32 << 10);
    soak(
        || BlinkHash::with_options(options),
        |index| {
            index.convert_all();
        },
    );
}

#[test]
fn sb_tree_under_a_time_series() {
    soak(SbTree::new, SbTree::settle);
}
