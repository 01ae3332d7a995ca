//! Appends for so long while another thread reads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bedload_testkit::Rng;

use super::super::arrival::{Arrival, Input};
use super::super::process::{Usage, forget_peak};
use super::super::waits::{quantiles, stalls, tenths};
use crate::record::Figure;
use crate::subjects::tables::{Checksum, Readings, RowId, TableStore, row_checksum, timed};

/// Rows of a read.
const READ_ROWS: usize = 1_000;

/// The waits of a thread that reads until it is told to stop.
#[derive(Default)]
struct Reads {
    newest: Vec<Duration>,
    ranges: Vec<Duration>,
}

/// Reads the newest rows and a range of about a thousand in turn.
fn read(store: &dyn TableStore, arrival: Arrival, committed: &AtomicU64, is_done: &AtomicBool) -> Reads {
    let (mut reads, mut rng) = (Reads::default(), Rng::new(7));
    while !is_done.load(Ordering::Acquire) {
        let rows = committed.load(Ordering::Acquire);
        if rows < READ_ROWS as u64 {
            thread::yield_now();
            continue;
        }
        let mut found = 0;
        let ((), time) = timed(|| store.newest(READ_ROWS, &mut |batch| found += batch.num_rows()));
        assert_eq!(found, READ_ROWS, "the newest rows");
        reads.newest.push(time);
        let (from, to) = arrival.range_of(READ_ROWS as u64, rows, &mut rng);
        let mut until = i64::MIN;
        let ((), time) = timed(|| {
            store.range(from, to, &mut |batch| {
                for &time in Checksum::times(batch) {
                    assert!(
                        (from..to).contains(&time) && time >= until,
                        "rows in order of time"
                    );
                    until = time;
                }
            });
        });
        reads.ranges.push(time);
    }
    reads.newest.sort_unstable();
    reads.ranges.sort_unstable();
    reads
}

/// Appends batches for so long, each made just before it, while a thread reads. All rows are
/// compared with the appended ones at the end. Returns the figures and the number of rows.
pub(super) fn append_and_read(
    store: &dyn TableStore,
    arrival: Arrival,
    batch_rows: usize,
    time: Duration,
) -> (Vec<Figure>, usize) {
    let process = store.process();
    forget_peak(process);
    let before = Usage::of(process);
    let (committed, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    let (mut expected, mut waits) = (Checksum::default(), Vec::new());
    let mut rows = 0;
    let reads = thread::scope(|scope| {
        let reading = scope.spawn(|| read(store, arrival, &committed, &is_done));
        let begun = Instant::now();
        while begun.elapsed() < time {
            let input = Input {
                arrival,
                rows: batch_rows,
                seed: rows as u64,
            };
            let shift = arrival.advance(rows);
            let times: Vec<i64> = input.times().iter().map(|time| time + shift).collect();
            let batch = Readings::new(rows, &times);
            let ((), wait) = timed(|| store.append(&batch));
            waits.push((batch.len(), wait));
            expected = batch.ids().fold(expected, |sum: Checksum, id: RowId| Checksum {
                rows: sum.rows + 1,
                sum: sum.sum.wrapping_add(row_checksum(id)),
            });
            rows += batch.len();
            committed.store(rows as u64, Ordering::Release);
        }
        is_done.store(true, Ordering::Release);
        reading.join().expect("the reader does not panic")
    });
    let appending: Duration = waits.iter().map(|(_, wait)| *wait).sum();
    let ((), flushing) = timed(|| store.flush());
    let after = Usage::of(process);
    let mut found = Checksum::default();
    store.range(i64::MIN, i64::MAX, &mut |batch| found.add(batch));
    assert_eq!(found, expected, "all rows that were appended");
    let in_all = (appending + flushing).as_secs_f64();
    let written = after.written_bytes - before.written_bytes;
    let peak = after.peak_bytes.saturating_sub(before.resident_bytes);
    let mut figures = vec![
        Figure::new("ingest beside a reader", "krows/s", rows as f64 / in_all / 1e3),
        Figure::new("millions of rows", "", rows as f64 / 1e6),
        Figure::new("written for a row", "bytes", written as f64 / rows as f64),
        Figure::new("peak memory", "MiB", peak as f64 / f64::from(1 << 20)),
    ];
    figures.extend(stalls(&waits));
    figures.extend(quantiles("newest 1000", "us", &reads.newest));
    figures.extend(quantiles("ranges of 1000", "us", &reads.ranges));
    // The ratios are after the ten rates.
    figures.extend(tenths(&waits).into_iter().skip(10));
    (figures, rows)
}
