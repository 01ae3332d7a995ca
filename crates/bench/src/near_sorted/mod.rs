//! Ingest and queries of nearly sorted keys, one thread.

pub mod engines;
pub mod floor;
pub mod input;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
pub mod subjects;
