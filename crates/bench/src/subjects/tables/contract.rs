//! The interface of a store of readings.

use std::cell::Cell;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};

use super::readings::{Readings, RowId};

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableOptions {
    /// Whether a commit is on the disk when it returns; if not, it is with the operating system, or as near to that as the
    /// store offers.
    pub(crate) is_durable: bool,
    /// Bytes of memory for what is read, in stores that ask.
    pub(crate) cache_bytes: usize,
    /// Bytes of memory for rows that were written, in stores that ask; as much again may be in use while they are
    /// written out.
    pub(crate) buffer_bytes: usize,
}

/// A store of readings, ordered by time. Rows may share a time. Several threads may call it.
pub(crate) trait TableStore: Send + Sync {
    /// Adds rows in one commit; they are visible on return, and as durable as the options say.
    fn append(&self, rows: &Readings);

    /// Writes out what the store holds back in memory or in a log.
    fn flush(&self);

    /// Shows the rows from one time on and before another, in order of time; all rows, from `i64::MIN` to `i64::MAX`, may come in
    /// any order.
    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch));

    /// The checksum of a row.
    fn point(&self, row: RowId) -> Option<u64>;

    /// Shows the latest rows, as many as are asked for; in any order.
    fn newest(&self, rows: usize, show: &mut dyn FnMut(&RecordBatch));

    /// How many rows there are from one time on and before another; of all times if there are none.
    fn count(&self, times: Option<(i64, i64)>) -> u64;

    /// Removes the rows before a time, in one commit.
    fn delete_before(&self, time: i64);

    /// Gives space on the disk back, in the way that the store's documentation names; nothing in stores that have none
    /// while they are open.
    fn reclaim(&self);

    /// The process that the store lives in.
    fn process(&self) -> u32 {
        std::process::id()
    }
}

thread_local! {
    static ELSEWHERE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Leaves time out of what [`timed`] measures around it: that which a call spends on the way to a store in another
/// process.
pub(super) fn leave_out(time: Duration) {
    ELSEWHERE.set(ELSEWHERE.get() + time);
}

/// What `work` returns, and how long the store took for it.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let (begun, elsewhere) = (Instant::now(), ELSEWHERE.get());
    let answer = work();
    let left_out = ELSEWHERE.get() - elsewhere;
    (answer, begun.elapsed().saturating_sub(left_out))
}
