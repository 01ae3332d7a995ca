//! Nearly sorted keys: ingest against the floor, and queries with whatever is buffered still in its buffer.
//!
//! A run of all degrees of order takes hours at full scale; `--degrees` (such as `0/0,scrambled`) chooses among them, as
//! `--only` does among subjects.

use std::collections::BTreeMap;
use std::hint::black_box;

use bedload_memory::near_sorted::{BPlusTree, NearSortedTree};
use bedload_memory::swa_buffer::SaTree;
use bedload_testkit::Rng;
use quanta::Instant;

use crate::near_sorted::engines::{Fjall, Lmdb, Redb};
use crate::near_sorted::floor;
use crate::near_sorted::input::{DEGREES, Input, value_of};
#[cfg(feature = "rocksdb")]
use crate::near_sorted::rocksdb::RocksDb;
use crate::near_sorted::subjects::{FastPath, Mapping, Plain, PlainAgain, SerialSubject};
use crate::record::Record;
use crate::runner::{Figure, Plan, Samples, summarise};

/// Inserts for each lookup that is interleaved.
const INSERTS_PER_LOOKUP: usize = 1000;

/// One round of one subject.
type Round = fn(&Input, &mut Rng) -> Vec<Figure>;

/// A subject's name, and a round of it.
type Entrant = (&'static str, Round);

macro_rules! entrants {
    ($round:ident) => {
        &[
            (NearSortedTree::NAME, $round::<NearSortedTree>),
            (Plain::NAME, $round::<Plain>),
            (PlainAgain::NAME, $round::<PlainAgain>),
            (FastPath::NAME, $round::<FastPath>),
            (SaTree::<BPlusTree>::NAME, $round::<SaTree<BPlusTree>>),
            (BTreeMap::<u64, u64>::NAME, $round::<BTreeMap<u64, u64>>),
            (Lmdb::NAME, $round::<Lmdb>),
            (Redb::NAME, $round::<Redb>),
            (Fjall::NAME, $round::<Fjall>),
            #[cfg(feature = "rocksdb")]
            (RocksDb::NAME, $round::<RocksDb>),
        ]
    };
}

/// The subjects of these scenarios; that of ingest has [`FLOOR`] too.
pub(super) fn subjects() -> Vec<&'static str> {
    let entrants: &[Entrant] = entrants!(ingest_round);
    entrants.iter().map(|entrant| entrant.0).collect()
}

/// The fastest way to sort everything and pack it.
const FLOOR: &str = "floor";

fn entries(plan: &Plan) -> usize {
    plan.entries_of(5_000_000, 50_000_000)
}

/// Rounds of all subjects at every degree of order. Each round begins with another subject, and before the first one counts one
/// has run, so that every subject finds memory that the process has used before.
fn rounds(
    scenario: &'static str,
    plan: &Plan,
    baseline: &'static str,
    has_floor: bool,
    entrants: &[Entrant],
) -> Vec<Record> {
    let mut records = Vec::new();
    let mut entrants: Vec<Entrant> = entrants
        .iter()
        .copied()
        .filter(|entrant| plan.takes(entrant.0, baseline))
        .collect();
    for degree in DEGREES {
        if !plan.takes_degree(&degree.to_string()) {
            continue;
        }
        let mut samples = Samples::new();
        let input = Input::new(degree, entries(plan), 7);
        if let (true, Some(&(_, first))) = (records.is_empty(), entrants.first()) {
            first(&input, &mut Rng::new(0));
        }
        for number in 0..plan.rounds().min(3) {
            if has_floor && plan.takes(FLOOR, baseline) {
                samples.add(FLOOR, floor_figures(&input));
            }
            for &(name, round) in &entrants {
                samples.add(name, round(&input, &mut Rng::new(number as u64)));
            }
            entrants.rotate_left(1);
        }
        let params = [
            ("degree", degree.to_string()),
            ("entries", entries(plan).to_string()),
        ];
        records.extend(summarise(scenario, baseline, &params, &samples));
    }
    records
}

fn floor_figures(input: &Input) -> Vec<Figure> {
    let mut figures: Vec<Figure> = floor::seconds(&input.keys)
        .into_iter()
        .map(|(way, seconds)| per_entry(&format!("ingest: {way}"), seconds, input.keys.len()))
        .collect();
    let fastest = figures
        .iter()
        .map(|figure| figure.value)
        .fold(f64::INFINITY, f64::min);
    figures.push(Figure {
        metric: INGEST.to_owned(),
        unit: "ns",
        value: fastest,
    });
    figures
}

const INGEST: &str = "ingest";

fn per_entry(metric: &str, seconds: f64, entries: usize) -> Figure {
    Figure {
        metric: metric.to_owned(),
        unit: "ns",
        value: seconds * 1e9 / entries as f64,
    }
}

/// Inserts keys, and looks up an earlier one now and then; the lookups must succeed.
fn insert_all<S: SerialSubject>(subject: &mut S, keys: &[u64]) {
    for (number, keys) in (0_usize..).zip(keys.chunks(INSERTS_PER_LOOKUP)) {
        for &key in keys {
            subject.insert(key, value_of(key));
        }
        let key = keys[number.wrapping_mul(7919) % keys.len()];
        assert_eq!(
            subject.get(key),
            Some(value_of(key)),
            "{}: a key is lost",
            S::NAME
        );
    }
}

