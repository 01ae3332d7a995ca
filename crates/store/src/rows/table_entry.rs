//! A table in the catalogue: what is known of it whichever way its rows are kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_schema::TimeUnit;
use bedload_pages::PageId;

use super::{Deletion, TableId, TableSchema};

/// A table, as of one checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct TableEntry {
    pub(crate) id: TableId,
    /// Shared with the scans that name the table in their errors.
    pub(crate) name: Arc<str>,
    pub(crate) schema: Arc<TableSchema>,
    /// The first checkpoint that has the table. Pages older than that are not the table's, whatever
    /// they say: page ids are given out again.
    pub(crate) since: u64,
    /// The page that names the table's tree.
    pub(crate) root: PageId,
    /// Rows in pages and blocks.
    pub(crate) rows: u64,
    /// The first sequence number that no row in pages and blocks reaches.
    pub(crate) end_sequence: u64,
    /// For how many ticks rows are kept, counted back from the newest; none for ever. At least one.
    pub(crate) retention: Option<u64>,
    /// How many pauses keep all rows at the moment. Not on disk.
    pub(crate) pauses: Arc<AtomicUsize>,
}

impl TableEntry {
    /// The deletion of the rows that are older than the table's retention allows, given the time of
    /// the newest row and a sequence number above those of all rows. None without a retention,
    /// during a pause, and unless `are_settled` says that no later commit takes rows back. That is
    /// asked last: a commit within a pause is visible once the pause has ended. A row from the
    /// future, as devices with a wrong clock send, counts as a row of the present, so that it
    /// expires no others.
    pub(crate) fn expired(
        &self,
        newest: Option<i64>,
        at: u64,
        are_settled: impl Fn() -> bool,
    ) -> Option<Deletion> {
        let newest = newest?.min(now(self.schema.time_unit()));
        let first = newest.checked_sub_unsigned(self.retention?)?;
        if self.pauses.load(Ordering::Acquire) > 0 || !are_settled() {
            return None;
        }
        Some(Deletion {
            times: i64::MIN..=first.checked_sub(1)?,
            from_sequence: 0,
            at,
        })
    }
}

/// The present tick.
fn now(unit: TimeUnit) -> i64 {
    let ticks = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|now| match unit {
            TimeUnit::Second => now.as_secs().into(),
            TimeUnit::Millisecond => now.as_millis(),
            TimeUnit::Microsecond => now.as_micros(),
            TimeUnit::Nanosecond => now.as_nanos(),
        });
    // A clock that says nothing is no reason to keep rows.
    ticks.map_or(i64::MAX, |ticks| i64::try_from(ticks).unwrap_or(i64::MAX))
}
