//! Counters of an open store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::state::Engine;

/// Counts of a store since it was opened, and the memory that it uses. Counts only rise, so a
/// monitor takes the difference between two of them.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let store = bedload::Store::create(dir.path().join("s"))?;
/// let before = store.metrics();
/// // … queries …
/// println!("{} pages read", store.metrics().page_reads - before.page_reads);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `examples/prometheus.rs` prints them as text for Prometheus. How far from sorted the rows of a
/// table arrive is in [`TableInfo::order`](crate::TableInfo::order).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Batches that were appended, and deletions.
    pub commits: u64,
    /// Rows that were appended.
    pub rows: u64,
    /// Time for which commits waited because a flush was under way or the memory for rows was full,
    /// of all threads together.
    pub commit_waits: Duration,
    /// Bytes of log records.
    pub log_bytes: u64,
    /// Syncs of the log: one serves all commits that wait for it.
    pub log_syncs: u64,
    /// Rows of indexed tables that flushes wrote after all others, where they stay.
    pub rows_right_edge: u64,
    /// Rows of indexed tables that were late when they were flushed: they begin at the root of
    /// their tree, and are written again as they are pushed down.
    pub rows_root: u64,
    /// Rows that stayed in memory when others were flushed, as rows that are as late as some were
    /// lately would precede them. Each is logged again and counts each time.
    pub rows_held_back: u64,
    /// Flushes of rows to pages, each with a checkpoint. Changes of the catalogue are flushes, too.
    pub flushes: u64,
    /// Time that flushes took, with the maintenance of trees and the checkpoint.
    pub flush_time: Duration,
    /// The longest flush.
    pub flush_longest: Duration,
    /// Bytes of memory for rows that are not in pages.
    pub head_bytes: u64,
    /// Bytes of pages written to the data file. Divided by the bytes of rows: the write
    /// amplification.
    pub page_bytes_written: u64,
    /// Pages of the data file read from the disk.
    pub page_reads: u64,
    /// Calls that read blocks of sparse tables, one or several at a time.
    pub block_reads: u64,
    /// Blocks of sparse tables written.
    pub block_writes: u64,
    /// Pages and blocks that were found in the cache.
    pub cache_hits: u64,
    /// Pages and blocks that were looked for in the cache and not found.
    pub cache_misses: u64,
    /// Bytes in the cache.
    pub cache_bytes: u64,
}

impl Engine {
    /// Counters since the store was opened.
    pub(crate) fn metrics(&self) -> Metrics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let time = |counter: &AtomicU64| Duration::from_nanos(count(counter));
        let counters = &self.counters;
        let (block_reads, block_writes) = self.blocks.counts();
        let cache = self.pages.cache().counts();
        let view = self.view();
        let heads = view.generations().iter().map(|generation| generation.bytes());
        Metrics {
            commits: count(&counters.commits),
            rows: count(&counters.rows),
            rows_right_edge: count(&counters.rows_right_edge),
            rows_root: count(&counters.rows_root),
            rows_held_back: count(&counters.rows_held_back),
            commit_waits: time(&counters.commit_wait_nanos),
            log_bytes: self.log.end() - self.log_opened,
            log_syncs: self.log.syncs(),
            flushes: count(&counters.flushes),
            flush_time: time(&counters.flush_nanos),
            flush_longest: time(&counters.flush_longest_nanos),
            head_bytes: heads.sum::<usize>() as u64,
            page_bytes_written: self.pages.bytes_written(),
            page_reads: self.pages.reads(),
            block_reads,
            block_writes,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            cache_bytes: cache.bytes as u64,
        }
    }
}