/// Everything must be there, once, with its value.
fn verify<S: SerialSubject>(subject: &mut S, input: &Input) {
    let sum = input.keys.iter().fold(0, |sum: u64, &key| {
        sum.wrapping_add(key).wrapping_add(value_of(key))
    });
    assert_eq!(
        subject.sum(0, u64::MAX),
        (input.keys.len(), sum),
        "{}: a scan differs",
        S::NAME
    );
    for &key in input.keys.iter().step_by(997) {
        assert_eq!(
            subject.get(key),
            Some(value_of(key)),
            "{}: a key is lost",
            S::NAME
        );
        let absent = key ^ 1;
        assert!(
            subject.get(absent).is_none_or(|value| value == value_of(absent)),
            "{}: a key is found",
            S::NAME
        );
    }
}

fn ingest_round<S: SerialSubject>(input: &Input, _: &mut Rng) -> Vec<Figure> {
    let start = Instant::now();
    let mut subject = S::new(input.keys.len());
    insert_all(&mut subject, &input.keys);
    let seconds_inserting = start.elapsed().as_secs_f64();
    let space = subject.space();
    let start = Instant::now();
    subject.drain();
    let seconds = seconds_inserting + start.elapsed().as_secs_f64();
    verify(&mut subject, input);

    let mut figures = vec![per_entry(INGEST, seconds, input.keys.len())];
    if let Some((bytes, _)) = space {
        figures.push(Figure {
            metric: "space before the drain".to_owned(),
            unit: "B",
            value: bytes as f64 / input.keys.len() as f64,
        });
    }
    if let Some((_, fill)) = subject.space() {
        figures.push(Figure {
            metric: "leaf fill".to_owned(),
            unit: "%",
            value: fill * 100.0,
        });
    }
    figures
}

/// A subject that holds all keys, not drained.
fn loaded<S: SerialSubject>(input: &Input) -> S {
    let mut subject = S::new(input.keys.len());
    insert_all(&mut subject, &input.keys);
    verify(&mut subject, input);
    subject
}

fn lookup_round<S: SerialSubject>(input: &Input, rng: &mut Rng) -> Vec<Figure> {
    let len = input.keys.len();
    let mut subject = loaded::<S>(input);
    let count = (len / 5).min(4_000_000);
    let mut figures = lookup_figures(&mut subject, &input.keys, count, rng, "");
    // What was drained makes room: then half of what a published buffer holds, 1 % of the keys, arrives.
    let (before, after) = input.keys.split_at(len - len / 200);
    let mut subject = S::new(len);
    insert_all(&mut subject, before);
    subject.drain();
    insert_all(&mut subject, after);
    figures.extend(lookup_figures(
        &mut subject,
        &input.keys,
        count,
        rng,
        ", buffer half full",
    ));
    // And when 80 % are there.
    let before = &input.keys[..len / 5 * 4];
    let mut subject = S::new(len);
    insert_all(&mut subject, before);
    figures.extend(lookup_figures(&mut subject, before, count, rng, ", after 80 %"));
    figures
}

fn lookup_figures<S: SerialSubject>(
    subject: &mut S,
    keys: &[u64],
    count: usize,
    rng: &mut Rng,
    state: &str,
) -> Vec<Figure> {
    let recent = keys.len() - keys.len() / 100;
    [("uniform", 0), ("recent", recent)]
        .map(|(which, from)| {
            let probes: Vec<u64> = (0..count)
                .map(|_| keys[from + rng.index(keys.len() - from)])
                .collect();
            let start = Instant::now();
            let mut found = 0;
            for &key in &probes {
                found += usize::from(black_box(subject.get(key)).is_some());
            }
            let seconds = start.elapsed().as_secs_f64();
            assert_eq!(found, count, "{}: a key is lost", S::NAME);
            per_entry(&format!("lookup, {which}{state}"), seconds, count)
        })
        .to_vec()
}

/// How often the newest are scanned.
const NEWEST_SCANS: usize = 20;

