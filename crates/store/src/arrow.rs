//! The Arrow crates that this crate's interface uses, in the version it was built with.
//!
//! Code that takes its Arrow types from here gets the right version without depending on Arrow
//! itself.
//!
//! ```
//! use std::sync::Arc;
//! use bedload::TableSchema;
//! use bedload::arrow::array::{RecordBatch, TimestampSecondArray};
//! use bedload::arrow::schema::{DataType, Field, Schema, TimeUnit};
//!
//! # let dir = tempfile::tempdir()?;
//! # let store = bedload::Store::create(dir.path().join("s"))?;
//! let columns = Arc::new(Schema::new(vec![
//!     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
//! ]));
//! let table = store.create_table("t", TableSchema::new(columns.clone(), "at")?)?;
//! table.append(&RecordBatch::try_new(columns, vec![Arc::new(TimestampSecondArray::from(vec![1, 2]))])?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use arrow_array as array;
pub use arrow_buffer as buffer;
pub use arrow_schema as schema;
