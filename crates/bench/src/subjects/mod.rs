//! All subjects: our indexes and stores, their peers from the registry, and bounds on them.
//!
//! [`contract`] defines the three kinds of subjects: a concurrent index ([`Subject`]), a
//! single-threaded map ([`SerialSubject`]), and a durable store of rows ([`RowStore`]).
//! [`catalogue`] lists the subjects of each scenario; stores of tables are in [`tables`].

mod bedload;
mod buffered;
mod catalogue;
mod contract;
mod indexes;
mod limits;
mod lmdb;
mod near_sorted;
mod peers;
pub(crate) mod raw;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod row_batches;
mod sqlite;
pub(crate) mod tables;
#[cfg(feature = "wiredtiger")]
mod wiredtiger;

pub(crate) use self::bedload::{every_second, table};
#[cfg(feature = "coherence")]
pub use catalogue::LOG_SIZES;
pub(crate) use catalogue::SAME_AGAIN;
pub use catalogue::{
    BASELINE, CONVERTING, FACTORS, INDEXES, OF_ADDRESSES, ROW_BASELINE, ROW_STORES, SEGMENTED, TUNINGS,
    indexes_and_buffers, indexes_and_ceiling, indexes_and_hash_table, names,
};
pub use contract::{
    Address, Answers, AnyKey, CACHE_BYTES, Make, MakeRows, RowStore, SCAN_MAX, SerialSubject, Subject,
};
pub(crate) use contract::{add_entry, value_of};
pub use lmdb::Lmdb;
pub(crate) use near_sorted::{get_sorting, sum_of_reads};
pub use row_batches::{COLUMNS, ROW_BYTES, Rows, fold, row_of};
