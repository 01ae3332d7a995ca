//! Durable stores of the rows of the XStore paper: the cost of one row and of many, and their size
//! on disk.
//!
//! A row is a second and eight columns of 32 bytes (264 bytes), as in the paper's figures 2 and 3.
//! [`subjects`](crate::subjects) documents the peers and their durability settings.

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use bedload_testkit::Rng;
use tempfile::TempDir;

use super::super::tables::process::disk_bytes;
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::{Samples, Trial, median};
use crate::subjects::raw::{self, Raw};
use crate::subjects::{COLUMNS, ROW_BASELINE, ROW_BYTES, ROW_STORES, RowStore, Rows, fold, names, row_of};

/// The first second: 2000-01-01, as in the paper.
const EPOCH: i64 = 946_684_800;
/// Rows of a batch, except in measurements of small ones.
const BATCH: usize = 65_536;
/// Batch and range sizes, as in the paper's figure 3, and the approximate total of rows for each
/// size.
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

/// A store in its turn of a round.
struct Entrant {
    name: &'static str,
    /// None once it is closed.
    store: Option<Box<dyn RowStore>>,
    /// Dropped after the store.
    dir: TempDir,
    figures: Vec<Figure>,
}

impl Entrant {
    fn store(&mut self) -> &mut dyn RowStore {
        self.store.as_deref_mut().expect("it is open")
    }
}

/// Runs `round` with all stores, each in its own directory; the round gives each its turns, and may
/// add its own figures to the samples.
fn rounds(
    scenario: &'static str,
    plan: &Plan,
    round: impl Fn(&mut [Entrant], &mut Rng, &mut Samples),
) -> Vec<Record> {
    let trial = Trial::new(scenario, ROW_BASELINE, plan).param("entries", entries(plan));
    trial.run(|number, samples| {
        let taken = ROW_STORES.iter().filter(|entrant| trial.takes(entrant));
        let mut entrants: Vec<Entrant> = taken
            .map(|entrant| {
                let dir = tempfile::tempdir().expect("a temporary directory");
                Entrant {
                    name: entrant.name,
                    store: Some((entrant.make)(dir.path())),
                    dir,
                    figures: Vec::new(),
                }
            })
            .collect();
        round(&mut entrants, &mut Rng::new(number), samples);
        for entrant in entrants {
            samples.add(entrant.name, entrant.figures);
        }
    })
}

/// Turns of each store at a read task; stores are compared by medians of many short turns, as the
/// machine's speed changes.
const TURNS: usize = 8;

/// Returns each store's median seconds per item, for `items` divided into turns. In a turn every
/// store does the same items, starting with a different store each time. Each store does all items
/// once in advance.
fn turns<T>(entrants: &mut [Entrant], items: &[T], mut each: impl FnMut(&mut dyn RowStore, &T)) -> Vec<f64> {
    let mut seconds: Vec<Vec<f64>> = entrants.iter().map(|_| Vec::new()).collect();
    for entrant in &mut *entrants {
        items.iter().for_each(|item| each(entrant.store(), item));
    }
    for (turn, items) in items.chunks(items.len().div_ceil(TURNS)).enumerate() {
        for step in 0..entrants.len() {
            let number = (turn + step) % entrants.len();
            let begun = Instant::now();
            for item in items {
                each(entrants[number].store(), item);
            }
            seconds[number].push(begun.elapsed().as_secs_f64() / items.len() as f64);
        }
    }
    seconds.iter().map(|seconds| median(seconds)).collect()
}

fn second(n: usize) -> i64 {
    EPOCH + i64::try_from(n).expect("fewer than 2^63")
}

/// Yields a row for each of some seconds, in batches made before the clock runs.
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

/// Checks that every row from one second to before another is there and correct.
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