/// Scans of shares of the keys, and of the newest. Subjects are loaded anew before each share, and those whose scans put in order
/// what they meet once more, so that those which meet it first are among what is measured; the same ranges are read a second
/// time after that, and before it by scans that leave everything as it is.
fn scan_round<S: SerialSubject>(input: &Input, rng: &mut Rng) -> Vec<Figure> {
    let sorted = input.sorted();
    let mut figures = Vec::new();
    let mut subject = loaded::<S>(input);
    let mut measure = |metric: &str, ranges: Vec<&[u64]>| {
        let mut add = |metric: String, mut latencies: Vec<f64>| {
            figures.extend(percentiles(&metric, &mut latencies));
        };
        let each = |sum: &mut dyn FnMut(u64, u64) -> (usize, u64)| -> Vec<f64> {
            ranges.iter().map(|keys| scan_ns(keys, &mut *sum)).collect()
        };
        // The first tree lies otherwise in memory than those that are made beside it: it is loaded, and not measured.
        subject = loaded::<S>(input);
        let as_it_is = each(&mut |lower, upper| subject.sum(lower, upper));
        add(format!("{metric}, leaving it as it is"), as_it_is.clone());
        if !S::SORTS {
            // A first scan of any kind.
            add(metric.to_owned(), as_it_is);
            return add(
                format!("{metric}, again"),
                each(&mut |lower, upper| subject.sum(lower, upper)),
            );
        }
        subject = loaded::<S>(input);
        for which in ["", ", again"] {
            let latencies = each(&mut |lower, upper| subject.sum_sorting(lower, upper));
            add(format!("{metric}{which}"), latencies);
        }
    };
    for (share, parts) in [("0.01 %", 10_000), ("0.1 %", 1_000), ("1 %", 100), ("10 %", 10)] {
        let wanted = sorted.len() / parts;
        if wanted == 0 {
            continue;
        }
        let scans = (sorted.len() / wanted).min(100);
        let mut range = || {
            let from = rng.index(sorted.len() - wanted);
            &sorted[from..from + wanted]
        };
        measure(&format!("scan of {share}"), (0..scans).map(|_| range()).collect());
    }
    let newest = &sorted[sorted.len() - sorted.len() / 100..];
    measure("scan of the newest 1 %", vec![newest; NEWEST_SCANS]);
    figures
}

/// Nanoseconds a key of one scan, of all of these keys and no others.
fn scan_ns(keys: &[u64], sum: impl FnOnce(u64, u64) -> (usize, u64)) -> f64 {
    let (lower, upper) = (keys[0], keys[keys.len() - 1]);
    let start = Instant::now();
    let (count, _) = black_box(sum(lower, upper));
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(count, keys.len(), "a scan differs");
    seconds * 1e9 / count as f64
}

/// The mean, and the latencies that 95 and 99 in a hundred stay below.
fn percentiles(metric: &str, latencies: &mut [f64]) -> Vec<Figure> {
    latencies.sort_by(f64::total_cmp);
    let mean = latencies.iter().sum::<f64>() / latencies.len() as f64;
    let at = |percent: usize| latencies[(latencies.len() * percent / 100).min(latencies.len() - 1)];
    [
        (metric.to_owned(), mean),
        (format!("{metric}, P95"), at(95)),
        (format!("{metric}, P99"), at(99)),
    ]
    .map(|(metric, value)| Figure {
        metric,
        unit: "ns",
        value,
    })
    .to_vec()
}

fn mixed_round<S: SerialSubject>(input: &Input, rng: &mut Rng) -> Vec<Figure> {
    let mut subject = S::new(input.keys.len());
    let figures = mixed_figures(&mut subject, input, rng);
    verify(&mut subject, input);
    figures
}

/// When 80 % of the keys are there, the others come, with so many lookups in ten operations.
pub(super) fn mixed_figures(map: &mut impl Mapping, input: &Input, rng: &mut Rng) -> Vec<Figure> {
    let (before, after) = input.keys.split_at(input.keys.len() / 5 * 4);
    before.iter().for_each(|&key| map.insert(key, value_of(key)));
    let mut inserted = before.len();
    let mut figures = Vec::new();
    let shares = [("10:90 writes to reads", 1), ("50:50", 5), ("90:10", 9)];
    for ((metric, writes), keys) in shares.into_iter().zip(after.chunks(after.len().div_ceil(3))) {
        // Drawn before the clock starts: to read a key at random among all of them takes as long as to look it up.
        let mut rest = keys.iter();
        let operations: Vec<(bool, u64)> = (0..keys.len() * 10 / 9)
            .map(|number| {
                let next = if number % 10 < writes { rest.next() } else { None };
                inserted += usize::from(next.is_some());
                let drawn = || input.keys[rng.index(inserted)];
                (next.is_some(), next.map_or_else(drawn, |&key| key))
            })
            .collect();
        let start = Instant::now();
        for &(is_insert, key) in &operations {
            if is_insert {
                map.insert(key, value_of(key));
            } else {
                black_box(map.get(key));
            }
        }
        figures.push(per_entry(metric, start.elapsed().as_secs_f64(), operations.len()));
        for &key in rest {
            map.insert(key, value_of(key));
            inserted += 1;
        }
    }
    figures
}

pub(super) fn ingest(plan: &Plan) -> Vec<Record> {
    rounds("near-sorted-ingest", plan, FLOOR, true, entrants!(ingest_round))
}

pub(super) fn lookup(plan: &Plan) -> Vec<Record> {
    rounds(
        "near-sorted-lookup",
        plan,
        Plain::NAME,
        false,
        entrants!(lookup_round),
    )
}

pub(super) fn scan(plan: &Plan) -> Vec<Record> {
    rounds(
        "near-sorted-scan",
        plan,
        Plain::NAME,
        false,
        entrants!(scan_round),
    )
}

pub(super) fn mixed(plan: &Plan) -> Vec<Record> {
    rounds(
        "near-sorted-mixed",
        plan,
        Plain::NAME,
        false,
        entrants!(mixed_round),
    )
}
