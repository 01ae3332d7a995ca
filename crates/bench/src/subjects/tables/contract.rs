//! The interface of a store of readings.

use std::cell::Cell;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};

use super::readings::{Readings, RowId, cold_rows};

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableOptions {
    /// Whether a commit is on disk when it returns; if not, the operating system has it, or the
    /// closest to that which the store offers.
    pub(crate) is_durable: bool,
    /// Bytes of memory for reads, in stores with such a setting.
    pub(crate) cache_bytes: usize,
    /// Bytes of memory for written rows, in stores with such a setting; as much again may be in use
    /// during a flush.
    pub(crate) buffer_bytes: usize,
    /// Whether time and sensor are a key: a row takes the place of the one that has its key.
    pub(crate) has_key: bool,
}

/// A store of readings, ordered by time. Rows may share a time. Several threads may call it.
pub(crate) trait TableStore: Send + Sync {
    /// Adds rows in one commit; they are visible on return, and as durable as the options say. In a
    /// table with a key, no two of them have the same.
    fn append(&self, rows: &Readings);

    /// Writes out rows that the store has only in memory or in a log.
    fn flush(&self);

    /// Passes the rows from one time to before another to `show`, in order of time; a range from
    /// `i64::MIN` to `i64::MAX` may come in any order.
    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch));

    /// Returns the checksum of a row.
    fn point(&self, row: RowId) -> Option<u64>;

    /// Passes the latest `rows` rows to `show`, in any order.
    fn newest(&self, rows: usize, show: &mut dyn FnMut(&RecordBatch));

    /// Returns the number of rows from one time to before another; `None` counts all.
    fn count(&self, times: Option<(i64, i64)>) -> u64;

    /// Passes the rows of at most this temperature to `show`, in any order.
    fn cold(&self, celsius: f64, show: &mut dyn FnMut(&RecordBatch)) {
        self.range(i64::MIN, i64::MAX, &mut |batch| {
            let rows = cold_rows(batch, celsius);
            if rows.num_rows() > 0 {
                show(&rows);
            }
        });
    }

    /// Removes the rows from one time to before another, in one commit.
    fn delete(&self, from: i64, to: i64);

    /// Frees disk space as the store's documentation advises; does nothing in stores that cannot
    /// while open.
    fn reclaim(&self);

    /// Returns the process of the store.
    fn process(&self) -> u32 {
        std::process::id()
    }
}

thread_local! {
    static ELSEWHERE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Excludes from the enclosing [`timed`] the time of communication with a store in another process.
pub(super) fn leave_out(time: Duration) {
    ELSEWHERE.set(ELSEWHERE.get() + time);
}

/// Returns the result of `work` and the time that the store took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let (begun, elsewhere) = (Instant::now(), ELSEWHERE.get());
    let answer = work();
    let left_out = ELSEWHERE.get() - elsewhere;
    (answer, begun.elapsed().saturating_sub(left_out))
}