/// Writes as many bytes as the batches have; returns the seconds that the disk took.
fn write_raw(raw: &mut Raw, batches: impl Iterator<Item = Rows>) -> f64 {
    let mut seconds = 0.0;
    for rows in batches {
        let begun = Instant::now();
        raw.append(&rows);
        seconds += begun.elapsed().as_secs_f64();
    }
    seconds
}

/// Returns the stores and the raw-disk methods.
pub(super) fn throughput_subjects() -> Vec<&'static str> {
    names(ROW_STORES).into_iter().chain(raw::names()).collect()
}

/// Measures durable batches of 1 to 524,288 rows, in order and at random, and ranges of as many
/// into Arrow.
pub(super) fn throughput(plan: &Plan) -> Vec<Record> {
    let rows = entries(plan);
    rounds("sparse-throughput", plan, |entrants, rng, samples| {
        let raw_dir = tempfile::tempdir().expect("a temporary directory");
        let mut raws = Raw::all(raw_dir.path(), rows, |name| plan.takes(name, ROW_BASELINE));
        let rate = |rows: usize, seconds: f64| rows as f64 / seconds / 1e3;
        let krows = |entrant: &mut Entrant, metric: String, rate: f64| {
            entrant.figures.push(Figure::new(metric, "krows/s", rate));
        };
        for entrant in &mut *entrants {
            let seconds = load(entrant.store(), dense(0..rows, BATCH));
            krows(
                entrant,
                format!("ingest, batches of {BATCH}"),
                rate(rows, seconds),
            );
            check(entrant.store(), second(0), second(rows), rows);
        }
        let mut end = rows;
        for (number, (batch, about)) in SIZES.into_iter().enumerate() {
            let batch = batch.min(rows);
            let count = about.min(rows).next_multiple_of(batch);
            let turns = entrants.len() + raws.len();
            for step in 0..turns {
                let (turn, batches) = ((number + step) % turns, dense(end..end + count, batch));
                let metric = format!("ingest, batches of {batch}");
                if let Some(entrant) = entrants.get_mut(turn) {
                    let seconds = load(entrant.store(), batches);
                    krows(entrant, metric, rate(count, seconds));
                } else {
                    let raw = &mut raws[turn - entrants.len()];
                    let seconds = write_raw(raw, batches);
                    samples.add(
                        raw.name,
                        vec![Figure::new(metric, "krows/s", rate(count, seconds))],
                    );
                }
            }
            end += count;
        }
        for entrant in &mut *entrants {
            check(entrant.store(), second(0), second(end), end);
        }
        let seconds = turns(entrants, &[(); TURNS / 2], |store, ()| {
            let mut bytes = 0;
            store.range(second(0), second(end), &mut |batch| {
                bytes += black_box(batch).get_array_memory_size()
            });
            assert!(bytes >= end * ROW_BYTES);
        });
        for (entrant, seconds) in entrants.iter_mut().zip(seconds) {
            krows(entrant, "all rows into Arrow".into(), rate(end, seconds));
        }
        for (range, about) in SIZES {
            let range = range.min(rows);
            let froms: Vec<usize> = (0..(4 * about).div_ceil(range).clamp(TURNS, 8192))
                .map(|_| rng.index(end - range + 1))
                .collect();
            let seconds = turns(entrants, &froms, |store, &from| {
                let mut found = 0;
                store.range(second(from), second(from + range), &mut |batch| {
                    found += black_box(batch).num_rows()
                });
                assert_eq!(found, range, "rows in a range");
            });
            for (entrant, seconds) in entrants.iter_mut().zip(seconds) {
                krows(
                    entrant,
                    format!("random ranges of {range} into Arrow"),
                    rate(range, seconds),
                );
            }
        }
        // Overwrites rows in order and at random; random batches are not sorted.
        let again = rows / 4;
        let times: Vec<i64> = (0..again).map(|_| second(rng.index(rows))).collect();
        for entrant in &mut *entrants {
            let seconds = load(entrant.store(), dense(0..again, BATCH));
            krows(
                entrant,
                format!("written over, batches of {BATCH}"),
                rate(again, seconds),
            );
            let batches = times.chunks(BATCH).map(|times| Rows::of_times(times.to_vec()));
            let seconds = load(entrant.store(), batches);
            krows(
                entrant,
                format!("written over at random, batches of {BATCH}"),
                rate(again, seconds),
            );
            if entrant.store().writes_over() {
                check(entrant.store(), second(0), second(end), end);
            }
        }
    })
}

