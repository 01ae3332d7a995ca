//! Bedload tables in [DataFusion](datafusion): SQL and data frames over a store.
//!
//! ```
//! use std::sync::Arc;
//! use bedload::arrow::array::{Float64Array, RecordBatch, TimestampSecondArray};
//! use bedload::arrow::schema::{DataType, Field, Schema, TimeUnit};
//! use bedload::{Store, TableSchema};
//! use bedload_datafusion::BedloadTable;
//! use datafusion::prelude::SessionContext;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("readings");
//! let columns = Arc::new(Schema::new(vec![
//!     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
//!     Field::new("celsius", DataType::Float64, true),
//! ]));
//! let store = Store::open_or_create(path)?;
//! let table = store.table_or_create("readings", TableSchema::new(columns.clone(), "at")?)?;
//! table.append(&RecordBatch::try_new(columns, vec![
//!     Arc::new(TimestampSecondArray::from(vec![1000, 1020, 1010])),
//!     Arc::new(Float64Array::from(vec![20.5, 20.7, 21.0])),
//! ])?)?;
//!
//! let session = SessionContext::new();
//! session.register_table("readings", Arc::new(BedloadTable::new(&table)))?;
//! let newest = session
//!     .sql("SELECT celsius FROM readings WHERE at > to_timestamp_seconds(1000) ORDER BY at DESC LIMIT 1")
//!     .await?
//!     .collect()
//!     .await?;
//! assert_eq!(newest[0].num_rows(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A table takes over from the query: the range of its times, comparisons of its columns with
//! constants, the columns that are read, the order of its times in either direction, and the limit.
//! Its number of rows and its first and last time answer `count(*)`, `min` and `max` without
//! reading rows, unless it is sparse or has deletions that were not flushed. `EXPLAIN` shows what
//! was taken over as `BedloadExec`.
//!
//! Rows are read as the query consumes them, on threads that may block, and no thread is held
//! between two batches.

mod condition;
mod exec;
mod schema;
mod statistics;
mod stream;
mod table;
mod time_range;

pub use exec::BedloadExec;
pub use schema::StoreSchema;
pub use table::BedloadTable;
