//! Appends that are waited for later.

use std::sync::Arc;

use arrow_array::RecordBatch;

use super::{Shared, Table};
use crate::engine::{Appended, Begun};
use crate::error::Result;

/// Rows that [`Table::begin_append`] has added to the log, and that may be neither durable nor
/// visible yet.
///
/// Dropped without a wait, they become durable and visible with the next awaited commit, flush or
/// close of the store; an error then goes to that call, or is logged if the store is dropped.
#[derive(Debug)]
#[must_use = "whether the rows are durable is known once it was waited for"]
pub struct PendingAppend {
    shared: Arc<Shared>,
    begun: Begun,
}

impl PendingAppend {
    /// Returns once the rows are as durable as the store's [`Durability`](crate::Durability) says,
    /// and visible; at once if they are.
    ///
    /// # Errors
    ///
    /// The disk failed; whether the rows are durable is then unknown, and the store takes no more
    /// writes. Or the store was opened by a process from which this one was forked.
    pub fn wait(self) -> Result<Appended> {
        self.shared.engine.finish(&self.begun)?;
        Ok(self.begun.appended)
    }
}

impl Table {
    /// As [`append`](Self::append), without waiting for the disk: so one thread keeps the log busy,
    /// and one sync serves all appends that were begun before it. Commits become visible in the
    /// order in which they were begun, so the last one that is waited for says that all before it
    /// are durable.
    ///
    /// A batch for a sparse table that is written as blocks, and one that is longer than the memory
    /// for rows, is durable on return.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{RecordBatch, TimestampSecondArray};
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    /// # let arrow = Arc::new(Schema::new(vec![at]));
    /// # let table = store.create_table("t", bedload::TableSchema::new(arrow.clone(), "at")?)?;
    /// # let row = |time: i64| RecordBatch::try_new(arrow.clone(), vec![Arc::new(TimestampSecondArray::from(vec![time]))]);
    /// let mut last = table.begin_append(&row(0)?)?;
    /// for time in 1..1000 {
    ///     last = table.begin_append(&row(time)?)?;
    /// }
    /// last.wait()?;
    /// assert_eq!(table.range(..)?.count()?, 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`append`](Self::append), but for those of the wait.
    pub fn begin_append(&self, batch: &RecordBatch) -> Result<PendingAppend> {
        let begun = if self.has_key() {
            self.begin_append_keyed(batch)?
        } else {
            self.shared.engine.begin_append(&self.table, batch, self.snap)?
        };
        Ok(PendingAppend {
            begun,
            shared: self.shared.clone(),
        })
    }
}
