//! Durable stores of the rows of the XStore paper: what a row costs, what many cost, what they take on the disk.
//!
//! A row is a second and eight columns of 32 bytes (264 bytes), as in the paper's figures 2 and 3. Peers, and what
//! durability they are asked for, are named in [`stores`](crate::stores).

use std::fs;
use std::hint::black_box;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use bedload_testkit::Rng;

use crate::record::Record;
use crate::runner::{Figure, Plan, Samples, summarise};
use crate::stores::{self, BASELINE, COLUMNS, ROW_BYTES, RowStore, Rows, fold, row_of};

/// The first second: 2000-01-01, as in the paper.
const EPOCH: i64 = 946_684_800;
/// Rows of a batch that is not about small ones.
const BATCH: usize = 65_536;
/// Batches and ranges, as in the paper's figure 3, and about how many rows are moved by those of each size.
const SIZES: [(usize, usize); 7] = [
    (1, 1 << 10),
    (8, 1 << 13),
    (64, 1 << 15),
    (512, 1 << 17),
    (4096, 1 << 18),
    (32_768, 1 << 18),
    (524_288, 1 << 19),
];

fn entries(plan: &Plan) -> usize {
    plan.entries_of(400_000, 2_000_000)
}

/// Runs `round` with every store in turn, in a directory of its own.
fn rounds(
    scenario: &'static str,
    plan: &Plan,
    round: impl Fn(&mut dyn RowStore, &Path, &mut Rng) -> Vec<Figure>,
) -> Vec<Record> {
    let mut samples = Samples::new();
    for number in 0..plan.rounds() {
        for (name, make) in stores::ALL.iter().filter(|(name, _)| plan.takes(name, BASELINE)) {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let mut store = make(dir.path());
            samples.add(
                name,
                round(store.as_mut(), dir.path(), &mut Rng::new(number as u64)),
            );
        }
    }
    let params = [("entries", entries(plan).to_string())];
    summarise(scenario, BASELINE, &params, &samples)
}

fn second(n: usize) -> i64 {
    EPOCH + i64::try_from(n).expect("fewer than 2^63")
}

/// A row for each of some seconds, in batches made before the clock runs.
fn dense(seconds: Range<usize>, batch: usize) -> impl Iterator<Item = Rows> {
    let end = seconds.end;
    seconds
        .step_by(batch)
        .map(move |from| Rows::of_times((from..end.min(from + batch)).map(second).collect()))
}

/// Appends batches; returns the seconds that the store took.
fn load(store: &mut dyn RowStore, batches: impl Iterator<Item = Rows>) -> f64 {
    let mut seconds = 0.0;
    for rows in batches {
        let begun = Instant::now();
        store.append(&rows);
        seconds += begun.elapsed().as_secs_f64();
    }
    let begun = Instant::now();
    store.settle();
    seconds + begun.elapsed().as_secs_f64()
}

/// Every row from one second on and before another is there and proves itself.
fn check(store: &dyn RowStore, from: i64, to: i64, expected: usize) {
    let mut found = 0;
    store.range(from, to, &mut |batch| {
        let times = batch.column(0).to_data();
        let times = &times.buffers()[0].typed_data::<i64>()[times.offset()..];
        for (row, &time) in (0..batch.num_rows()).zip(times) {
            let bytes = row_of(time);
            let values =
                (0..COLUMNS).map(|column| batch.column(column + 1).as_fixed_size_binary().value(row));
            assert_eq!(
                fold(values),
                fold(std::iter::once(&bytes[..])),
                "the row of {time}"
            );
        }
        found += batch.num_rows();
    });
    assert_eq!(found, expected, "rows between {from} and {to}");
}

fn figure(metric: impl Into<String>, unit: &'static str, value: f64) -> Figure {
    Figure {
        metric: metric.into(),
        unit,
        value,
    }
}

