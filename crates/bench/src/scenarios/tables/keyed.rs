//! Tables with a key, a time and a sensor: rows take the place of those with the same key.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use bedload_testkit::Rng;
use serde::{Deserialize, Serialize};

use super::arrival::Arrival;
use super::case::{BATCH_ROWS, Case};
use super::ingest::by_turns;
use super::oracle::Oracle;
use super::process::Usage;
use super::stage::{Failed, TableStage};
use super::worker::{Request, milliseconds, quantile};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::Trial;
use crate::subjects::tables::{
    KeyedRow, Readings, RowId, TABLE_BASELINE, TableOptions, TableStore, stores, timed,
};

/// Sensors, each of which has a row at each time.
const SENSORS: usize = 1_000;
/// Rows that are corrected together.
const CORRECTIONS: usize = 1_000;
/// Between two times.
const SECOND: i64 = 1_000_000;
/// The first time: November 2023.
const EPOCH: i64 = 1_700_000_000 * SECOND;

/// Which rows are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    /// A twentieth of the rows, of any times and sensors.
    Corrections,
    /// A thousandth of the rows, each in a commit of its own.
    SingleCorrections,
    /// Half as many rows, into an empty table, of any sensors at any of a tenth as many times: few
    /// have the same key.
    Scattered,
    /// All rows once more, in the batches in which they were loaded.
    Again,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Corrections => "corrections",
            Self::SingleCorrections => "single-corrections",
            Self::Scattered => "scattered",
            Self::Again => "again",
        })
    }
}

/// A load of a table with a key, and what is put then.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Upserts {
    kind: Kind,
    /// Rows that a table has in which others are put.
    rows: usize,
    seed: u64,
}

/// Varies which rows are put.
pub(super) fn keyed(plan: &Plan) -> Vec<Record> {
    let rows = plan.entries_of(1_000_000, 10_000_000);
    let kinds = [
        Kind::Corrections,
        Kind::SingleCorrections,
        Kind::Scattered,
        Kind::Again,
    ];
    let taken = kinds
        .into_iter()
        .filter(|kind| plan.takes_degree(&kind.to_string()));
    let of_kind = |kind: Kind| {
        let upserts = |seed| Upserts { kind, rows, seed };
        let trial = Trial::new("table-keyed", TABLE_BASELINE, plan)
            .param("degree", kind)
            .param("rows", rows)
            .param("batch", upserts(0).batch_rows());
        trial.run(|round, samples| {
            for entrant in by_turns(&stores(), plan, round) {
                let dir = tempfile::tempdir().expect("a temporary directory");
                let options = TableOptions {
                    has_key: true,
                    ..Case::new(Arrival::InOrder).options()
                };
                let measure = || -> Result<Vec<Figure>, Failed> {
                    let (mut stage, _) = TableStage::open(plan, entrant, &dir, options, None)?;
                    stage.ask(&Request::Upsert(upserts(round)))
                };
                if let Ok(figures) = measure() {
                    samples.add(entrant.name, figures);
                }
            }
        })
    };
    taken.flat_map(of_kind).collect()
}

impl Upserts {
    fn batch_rows(&self) -> usize {
        match self.kind {
            Kind::Corrections => CORRECTIONS.min(self.rows / 20).max(1),
            Kind::SingleCorrections => 1,
            Kind::Scattered | Kind::Again => BATCH_ROWS.min(self.rows / 4).max(1),
        }
    }

    fn sensors(&self) -> usize {
        SENSORS.min(self.rows / 4).max(1)
    }

    /// Returns the positions of the rows that are loaded first, in the order of time.
    fn loaded(&self) -> Vec<RowId> {
        let rows = if self.kind == Kind::Scattered {
            0
        } else {
            self.rows
        };
        let sensors = self.sensors();
        (0..rows)
            .map(|row| position(row / sensors, row % sensors))
            .collect()
    }

    /// Returns the positions of the rows that are put then, batch by batch; each once in a batch.
    fn put(&self) -> Vec<Vec<RowId>> {
        let loaded = self.loaded();
        let batch_rows = self.batch_rows();
        if self.kind == Kind::Again {
            return loaded.chunks(batch_rows).map(<[RowId]>::to_vec).collect();
        }
        let rng = &mut Rng::new(self.seed);
        let mut draw = || match self.kind {
            Kind::Scattered => position(rng.index((self.rows / 20).max(1)), rng.index(self.sensors())),
            _ => loaded[rng.index(loaded.len())],
        };
        let all = match self.kind {
            Kind::Corrections => self.rows / 20,
            Kind::SingleCorrections => (self.rows / 1_000).max(10),
            Kind::Scattered | Kind::Again => self.rows / 2,
        };
        let batches = (all / batch_rows).max(1);
        let mut batch = || {
            let mut taken = HashSet::new();
            let draws = std::iter::repeat_with(&mut draw);
            let new = draws.filter(|id| taken.insert(*id));
            new.take(batch_rows).collect()
        };
        (0..batches).map(|_| batch()).collect()
    }
}

/// Returns the position of a sensor's row at one of the times.
fn position(time: usize, sensor: usize) -> RowId {
    RowId {
        time: EPOCH + i64::try_from(time).expect("fewer than 2^63") * SECOND,
        arrival: u32::try_from(sensor).expect("few"),
    }
}

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
    let at = |per_mille| milliseconds(quantile(&waits, per_mille));
    let written = (after.written_bytes - before.written_bytes) as f64;
    let rate = |rows: usize, time: Duration| rows as f64 / time.as_secs_f64() / 1e3;
    let figures = vec![
        Figure::new("upserts", "krows/s", rate(rows, in_all)),
        Figure::new("upsert p50", "ms", at(500)),
        Figure::new("upsert longest", "ms", at(1000)),
        Figure::new("flush at the end", "ms", milliseconds(flushing)),
        Figure::new("written for an upsert", "bytes", written / rows as f64),
        Figure::new("all rows into Arrow", "krows/s", rate(found, reading)),
    ];
    (figures, oracle)
}
