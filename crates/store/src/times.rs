//! Ranges of dates, times and texts, with the feature `times`.
//!
//! ```
//! # use std::sync::Arc;
//! use bedload::arrow::array::{RecordBatch, TimestampSecondArray};
//! use bedload::arrow::schema::{DataType, Field, Schema, TimeUnit};
//! # let dir = tempfile::tempdir()?;
//! # let store = bedload::Store::create(dir.path().join("s"))?;
//! let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, Some("Europe/Berlin".into())), false);
//! let columns = Arc::new(Schema::new(vec![at]));
//! let table = store.create_table("readings", bedload::TableSchema::new(columns.clone(), "at")?)?;
//! let at = TimestampSecondArray::from(vec![1_360_278_000, 1_360_364_400]).with_timezone("Europe/Berlin");
//! table.append(&RecordBatch::try_new(columns, vec![Arc::new(at)])?)?;
//!
//! // A day in Berlin.
//! assert_eq!(table.between("2013-02-08".."2013-02-09")?.count()?, 1);
//! let midnight = chrono::DateTime::from_timestamp(1_360_364_400, 0).expect("a time");
//! assert_eq!(table.between(midnight..)?.count()?, 1);
//! assert_eq!(table.between("-1h"..)?.count()?, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ops::RangeBounds;

use arrow_schema::DataType;
pub use bedload_times::{Clock, Time};

use crate::error::{Error, Result};
use crate::rows::TableSchema;
use crate::scan::Scan;
use crate::store::{Snapshot, Table};

impl Table {
    /// The rows whose time lies in a range of [`Time`]s, as of now: [`range`](Self::range) for more
    /// than ticks. Bounds may lie between two ticks of the time column's unit.
    ///
    /// # Errors
    ///
    /// A text is not a time; a reading of the clock in the time column's zone occurs twice or
    /// never; that zone is unknown; the table was dropped.
    pub fn between<T: Time>(&self, times: impl RangeBounds<T>) -> Result<Scan> {
        self.range(clock(self.schema())?.range(times).map_err(refused)?)
    }
}

impl Snapshot {
    /// The rows of a table whose time lies in a range of [`Time`]s, as [`Table::between`] has them.
    ///
    /// # Errors
    ///
    /// As for [`Table::between`].
    pub fn between<T: Time>(&self, table: &str, times: impl RangeBounds<T>) -> Result<Scan> {
        let ticks = clock(self.schema(table)?)?.range(times).map_err(refused)?;
        self.range(table, ticks)
    }
}

/// The clock of a table's time column.
fn clock(schema: &TableSchema) -> Result<Clock> {
    let zone = match schema.arrow().field(schema.time_column()).data_type() {
        DataType::Timestamp(_, zone) => zone.as_deref(),
        // A table's time column is never of another type.
        _ => None,
    };
    Clock::new(schema.time_unit(), zone).map_err(refused)
}

fn refused(error: bedload_times::Error) -> Error {
    Error::schema(error.to_string())
}
