//! Stores of rows with a time, a sensor, three decimal numbers and a short text: [`bedload::Table`]
//! and its peers.
//!
//! [`contract`] defines the interface; each store has its own file and a line in the [`catalogue`].
//! Each is configured as its own documentation, cited in the file, advises.

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

pub(crate) use catalogue::{TABLE_BASELINE, TableEntrant, by_name, stores, stores_and_files};
pub(crate) use contract::{TableOptions, TableStore, timed};
pub(crate) use duckdb::duckdb_python;
pub(crate) use readings::{Checksum, KeyedRow, Readings, RowId, row_celsius, row_checksum};
