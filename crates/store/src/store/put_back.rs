//! Restoring a sparse table to its state in a snapshot.

use std::ops::RangeBounds;
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::snapshot::scan;
use super::{Snapshot, Table};
use crate::error::{Error, Result};
use crate::scan::Scan;
use crate::table::{Layout, Snap};

impl Table {
    /// Makes the rows of a sparse table between two times what they were in a snapshot: rows that
    /// were overwritten or deleted since come back, and those that were added go. Concurrent
    /// writers there may see either.
    ///
    /// It takes a commit for each stretch of rows that go, which go first, and one for each batch
    /// of a scan of the snapshot. If it fails half-way the rest is as it was, and it can be done
    /// again as long as the snapshot is held.
    ///
    /// For a full disk the store has a reserve of 1 MiB, which is set aside while there is space:
    /// it suffices to delete what was added. Rows that were written over need space again, which
    /// flushes free as they go on.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{Float64Array, RecordBatch, TimestampSecondArray};
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # use bedload::{Grid, Layout};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let arrow = Arc::new(Schema::new(vec![
    /// #     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
    /// #     Field::new("x", DataType::Float64, true),
    /// # ]));
    /// # let schema = bedload::TableSchema::new(arrow.clone(), "at")?;
    /// # let table = store.create_table_as("t", schema, Layout::Sparse(Grid::every(1)?))?;
    /// # let batch = |times: Vec<i64>, x: Vec<f64>| RecordBatch::try_new(arrow.clone(), vec![
    /// #     Arc::new(TimestampSecondArray::from(times)),
    /// #     Arc::new(Float64Array::from(x)),
    /// # ]);
    /// table.append(&batch(vec![1], vec![0.5])?)?;
    /// let before = store.snapshot();
    /// table.append(&batch(vec![1, 2], vec![0.7, 0.9])?)?;
    /// table.put_back(&before, ..)?;
    /// assert_eq!(table.get(1)?.expect("it was there").value(1), Some(bedload::Value::Float(0.5)));
    /// assert!(table.get(2)?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The table is not sparse ([`retract_since`](Self::retract_since) is for others), or the
    /// snapshot is not one of its store; the table was dropped, or is newer than the snapshot; the
    /// disk is full or fails; a page or block is damaged.
    pub fn put_back(&self, snapshot: &Snapshot, times: impl RangeBounds<i64>) -> Result<()> {
        let refused = |reason: &str| Err(Error::schema(format!("table {:?} {reason}", self.name())));
        if self.layout() == Layout::Indexed {
            return refused("is not sparse: what was appended to it is retracted");
        }
        if !Arc::ptr_eq(&snapshot.shared, &self.shared) {
            return refused("is in another store than the snapshot");
        }
        let times = (times.start_bound().cloned(), times.end_bound().cloned());
        let state = (&snapshot.view, snapshot.visible);
        let before = || scan(&self.shared, state, &self.table, times);
        let mut before = Times::of(self, before()?)?;
        let mut now = Times::of(self, self.range(times)?)?;
        let mut added: Option<(i64, i64)> = None;
        let mut was = before.next()?;
        while let Some(time) = now.next()? {
            let mut is_between = false;
            while was.is_some_and(|was| was < time) {
                was = before.next()?;
                is_between = true;
            }
            let is_added = was != Some(time);
            if is_between || !is_added {
                self.delete_added(added.take())?;
            }
            if is_added {
                added = Some((added.map_or(time, |(first, _)| first), time));
            }
        }
        self.delete_added(added)?;
        let refused = Table {
            snap: Snap::Refuse,
            ..self.clone()
        };
        scan(&self.shared, state, &self.table, times)?.try_for_each(|batch| refused.append_back(&batch?))
    }

    /// Appends rows that were there before. On a full disk a flush first makes room by removing the
    /// rows that overwrote them.
    fn append_back(&self, batch: &RecordBatch) -> Result<()> {
        match self.append(batch) {
            Err(Error::NoSpace { .. }) => {
                self.shared.engine.flush_with_reserve()?;
                self.append(batch).map(drop)
            }
            done => done.map(drop),
        }
    }

    /// Deletes rows between two times.
    fn delete_added(&self, added: Option<(i64, i64)>) -> Result<()> {
        match added {
            Some((first, last)) => self.delete_range(first..=last),
            None => Ok(()),
        }
    }
}

/// The times of a scan, one by one.
struct Times {
    scan: Scan,
    batch: Option<RecordBatch>,
    row: usize,
}

impl Times {
    fn of(table: &Table, scan: Scan) -> Result<Self> {
        let schema = table.schema();
        let time = schema.arrow().field(schema.time_column()).name();
        Ok(Self {
            scan: scan.columns(&[time])?,
            batch: None,
            row: 0,
        })
    }

    fn next(&mut self) -> Result<Option<i64>> {
        while self
            .batch
            .as_ref()
            .is_none_or(|batch| self.row == batch.num_rows())
        {
            match self.scan.next() {
                None => return Ok(None),
                Some(batch) => self.batch = Some(batch?),
            }
            self.row = 0;
        }
        let data = self.batch.as_ref().map(|batch| batch.column(0).to_data());
        let time = data.map(|data| data.buffer::<i64>(0)[self.row]);
        self.row += 1;
        Ok(time)
    }
}