/// Measures single rows: warm reads among few and among many, and writes.
pub(super) fn latency(plan: &Plan) -> Vec<Record> {
    let rows = entries(plan);
    rounds("sparse-latency", plan, |entrants, rng, _| {
        let few = rows / 10;
        let read = |entrants: &mut [Entrant], metric: String, times: &[i64]| {
            let seconds = turns(entrants, times, |store, &time| {
                black_box(store.get(time));
            });
            for (entrant, seconds) in entrants.iter_mut().zip(seconds) {
                entrant
                    .figures
                    .push(Figure::new(metric.clone(), "ns", seconds * 1e9));
            }
        };
        // The same seconds are read with a tenth of the table's rows and with all.
        let reads: Vec<i64> = (0..few.min(100_000)).map(|_| second(rng.index(few))).collect();
        let mut load_from = 0;
        for (name, size) in [("a tenth of the rows", few), ("all rows", rows)] {
            let times: Vec<i64> = (load_from..size).map(second).collect();
            for entrant in &mut *entrants {
                load(
                    entrant.store(),
                    times.chunks(BATCH).map(|times| Rows::of_times(times.to_vec())),
                );
                for &time in reads.iter().take(1000) {
                    let expected = fold(std::iter::once(&row_of(time)[..]));
                    assert_eq!(entrant.store().get(time), Some(expected));
                }
            }
            load_from = size;
            read(entrants, format!("read a row, {name}"), &reads);
        }
        let everywhere: Vec<i64> = (0..100_000.min(rows)).map(|_| second(rng.index(rows))).collect();
        read(entrants, "read a row anywhere".into(), &everywhere);
        let updates: Vec<Rows> = (0..64)
            .map(|_| Rows::of_times(vec![second(rng.index(rows))]))
            .collect();
        let seconds = turns(entrants, &updates, |store, rows| store.append(rows));
        for (entrant, seconds) in entrants.iter_mut().zip(seconds) {
            entrant
                .figures
                .push(Figure::new("write a row over, durable", "us", seconds * 1e6));
        }
    })
}

/// Measures bytes on disk per byte of rows, by the share of seconds that have a row.
pub(super) fn density(plan: &Plan) -> Vec<Record> {
    let rows = entries(plan) / 4;
    let mut records = Vec::new();
    for percent in [100, 50, 10, 1] {
        let of_percent = rounds("sparse-density", plan, |entrants, rng, _| {
            let mut times: Vec<i64> = (0..rows * 100 / percent)
                .filter(|_| percent == 100 || rng.index(100) < percent)
                .map(second)
                .collect();
            times.truncate(rows);
            let count = times.len();
            for entrant in entrants {
                let batches = times.chunks(BATCH).map(|times| Rows::of_times(times.to_vec()));
                let seconds = load(entrant.store(), batches);
                check(entrant.store(), second(0), second(rows * 100 / percent), count);
                // Open stores keep log files for the next rows.
                entrant.store = None;
                let payload = count * (8 + ROW_BYTES);
                let per_byte = disk_bytes(entrant.dir.path()) as f64 / payload as f64;
                entrant.figures.extend([
                    Figure::new(
                        format!("disk for a byte, {percent} % of seconds"),
                        "bytes",
                        per_byte,
                    ),
                    Figure::new(
                        format!("ingest, {percent} % of seconds"),
                        "krows/s",
                        count as f64 / seconds / 1e3,
                    ),
                ]);
            }
        });
        records.extend(of_percent);
    }
    records
}
