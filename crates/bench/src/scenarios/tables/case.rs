//! The rows of a load, and their arrival.

use std::fmt;

use super::arrival::{Arrival, Input};
use crate::plan::Plan;
use crate::subjects::tables::TableOptions;

/// Memory of each store, in scenarios that do not vary it.
const CACHE_BYTES: usize = 256 << 20;
/// Our default.
const BUFFER_BYTES: usize = 32 << 20;
/// Rows of a batch in scenarios that do not vary it.
pub(super) const BATCH_ROWS: usize = 10_000;
/// The fewest batches of a load.
const BATCHES_MIN: usize = 4;

/// A setting of a scenario, named by its differences from the default:
/// `in-order/batch-100/relaxed`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) arrival: Arrival,
    pub(super) batch_rows: usize,
    pub(super) is_durable: bool,
    pub(super) writers: usize,
}

impl Case {
    /// Creates a setting of durable batches of 10,000 rows from one writer.
    pub(super) const fn new(arrival: Arrival) -> Self {
        Self {
            arrival,
            batch_rows: BATCH_ROWS,
            is_durable: true,
            writers: 1,
        }
    }

    pub(super) const fn batches_of(mut self, rows: usize) -> Self {
        self.batch_rows = rows;
        self
    }

    pub(super) const fn relaxed(mut self) -> Self {
        self.is_durable = false;
        self
    }

    pub(super) const fn writers(mut self, writers: usize) -> Self {
        self.writers = writers;
        self
    }

    /// Returns the rows of this case: fewer than `rows` in small commits, which are slow, and more
    /// if these are less than a few batches.
    pub(super) fn rows(&self, rows: usize, plan: &Plan) -> usize {
        let part = rows
            / if self.batch_rows == 1 {
                50
            } else if self.is_small() {
                5
            } else {
                1
            };
        plan.tiny_or(part, part.max(BATCHES_MIN * self.batch_rows))
    }

    /// Returns the rows of a batch; in tests a part of the few rows.
    ///
    /// # Panics
    ///
    /// If there are fewer rows than in a batch.
    pub(super) fn batch_of(&self, rows: usize, plan: &Plan) -> usize {
        let of_test = (rows / BATCHES_MIN).clamp(1, self.batch_rows);
        let batch = plan.tiny_or(of_test, self.batch_rows);
        assert!(batch <= rows, "{self}: a batch has more than the {rows} rows");
        batch
    }

    /// Returns whether a commit has so few rows that it takes most of their time.
    pub(super) const fn is_small(&self) -> bool {
        self.batch_rows <= 1_000
    }

    /// Returns rows in this order of arrival.
    pub(super) const fn input(&self, rows: usize, seed: u64) -> Input {
        Input {
            arrival: self.arrival,
            rows,
            seed,
        }
    }

    pub(super) fn options(&self) -> TableOptions {
        TableOptions {
            is_durable: self.is_durable,
            cache_bytes: CACHE_BYTES,
            buffer_bytes: BUFFER_BYTES,
            has_key: false,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.arrival)?;
        if self.batch_rows != BATCH_ROWS {
            write!(f, "/batch-{}", self.batch_rows)?;
        }
        if !self.is_durable {
            write!(f, "/relaxed")?;
        }
        if self.writers != 1 {
            write!(f, "/writers-{}", self.writers)?;
        }
        Ok(())
    }
}
