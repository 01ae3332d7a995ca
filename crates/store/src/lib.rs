//! An embedded store for rows that arrive nearly in order of time.
//!
//! A [`Store`] is a directory with tables. A [`Table`] has columns, one of them its time; Arrow
//! record batches go in by [`Table::append`], which returns once they are durable, and come out by
//! [`Table::range`], ordered by time. Late rows, by a little or by years, are never lost, and you
//! pay only for rows that arrive out of order.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{Float64Array, RecordBatch, TimestampSecondArray};
//! use arrow_schema::{DataType, Field, Schema, TimeUnit};
//! use bedload::{Store, TableSchema};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("readings");
//! let store = Store::create(&path)?;
//! let columns = Arc::new(Schema::new(vec![
//!     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
//!     Field::new("celsius", DataType::Float64, true),
//! ]));
//! let table = store.create_table("readings", TableSchema::new(columns.clone(), "at")?)?;
//!
//! // The third row is late.
//! table.append(&RecordBatch::try_new(columns, vec![
//!     Arc::new(TimestampSecondArray::from(vec![1000, 1020, 1010])),
//!     Arc::new(Float64Array::from(vec![Some(20.5), Some(20.7), None])),
//! ])?)?;
//!
//! let before = store.snapshot();
//! table.delete_range(..1005)?;
//!
//! let mut times = Vec::new();
//! for batch in table.range(1000..2000)?.columns(&["at"])? {
//!     let batch = batch?;
//!     let column = batch.column(0).as_any().downcast_ref::<TimestampSecondArray>();
//!     times.extend_from_slice(column.expect("the type of the column").values());
//! }
//! assert_eq!(times, [1010, 1020]);
//! assert_eq!(before.range("readings", ..)?.count()?, 3);
//! store.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `ARCHITECTURE.md` explains how the parts work together, `docs/format.md` the format on disk.

#[cfg(target_endian = "big")]
compile_error!("rows are copied to disk as they stand in memory, and the format is little-endian");

pub mod arrow;
mod codec;
mod disk;
mod engine;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod info;
mod mark;
mod options;
mod or_create;
#[cfg_attr(
    not(feature = "file-pages"),
    expect(unreachable_pub, reason = "public in the interface of `FilePages` alone")
)]
mod pages;
mod prefetch;
mod reader;
mod rows;
mod scan;
#[cfg(test)]
mod simulation;
mod store;
mod sync;
mod table;
#[cfg(feature = "times")]
pub mod times;
mod wal;

pub use bedload_columns::{Operator, Predicate};
pub use bedload_sortedness::Estimate;
pub use engine::{Appended, Metrics, Problem, SalvageReport, VerifyReport};
pub use error::{Error, Result};
pub use info::{StoreInfo, TableInfo};
pub use mark::Mark;
pub use options::{Durability, Options};
#[cfg(feature = "file-pages")]
pub use pages::{FilePages, FilePagesOptions, PageCounts};
pub use reader::ScanReader;
pub use rows::{ArrivalOrder, Gap, SalvagedTable, StopHandle, TableSchema};
pub use scan::Scan;
pub use store::{
    PendingAppend, RetentionPause, Row, Snapshot, Store, Table, Value, WriteBatch, inspect, restore, salvage,
};
pub use table::{Density, Grid, Layout, Snap};
