//! Rows of tables with a key: those that are loaded, and those that take their place.

use std::collections::HashSet;
use std::fmt;

use bedload_testkit::Rng;
use serde::{Deserialize, Serialize};

use super::case::BATCH_ROWS;
use crate::subjects::tables::RowId;

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
pub(super) enum Kind {
    /// A twentieth of the rows, of any times and sensors.
    Corrections,
    /// A hundredth of the rows, each in a commit of its own.
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
    pub(super) kind: Kind,
    /// Rows that a table has in which others are put.
    pub(super) rows: usize,
    pub(super) seed: u64,
}

impl Upserts {
    /// Returns how many rows are put at a time.
    pub(super) fn batch_rows(&self) -> usize {
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
    pub(super) fn loaded(&self) -> Vec<RowId> {
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
    pub(super) fn put(&self) -> Vec<Vec<RowId>> {
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
            Kind::SingleCorrections => (self.rows / 100).max(10),
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
