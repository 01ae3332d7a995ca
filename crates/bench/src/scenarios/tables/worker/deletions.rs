//! Deletes a few rows at a time, and reads the others.

use std::time::Duration;

use super::super::oracle::Oracle;
use super::super::waits::milliseconds;
use crate::record::Figure;
use crate::subjects::tables::{TableStore, timed};

/// The most rows that a deletion covers.
const ROWS: usize = 5;

/// Scans timed in each state; their median counts.
const SCANS: usize = 5;

/// Returns ranges of a few rows each, evenly over the rows, in order.
pub(super) fn deleted(oracle: &Oracle, ranges: usize) -> Vec<(i64, i64)> {
    let ranges = ranges.min(oracle.len() / 2).max(1);
    let step = oracle.len() / ranges;
    let of_range = |range: usize| {
        let from = oracle.time(range * step);
        let to = oracle.time(range * step + ROWS.min(step / 2).max(1));
        (from, to.max(from + 1))
    };
    (0..ranges).map(of_range).collect()
}

/// Returns the median time of reading all rows.
fn scan(store: &dyn TableStore, expected: u64) -> Duration {
    let mut times: Vec<Duration> = (0..SCANS)
        .map(|_| {
            let mut found = 0;
            let ((), time) = timed(|| {
                store.range(i64::MIN, i64::MAX, &mut |batch| found += batch.num_rows() as u64);
            });
            assert_eq!(found, expected, "all rows");
            time
        })
        .collect();
    times.sort_unstable();
    times[SCANS / 2]
}

/// Deletes the rows of ranges, and reads all rows before, after that, and after a flush.
pub(super) fn delete_and_read(store: &dyn TableStore, oracle: &Oracle, ranges: &[(i64, i64)]) -> Vec<Figure> {
    store.flush();
    let all = oracle.len() as u64;
    let before = scan(store, all);
    let mut left = all;
    let mut deleting = Duration::ZERO;
    for &(from, to) in ranges {
        left -= oracle.rows_between(from, to);
        deleting += timed(|| store.delete(from, to)).1;
    }
    let open = scan(store, left);
    let ((), flushing) = timed(|| store.flush());
    let applied = scan(store, left);
    let each = deleting.as_secs_f64() * 1e6 / ranges.len() as f64;
    vec![
        Figure::new("delete a few rows", "us", each),
        Figure::new("all rows before deletions", "ms", milliseconds(before)),
        Figure::new("all rows beside open deletions", "ms", milliseconds(open)),
        Figure::new("flush of the deletions", "ms", milliseconds(flushing)),
        Figure::new("all rows after that", "ms", milliseconds(applied)),
    ]
}
