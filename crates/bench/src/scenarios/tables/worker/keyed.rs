//! Puts rows that take the place of others.

use std::collections::HashMap;
use std::time::Duration;

use super::super::case::BATCH_ROWS;
use super::super::oracle::Oracle;
use super::super::process::Usage;
use super::super::upserts::Upserts;
use super::super::waits::{milliseconds, quantiles};
use crate::record::Figure;
use crate::subjects::tables::{KeyedRow, Readings, RowId, TableStore, timed};

/// The last version of each row of a table.
#[derive(Default)]
struct Versions {
    rows: HashMap<RowId, u32>,
    written: u32,
}

impl Versions {
    /// Returns new versions of rows.
    fn next(&mut self, batch: &[RowId]) -> Vec<KeyedRow> {
        let of_row = |id: &RowId| {
            self.written += 1;
            self.rows.insert(*id, self.written);
            KeyedRow {
                time: id.time,
                sensor: id.arrival,
                version: self.written,
            }
        };
        batch.iter().map(of_row).collect()
    }

    fn oracle(&self) -> Oracle {
        let row = |(id, &version): (&RowId, &u32)| KeyedRow {
            time: id.time,
            sensor: id.arrival,
            version,
        };
        Oracle::keyed(self.rows.iter().map(row).collect())
    }
}

/// Loads rows and checks them, puts others against the clock, and checks all. Returns what the
/// table has then.
pub(super) fn load_and_upsert(
    store: &dyn TableStore,
    upserts: &Upserts,
    name: &str,
) -> (Vec<Figure>, Oracle) {
    let mut versions = Versions::default();
    for batch in upserts.loaded().chunks(BATCH_ROWS) {
        store.append(&Readings::keyed(&versions.next(batch)));
    }
    store.flush();
    if !versions.rows.is_empty() {
        versions.oracle().check(store, name);
    }
    let batches = upserts.put();
    let rows: usize = batches.iter().map(Vec::len).sum();
    let process = store.process();
    let before = Usage::of(process);
    let mut waits: Vec<Duration> = Vec::with_capacity(batches.len());
    for batch in batches {
        let batch = Readings::keyed(&versions.next(&batch));
        waits.push(timed(|| store.append(&batch)).1);
    }
    let ((), flushing) = timed(|| store.flush());
    let after = Usage::of(process);
    let oracle = versions.oracle();
    oracle.check(store, name);
    let mut found = 0;
    let ((), reading) = timed(|| {
        store.range(i64::MIN, i64::MAX, &mut |batch| found += batch.num_rows());
    });
    assert_eq!(found, oracle.len(), "{name}: all rows");
    let in_all = waits.iter().sum::<Duration>() + flushing;
    waits.sort_unstable();
    let written = (after.written_bytes - before.written_bytes) as f64;
    let rate = |rows: usize, time: Duration| rows as f64 / time.as_secs_f64() / 1e3;
    let mut figures = vec![
        Figure::new("upserts", "krows/s", rate(rows, in_all)),
        Figure::new("flush at the end", "ms", milliseconds(flushing)),
        Figure::new("written for an upsert", "bytes", written / rows as f64),
        Figure::new("all rows into Arrow", "krows/s", rate(found, reading)),
    ];
    figures.extend(quantiles("upsert", "ms", &waits));
    (figures, oracle)
}
