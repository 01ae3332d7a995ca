//! What a store counts of its disk.

/// How often a store has gone to the disk since it was opened. What comes from the cache is not counted.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let store = bedload::Store::create(dir.path().join("s"))?;
/// let before = store.disk_counts();
/// // … queries …
/// println!("{} pages read", store.disk_counts().page_reads - before.page_reads);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskCounts {
    /// Pages of the data file read.
    pub page_reads: u64,
    /// Calls that read blocks of sparse tables, one or several at a time.
    pub block_reads: u64,
    /// Blocks of sparse tables written.
    pub block_writes: u64,
}
