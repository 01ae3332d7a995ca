//! Throughput of a time series: keys of a stamp, a sensor and a thread.

use std::hint::black_box;

use bedload_testkit::Rng;
use bedload_testkit::workload::SensorStream;
use parking_lot::Mutex;

use crate::crossing;
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::scenarios::by_threads::rounds;
use crate::stamps::Stamps;
use crate::subjects::{Answers, INDEXES, SCAN_MAX, Subject, indexes_and_ceiling};
use crate::threads::on_threads;

/// Loads `entries` keys with several threads. Returns the keys in random order, and the seconds,
/// including the subject's deferred work.
///
/// # Panics
///
/// If the subject's answers are wrong.
pub(super) fn load(
    subject: &dyn Subject,
    threads: usize,
    entries: usize,
    stamps: &Stamps,
    seed: u64,
) -> (Vec<u64>, f64) {
    // Filled, so that the memory is touched before timing.
    let keys: Vec<Mutex<Vec<u64>>> = (0..threads)
        .map(|_| Mutex::new(vec![u64::MAX; entries / threads]))
        .collect();
    subject.reserve(entries);
    let (_, inserting) = on_threads(threads, |thread| {
        let mut stream = sensors(thread);
        for place in keys[thread].lock().iter_mut() {
            let key = stream.key_at(stamps.now());
            subject.insert(key, !key);
            *place = key;
        }
    });
    let (_, settling) = on_threads(1, |_| subject.settle());
    let seconds = inserting + settling;
    let keys: Vec<Vec<u64>> = keys.into_iter().map(Mutex::into_inner).collect();
    let mut keys = keys.concat();
    verify(subject, &keys);
    Rng::new(seed).shuffle(&mut keys);
    (keys, seconds)
}

pub(in crate::scenarios) fn sensors(thread: usize) -> SensorStream {
    SensorStream::new(u8::try_from(thread % 64).unwrap_or(0))
}

/// Checks answers before they are timed.
pub(in crate::scenarios) fn verify(subject: &dyn Subject, keys: &[u64]) {
    if subject.answers() == Answers::Nothing {
        return;
    }
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    let step = (keys.len() / 1000).max(1);
    for place in (0..sorted.len()).step_by(step) {
        let key = sorted[place];
        assert_eq!(subject.get(key), Some(!key), "a loaded key is not found");
        assert_eq!(
            subject.get(key ^ 1 << 5),
            None,
            "a key that was never loaded is found"
        );
        if subject.answers() < Answers::Scans {
            continue;
        }
        let expected = &sorted[place..sorted.len().min(place + 10)];
        let sum = expected.iter().fold(0, |sum: u64, key| sum.wrapping_add(!key));
        assert_eq!(subject.scan(key, 10), (expected.len(), sum), "a scan differs");
    }
}

pub(super) fn throughput(metric: &str, operations: usize, seconds: f64) -> Figure {
    Figure::new(metric, "Mop/s", operations as f64 / seconds / 1e6)
}

pub(super) fn insert(plan: &Plan) -> Vec<Record> {
    rounds(
        "timeseries-insert",
        plan,
        &indexes_and_ceiling(),
        |subject, threads, round| {
            crossing::beside(threads, || {
                let (keys, seconds) = load(subject, threads, plan.entries(), &Stamps::new(), round);
                vec![throughput("insert", keys.len(), seconds)]
            })
        },
    )
}

pub(super) fn lookup(plan: &Plan) -> Vec<Record> {
    rounds("timeseries-lookup", plan, INDEXES, |subject, threads, round| {
        let (keys, _) = load(subject, threads, plan.entries(), &Stamps::new(), round);
        vec![lookups(plan, subject, threads, &keys)]
    })
}

pub(super) fn scan(plan: &Plan) -> Vec<Record> {
    rounds("timeseries-scan", plan, INDEXES, |subject, threads, round| {
        let (keys, _) = load(subject, threads, plan.entries(), &Stamps::new(), round);
        vec![scans(plan, subject, threads, round, &keys)]
    })
}

pub(super) fn mixed(plan: &Plan) -> Vec<Record> {
    rounds("timeseries-mixed", plan, INDEXES, |subject, threads, round| {
        let stamps = Stamps::new();
        let (keys, _) = load(subject, threads, plan.entries(), &stamps, round);
        mixes(plan, subject, threads, round, &keys, &stamps).to_vec()
    })
}