/// Durable batches of 1 to 524,288 rows, in order and at random, and ranges of as many into Arrow.
pub(super) fn throughput(plan: &Plan) -> Vec<Record> {
    let rows = entries(plan);
    rounds("sparse-throughput", plan, |store, _, rng| {
        let mut figures = Vec::new();
        let rate = |rows: usize, seconds: f64| rows as f64 / seconds / 1e3;
        let mut krows = |metric: String, rate: f64| figures.push(figure(metric, "krows/s", rate));
        let seconds = load(store, dense(0..rows, BATCH));
        krows(format!("ingest, batches of {BATCH}"), rate(rows, seconds));
        check(store, second(0), second(rows), rows);
        let mut end = rows;
        for (batch, about) in SIZES {
            let batch = batch.min(rows);
            let count = about.min(rows).next_multiple_of(batch);
            let seconds = load(store, dense(end..end + count, batch));
            krows(format!("ingest, batches of {batch}"), rate(count, seconds));
            end += count;
        }
        check(store, second(0), second(end), end);
        for read in ["first", "again"] {
            let begun = Instant::now();
            let mut bytes = 0;
            store.range(second(0), second(end), &mut |batch| {
                bytes += black_box(batch).get_array_memory_size()
            });
            let seconds = begun.elapsed().as_secs_f64();
            assert!(bytes >= end * ROW_BYTES);
            if read == "again" {
                krows("all rows into Arrow".into(), rate(end, seconds));
            }
        }
        for (range, about) in SIZES {
            let range = range.min(rows);
            let froms: Vec<usize> = (0..(8 * about).div_ceil(range).clamp(2, 4096))
                .map(|_| rng.index(end - range + 1))
                .collect();
            let begun = Instant::now();
            let mut found = 0;
            for &from in &froms {
                store.range(second(from), second(from + range), &mut |batch| {
                    found += black_box(batch).num_rows()
                });
            }
            let seconds = begun.elapsed().as_secs_f64();
            assert_eq!(found, froms.len() * range, "rows in random ranges of {range}");
            krows(
                format!("random ranges of {range} into Arrow"),
                rate(found, seconds),
            );
        }
        // Written over in order, and at random: every batch is sorted by nobody.
        let again = rows / 4;
        let seconds = load(store, dense(0..again, BATCH));
        krows(format!("written over, batches of {BATCH}"), rate(again, seconds));
        let times: Vec<i64> = (0..again).map(|_| second(rng.index(rows))).collect();
        let batches = times.chunks(BATCH).map(|times| Rows::of_times(times.to_vec()));
        let seconds = load(store, batches);
        krows(
            format!("written over at random, batches of {BATCH}"),
            rate(again, seconds),
        );
        if store.writes_over() {
            check(store, second(0), second(end), end);
        }
        figures
    })
}

/// Single rows: read warm among few and among many, and written.
pub(super) fn latency(plan: &Plan) -> Vec<Record> {
    let rows = entries(plan);
    rounds("sparse-latency", plan, |store, _, rng| {
        let mut figures = Vec::new();
        let few = rows / 10;
        // The same seconds are read when the table has a tenth of its rows, and when it has all.
        let reads: Vec<i64> = (0..few.min(100_000)).map(|_| second(rng.index(few))).collect();
        let mut load_from = 0;
        for (name, size) in [("a tenth of the rows", few), ("all rows", rows)] {
            let times: Vec<i64> = (load_from..size).map(second).collect();
            load(
                store,
                times.chunks(BATCH).map(|times| Rows::of_times(times.to_vec())),
            );
            load_from = size;
            for &time in reads.iter().take(1000) {
                assert_eq!(store.get(time), Some(fold(std::iter::once(&row_of(time)[..]))));
            }
            // The first pass warms.
            let mut nanoseconds = 0.0;
            for _ in 0..3 {
                let begun = Instant::now();
                for &time in &reads {
                    black_box(store.get(time));
                }
                nanoseconds = begun.elapsed().as_secs_f64() * 1e9 / reads.len() as f64;
            }
            figures.push(figure(format!("read a row, {name}"), "ns", nanoseconds));
        }
        let everywhere: Vec<i64> = (0..100_000.min(rows)).map(|_| second(rng.index(rows))).collect();
        let mut nanoseconds = 0.0;
        for _ in 0..2 {
            let begun = Instant::now();
            for &time in &everywhere {
                black_box(store.get(time));
            }
            nanoseconds = begun.elapsed().as_secs_f64() * 1e9 / everywhere.len() as f64;
        }
        figures.push(figure("read a row anywhere", "ns", nanoseconds));
        let updates: Vec<Rows> = (0..64)
            .map(|_| Rows::of_times(vec![second(rng.index(rows))]))
            .collect();
        let begun = Instant::now();
        for rows in &updates {
            store.append(rows);
        }
        figures.push(figure(
            "write a row over, durable",
            "us",
            begun.elapsed().as_secs_f64() * 1e6 / 64.0,
        ));
        figures
    })
}

/// Bytes on the disk for each byte of rows, by how many of the seconds have one.
pub(super) fn density(plan: &Plan) -> Vec<Record> {
    let rows = entries(plan) / 4;
    let mut records = Vec::new();
    for percent in [100, 50, 10, 1] {
        let of_percent = rounds("sparse-density", plan, |store, dir, rng| {
            let mut times: Vec<i64> = (0..rows * 100 / percent)
                .filter(|_| percent == 100 || rng.index(100) < percent)
                .map(second)
                .collect();
            times.truncate(rows);
            let count = times.len();
            let seconds = load(
                store,
                times.chunks(BATCH).map(|times| Rows::of_times(times.to_vec())),
            );
            let payload = count * (8 + ROW_BYTES);
            let per_byte = disk_bytes(dir) as f64 / payload as f64;
            vec![
                figure(
                    format!("disk for a byte, {percent} % of seconds"),
                    "bytes",
                    per_byte,
                ),
                figure(
                    format!("ingest, {percent} % of seconds"),
                    "krows/s",
                    count as f64 / seconds / 1e3,
                ),
            ]
        });
        records.extend(of_percent);
    }
    records
}

/// Bytes that the files of a directory take on the disk.
fn disk_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).expect("a directory of this run");
    let bytes = entries.map(|entry| {
        let entry = entry.expect("a directory of this run");
        let kind = entry.metadata().expect("there");
        if kind.is_dir() {
            disk_bytes(&entry.path())
        } else {
            kind.blocks() * 512
        }
    });
    bytes.sum()
}
