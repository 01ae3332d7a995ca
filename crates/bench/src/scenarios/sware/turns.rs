//! Turns of single-threaded maps, compiled for each map so that no call is indirect.

use std::any::type_name;
use std::hint::black_box;

use bedload_testkit::Rng;
use quanta::Instant;

use super::input::Input;
use crate::record::Figure;
use crate::subjects::{SerialSubject, value_of};

/// Inserts per interleaved lookup.
const INSERTS_PER_LOOKUP: usize = 1000;

/// The metric of ingest.
pub(super) const INGEST: &str = "ingest";

pub(super) fn per_entry(metric: &str, seconds: f64, entries: usize) -> Figure {
    Figure::new(metric, "ns", seconds * 1e9 / entries as f64)
}

/// Inserts keys and sometimes looks an earlier one up; the lookups must succeed.
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
            type_name::<S>()
        );
    }
}

/// Checks that every key is there, once, with its value.
pub(super) fn verify<S: SerialSubject>(subject: &mut S, input: &Input) {
    let sum = input.keys.iter().fold(0, |sum: u64, &key| {
        sum.wrapping_add(key).wrapping_add(value_of(key))
    });
    assert_eq!(
        subject.sum(0, u64::MAX),
        (input.keys.len(), sum),
        "{}: a scan differs",
        type_name::<S>()
    );
    for &key in input.keys.iter().step_by(997) {
        assert_eq!(
            subject.get(key),
            Some(value_of(key)),
            "{}: a key is lost",
            type_name::<S>()
        );
        let absent = key ^ 1;
        assert!(
            subject.get(absent).is_none_or(|value| value == value_of(absent)),
            "{}: a key is found",
            type_name::<S>()
        );
    }
}

pub(super) fn ingest<S: SerialSubject>(make: fn(usize) -> S, input: &Input) -> Vec<Figure> {
    let start = Instant::now();
    let mut subject = make(input.keys.len());
    insert_all(&mut subject, &input.keys);
    let seconds_inserting = start.elapsed().as_secs_f64();
    let space = subject.space();
    let start = Instant::now();
    subject.drain();
    let seconds = seconds_inserting + start.elapsed().as_secs_f64();
    verify(&mut subject, input);

    let mut figures = vec![per_entry(INGEST, seconds, input.keys.len())];
    if let Some((bytes, _)) = space {
        figures.push(Figure::new(
            "space before the drain",
            "B",
            bytes as f64 / input.keys.len() as f64,
        ));
    }
    if let Some((_, fill)) = subject.space() {
        figures.push(Figure::new("leaf fill", "%", fill * 100.0));
    }
    figures
}

/// Returns a subject loaded with all keys and not drained.
fn loaded<S: SerialSubject>(make: fn(usize) -> S, input: &Input) -> S {
    let mut subject = make(input.keys.len());
    insert_all(&mut subject, &input.keys);
    verify(&mut subject, input);
    subject
}

pub(super) fn lookup<S: SerialSubject>(make: fn(usize) -> S, input: &Input, rng: &mut Rng) -> Vec<Figure> {
    let len = input.keys.len();
    let mut subject = loaded(make, input);
    let count = (len / 5).min(4_000_000);
    let mut figures = lookup_figures(&mut subject, &input.keys, count, rng, "");
    // After a drain the buffer has room; then half of a published buffer's capacity (1 % of the
    // keys) arrives.
    let (before, after) = input.keys.split_at(len - len / 200);
    let mut subject = make(len);
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
    // And after 80 % of the keys.
    let before = &input.keys[..len / 5 * 4];
    let mut subject = make(len);
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
            assert_eq!(found, count, "{}: a key is lost", type_name::<S>());
            per_entry(&format!("lookup, {which}{state}"), seconds, count)
        })
        .to_vec()
}

/// Number of scans of the newest keys.
const NEWEST_SCANS: usize = 20;

