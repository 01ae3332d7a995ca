//! The rows of a load, and how they arrive.

use std::fmt;

use super::arrival::Arrival;
use crate::subjects::tables::TableOptions;

/// Memory of each store, in scenarios that are not about it.
const CACHE_BYTES: usize = 256 << 20;
/// Our default.
const BUFFER_BYTES: usize = 32 << 20;
/// Rows of a batch in cases that are not about batches.
pub(super) const BATCH_ROWS: usize = 10_000;

/// A setting of a scenario. It is called by what is not as in most cases: `in-order/batch-100/relaxed`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) arrival: Arrival,
    pub(super) batch_rows: usize,
    pub(super) is_durable: bool,
    pub(super) writers: usize,
}

impl Case {
    /// Durable batches of 10,000 rows of one writer.
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

    /// Rows of this case where most have so many: small commits are too slow for all of them.
    pub(super) fn rows(&self, most: usize) -> usize {
        let part = match self.batch_rows {
            1 => 200,
            2..=1000 => 10,
            _ => 1,
        };
        (most / part).max(self.batch_rows.min(most))
    }

    pub(super) fn options(&self) -> TableOptions {
        TableOptions {
            is_durable: self.is_durable,
            cache_bytes: CACHE_BYTES,
            buffer_bytes: BUFFER_BYTES,
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
