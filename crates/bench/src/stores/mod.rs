//! Durable stores of time-stamped rows, side by side: the two layouts of ours, and peers.
//!
//! All of them make a batch durable before they take the next: one sync for a transaction of LMDB (heed 0.22, default
//! flags), one of the write-ahead log of SQLite (rusqlite 0.37, `journal_mode = WAL`, `synchronous = FULL`), of RocksDB
//! (`sync`) and of WiredTiger (`sync=on`), which are there with features of their names, and `Durability::Always` here. Their
//! memory for pages is about the same; LMDB reads by mmap, unchecked.

mod lmdb;
mod ours;
pub mod raw;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod rows;
mod sqlite;
#[cfg(feature = "wiredtiger")]
mod wiredtiger;

use std::path::Path;

use arrow_array::RecordBatch;

pub use lmdb::Narrow;
pub use rows::{COLUMNS, ROW_BYTES, Rows, VALUE_BYTES, fold, row_of};

/// Bytes of memory that each store has for pages.
pub const CACHE_BYTES: usize = 512 << 20;

/// A store of one table.
pub trait RowStore {
    /// Adds rows; they are durable on return.
    fn append(&mut self, rows: &Rows);

    /// Brings everything to where it stays.
    fn settle(&mut self);

    /// Whether a row takes the place of one that has its time; if not, both are kept.
    fn writes_over(&self) -> bool {
        true
    }

    /// Looks a row up and folds all its values into one number.
    fn get(&self, time: i64) -> Option<u64>;

    /// Reads the rows from one time on and before another into Arrow arrays, and shows the batches.
    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch));
}

/// Makes an empty store in a directory.
pub type Make = fn(&Path) -> Box<dyn RowStore>;

/// Every store.
pub const ALL: &[(&str, Make)] = &[
    ("sparse", ours::sparse),
    ("indexed", ours::indexed),
    (BASELINE, lmdb::make),
    ("sqlite", sqlite::make),
    #[cfg(feature = "rocksdb")]
    ("rocksdb", rocksdb::make),
    #[cfg(feature = "wiredtiger")]
    ("wiredtiger", wiredtiger::make),
];

/// What the others are compared with.
pub const BASELINE: &str = "lmdb";

/// Bytes that sort as times do.
fn key(time: i64) -> [u8; 8] {
    (time.cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

/// The time of such bytes.
fn time(key: &[u8]) -> i64 {
    let key = key.first_chunk().copied().unwrap_or_default();
    (u64::from_be_bytes(key) ^ (1 << 63)).cast_signed()
}

/// The name of every store.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|(name, _)| *name).collect()
}