pub(super) fn all(plan: &Plan) -> Vec<Record> {
    rounds("timeseries", plan, INDEXES, |subject, threads, round| {
        one_after_another(plan, subject, threads, round)
    })
}

/// Runs inserts, lookups, scans and the mixes on one load.
pub(super) fn one_after_another(
    plan: &Plan,
    subject: &dyn Subject,
    threads: usize,
    round: u64,
) -> Vec<Figure> {
    let stamps = Stamps::new();
    let mut keys = Vec::new();
    let mut figures = crossing::beside(threads, || {
        let (loaded, seconds) = load(subject, threads, plan.entries(), &stamps, round);
        keys = loaded;
        vec![throughput("insert", keys.len(), seconds)]
    });
    figures.push(lookups(plan, subject, threads, &keys));
    if subject.answers() == Answers::Scans {
        figures.push(scans(plan, subject, threads, round, &keys));
        figures.extend(mixes(plan, subject, threads, round, &keys, &stamps));
    }
    figures
}

fn lookups(plan: &Plan, subject: &dyn Subject, threads: usize, keys: &[u64]) -> Figure {
    let share = plan.share(keys.len(), threads);
    let (_, seconds) = on_threads(threads, |thread| {
        for key in &keys[thread * share..(thread + 1) * share] {
            black_box(subject.get(*key));
        }
    });
    throughput("lookup", share * threads, seconds)
}

fn scans(plan: &Plan, subject: &dyn Subject, threads: usize, round: u64, keys: &[u64]) -> Figure {
    let share = plan.share(keys.len() / 2, threads);
    let (_, seconds) = on_threads(threads, |thread| {
        let mut rng = Rng::stream(round, thread as u64);
        for key in &keys[thread * share..(thread + 1) * share] {
            black_box(subject.scan(*key, rng.index(SCAN_MAX)));
        }
    });
    throughput("scan", share * threads, seconds)
}

fn mixes(
    plan: &Plan,
    subject: &dyn Subject,
    threads: usize,
    round: u64,
    keys: &[u64],
    stamps: &Stamps,
) -> [Figure; 2] {
    let share = plan.share(keys.len() / 2, threads);
    [
        ("mix, mostly short scans", false),
        ("mix, mostly long scans", true),
    ]
    .map(|(metric, mostly_long)| {
        let (_, seconds) = on_threads(threads, |thread| {
            let mut rng = Rng::stream(round, thread as u64);
            let mut stream = sensors(thread);
            let own = &keys[thread * share..(thread + 1) * share];
            mix(subject, own, &mut rng, mostly_long, || {
                stream.key_at(stamps.now())
            });
        });
        throughput(metric, share * threads, seconds)
    })
}

/// An operation of a mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Insert,
    Lookup,
    /// Scans this many entries.
    Scan(usize),
}

/// Draws half inserts, a tenth lookups, and scans: 30 % of the mix's usual length and 10 % of the
/// other.
pub(super) fn draw(rng: &mut Rng, mostly_long: bool) -> Operation {
    let short = |rng: &mut Rng| Operation::Scan(5 + rng.index(5));
    let long = |rng: &mut Rng| Operation::Scan(10 + rng.index(90));
    match rng.below(100) {
        0..50 => Operation::Insert,
        50..60 => Operation::Lookup,
        60..90 if mostly_long => long(rng),
        60..90 => short(rng),
        _ if mostly_long => short(rng),
        _ => long(rng),
    }
}

/// Runs an operation of a mix for each of these loaded keys; keys to insert are drawn one by one.
pub(super) fn mix(
    subject: &dyn Subject,
    keys: &[u64],
    rng: &mut Rng,
    mostly_long: bool,
    mut next: impl FnMut() -> u64,
) {
    for key in keys {
        match draw(rng, mostly_long) {
            Operation::Insert => {
                let key = next();
                subject.insert(key, !key);
            }
            Operation::Lookup => {
                black_box(subject.get(*key));
            }
            Operation::Scan(limit) => {
                black_box(subject.scan(*key, limit));
            }
        }
    }
}
