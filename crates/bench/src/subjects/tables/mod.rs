//! Stores of rows with a time, a sensor, three decimal numbers and a short text: [`bedload::Table`], and its peers.
//!
//! [`contract`] says what a store answers; a store is one file, and one line of the [`catalogue`]. Each is
//! set up as its own documentation advises, which the file cites.

mod bedload;
mod catalogue;
mod contract;
mod duckdb;
mod fjall;
mod keys;
mod lmdb;
mod parquet;
mod readings;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;

pub(crate) use catalogue::{
    TABLE_BASELINE, TABLE_BASELINE_AGAIN, TableEntrant, by_name, stores, stores_and_files,
};
pub(crate) use contract::{TableOptions, TableStore, timed};
pub(crate) use readings::{Checksum, Readings, RowId, row_checksum};
