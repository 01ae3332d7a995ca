//! Keeping all rows of a table for a while, whatever its retention.

use std::sync::atomic::Ordering;

use super::Table;
use crate::error::Result;

/// No row of a table expires while it is held ([`Table::pause_retention`]).
///
/// Once it is dropped, the next flush that has rows of the table finds those that have expired.
#[derive(Debug)]
#[must_use = "rows expire again once it is dropped"]
pub struct RetentionPause {
    table: Table,
}

impl RetentionPause {
    /// Ends the pause, and lets rows go that have expired meanwhile. Flushes all tables if the
    /// table has a retention.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub fn end(self) -> Result<()> {
        let table = self.table.clone();
        drop(self);
        table.shared.engine.let_expire(table.table.entry.id)
    }
}

impl Table {
    /// Lets no row of the table [expire](Self::set_retention) until the pause is dropped, in this
    /// process. Waits for a flush that is under way.
    ///
    /// Rows expire by the newest one, so rows that are taken back later with
    /// [`retract_since`](Self::retract_since) may have made others expire, which do not come back.
    /// Append rows that you may take back within a pause.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use arrow_array::{RecordBatch, TimestampSecondArray};
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    /// # let arrow = Arc::new(Schema::new(vec![at]));
    /// # let table = store.create_table("t", bedload::TableSchema::new(arrow.clone(), "at")?)?;
    /// # let row = |time: i64| RecordBatch::try_new(arrow.clone(), vec![Arc::new(TimestampSecondArray::from(vec![time]))]);
    /// table.set_retention(Some(Duration::from_secs(3600)))?;
    /// table.append(&row(0)?)?;
    /// let (mark, pause) = (table.mark(), table.pause_retention());
    /// table.append(&row(1_000_000)?)?;
    /// store.flush()?;
    /// table.retract_since(mark)?;
    /// pause.end()?;
    /// assert_eq!(table.range(..)?.count()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause_retention(&self) -> RetentionPause {
        let begin = || {
            self.table.entry.pauses.fetch_add(1, Ordering::Relaxed);
        };
        // A flush that is under way has already looked for pauses. Once it is done, the caller sees
        // only rows that stay.
        self.shared.engine.between_flushes(begin);
        RetentionPause { table: self.clone() }
    }
}

impl Drop for RetentionPause {
    fn drop(&mut self) {
        // A thread that sees the end of the pause also sees the commits within it.
        self.table.table.entry.pauses.fetch_sub(1, Ordering::Release);
    }
}