/// Scans shares of the keys, and the newest keys. Subjects are reloaded before each share; those
/// whose scans sort are reloaded once more, so that first scans are measured. The same ranges are
/// read a second time after that; scans that change nothing read them before it.
pub(super) fn scan<S: SerialSubject>(make: fn(usize) -> S, input: &Input, rng: &mut Rng) -> Vec<Figure> {
    let sorted = input.sorted();
    let mut figures = Vec::new();
    let mut subject = loaded(make, input);
    let mut measure = |metric: &str, ranges: Vec<&[u64]>| {
        let mut add = |metric: String, latencies: Vec<f64>| {
            let mean = latencies.iter().sum::<f64>() / latencies.len() as f64;
            figures.push(Figure::new(metric, "ns", mean));
        };
        let each = |sum: &mut dyn FnMut(u64, u64) -> (usize, u64)| -> Vec<f64> {
            ranges.iter().map(|keys| scan_ns(keys, &mut *sum)).collect()
        };
        // The first tree has another memory layout than the later ones: it is loaded but not
        // measured.
        subject = loaded(make, input);
        let as_it_is = each(&mut |lower, upper| subject.sum(lower, upper));
        add(format!("{metric}, leaving it as it is"), as_it_is.clone());
        if subject.sum_sorting(0, 0).is_none() {
            // The first scan by any method.
            add(metric.to_owned(), as_it_is);
            return add(
                format!("{metric}, again"),
                each(&mut |lower, upper| subject.sum(lower, upper)),
            );
        }
        subject = loaded(make, input);
        for which in ["", ", again"] {
            let latencies = each(&mut |lower, upper| subject.sum_sorting(lower, upper).unwrap_or_default());
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

/// Returns the nanoseconds per key of one scan, which must yield exactly these keys.
fn scan_ns(keys: &[u64], sum: impl FnOnce(u64, u64) -> (usize, u64)) -> f64 {
    let (lower, upper) = (keys[0], keys[keys.len() - 1]);
    let start = Instant::now();
    let (count, _) = black_box(sum(lower, upper));
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(count, keys.len(), "a scan differs");
    seconds * 1e9 / count as f64
}

/// After 80 % of the keys, inserts the others with a number of lookups per ten operations.
pub(super) fn mixed(map: &mut impl SerialSubject, input: &Input, rng: &mut Rng) -> Vec<Figure> {
    let (before, after) = input.keys.split_at(input.keys.len() / 5 * 4);
    before.iter().for_each(|&key| map.insert(key, value_of(key)));
    let mut inserted = before.len();
    let mut figures = Vec::new();
    let shares = [("10:90 writes to reads", 1), ("50:50", 5), ("90:10", 9)];
    for ((metric, writes), keys) in shares.into_iter().zip(after.chunks(after.len().div_ceil(3))) {
        // Drawn before the clock starts, as reading a random key takes as long as looking it up.
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

pub(super) fn ingest_then_lookup(map: &mut impl SerialSubject, input: &Input, rng: &mut Rng) -> Vec<Figure> {
    ingest_then_lookup_checking(map, input, rng, |map| verify_some(map, input))
}

/// The same, with the check of what was inserted left to the caller.
pub(super) fn ingest_then_lookup_checking<S: SerialSubject>(
    map: &mut S,
    input: &Input,
    rng: &mut Rng,
    check: impl FnOnce(&mut S),
) -> Vec<Figure> {
    let len = input.keys.len();
    let start = Instant::now();
    for &key in &input.keys {
        map.insert(key, value_of(key));
    }
    let ingest = start.elapsed().as_secs_f64() * 1e9 / len as f64;
    check(map);
    let probes: Vec<u64> = (0..len / 5).map(|_| input.keys[rng.index(len)]).collect();
    let start = Instant::now();
    for &key in &probes {
        black_box(map.get(key));
    }
    let lookup = start.elapsed().as_secs_f64() * 1e9 / probes.len() as f64;
    [("ingest", ingest), ("lookup", lookup)]
        .map(|(metric, value)| Figure::new(metric, "ns", value))
        .to_vec()
}

/// Checks that keys are there; only a sample, to keep it out of the measurement.
pub(super) fn verify_some(map: &mut impl SerialSubject, input: &Input) {
    for &key in input.keys.iter().step_by(101) {
        assert_eq!(map.get(key), Some(value_of(key)), "a key is lost");
    }
}
