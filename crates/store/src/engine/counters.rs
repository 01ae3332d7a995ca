//! Counts of commits and flushes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::table::FlushedRows;

/// The counts that no other part of the store keeps.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) commits: AtomicU64,
    pub(super) rows: AtomicU64,
    pub(super) rows_right_edge: AtomicU64,
    pub(super) rows_root: AtomicU64,
    pub(super) rows_held_back: AtomicU64,
    pub(super) commit_wait_nanos: AtomicU64,
    pub(super) flushes: AtomicU64,
    pub(super) flush_nanos: AtomicU64,
    pub(super) flush_longest_nanos: AtomicU64,
}

impl Counters {
    /// Counts a commit of `rows` rows.
    pub(super) fn committed(&self, rows: u64) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts the rows of indexed tables that a flush wrote.
    pub(super) fn wrote(&self, rows: FlushedRows) {
        self.rows_right_edge.fetch_add(rows.right_edge, Ordering::Relaxed);
        self.rows_root.fetch_add(rows.root, Ordering::Relaxed);
    }

    /// Counts the rows held back from a flush.
    pub(super) fn held_back(&self, rows: u64) {
        self.rows_held_back.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts the wait of a commit.
    pub(super) fn waited(&self, wait: Duration) {
        self.commit_wait_nanos.fetch_add(nanos(wait), Ordering::Relaxed);
    }

    /// Counts a flush.
    pub(super) fn flushed(&self, took: Duration) {
        let took = nanos(took);
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flush_nanos.fetch_add(took, Ordering::Relaxed);
        self.flush_longest_nanos.fetch_max(took, Ordering::Relaxed);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
