//! Reads the rows of a condition that few meet.

use std::time::Duration;

use super::super::oracle::Oracle;
use super::super::waits::milliseconds;
use crate::record::Figure;
use crate::subjects::tables::{Checksum, TableStore, timed};

/// One of so many rows meets the condition.
const ONE_OF: usize = 1_000;

/// Reads all rows, and those of the condition.
pub(super) fn read(store: &dyn TableStore, oracle: &Oracle, name: &str) -> Vec<Figure> {
    let (celsius, expected) = oracle.cold(ONE_OF);
    let mut rows = 0;
    let ((), all) = timed(|| {
        store.range(i64::MIN, i64::MAX, &mut |batch| rows += batch.num_rows() as u64);
    });
    assert_eq!(rows, oracle.len() as u64, "{name}: all rows");
    let mut found = Vec::new();
    let ((), cold): ((), Duration) = timed(|| store.cold(celsius, &mut |batch| found.push(batch.clone())));
    let mut sum = Checksum::default();
    found.iter().for_each(|batch| sum.add(batch));
    assert_eq!(sum, expected, "{name}: rows of at most {celsius} degrees");
    let times = all.as_secs_f64() / cold.as_secs_f64();
    vec![
        Figure::new("all rows", "ms", milliseconds(all)),
        Figure::new("a thousandth by temperature", "ms", milliseconds(cold)),
        Figure::new("all rows to the thousandth", "times", times),
    ]
}
