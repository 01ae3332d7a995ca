//! The rows of a sparse table between two places, batch by batch.
//!
//! Each batch is made by itself: blocks and heads are asked for what lies behind the last row given. So a scan holds nothing
//! between two batches but its snapshot, a position, and blocks that were read together with those before.

use std::ops::Bound;
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::head_rows::HeadRows;
use super::output::Output;
use super::scan::{BlockScan, BlocksAhead};
use super::table::SparseEntry;
use crate::engine::{TableEntry, View};
use crate::error::{Error, Result};
use crate::rows::{BatchBuilder, Deletions, Head, Place, Projection};

/// A scan of a sparse table under way.
#[derive(Debug)]
pub(crate) struct SparseScan {
    view: Arc<View>,
    table: Arc<TableEntry>,
    sparse: SparseEntry,
    projection: Projection,
    heads: Vec<Arc<Head>>,
    visible: u64,
    from: Bound<Place>,
    to: Bound<Place>,
    reverse: bool,
    ahead: BlocksAhead,
    is_over: bool,
}

impl SparseScan {
    pub(crate) fn new(
        view: &Arc<View>,
        table: &Arc<TableEntry>,
        projection: &Projection,
        (heads, visible): (&[Arc<Head>], u64),
        (from, to): (Bound<Place>, Bound<Place>),
        reverse: bool,
    ) -> Result<Self> {
        let sparse = table.sparse.clone();
        if projection.with_sequence() {
            return Err(Error::schema("a sparse table keeps no sequence numbers"));
        }
        Ok(Self {
            view: view.clone(),
            table: table.clone(),
            sparse: sparse.ok_or_else(|| Error::schema("the table is not sparse"))?,
            projection: projection.clone(),
            heads: heads.to_vec(),
            visible,
            from,
            to,
            reverse,
            ahead: BlocksAhead::default(),
            is_over: false,
        })
    }

    /// The next rows, up to so many; `None` behind the last.
    pub(crate) fn next(&mut self, wanted: usize, deletions: &Deletions) -> Result<Option<RecordBatch>> {
        if self.is_over {
            return Ok(None);
        }
        let projection = self.projection.clone();
        let view = self.view.clone();
        let builder = BatchBuilder::new(&projection, self.expected().min(wanted), &view.memory);
        let mut output = Output::new(builder, wanted);
        let mut ahead = std::mem::take(&mut self.ahead);
        self.fill(&mut ahead, &mut output, deletions)?;
        let Output { builder, last, .. } = output;
        // Without a row nothing is left: only what was deleted lies behind.
        let Some(last) = last.filter(|_| builder.len() > 0) else {
            return Ok(None);
        };
        self.is_over = !builder.is_full(wanted);
        let batch = builder.finish().map_err(|error| {
            let place = format!("a row of table {:?}", self.table.name);
            Error::corrupt(view.pages.path(), place, error.to_string())
        })?;
        self.ahead = ahead;
        self.pass(last)?;
        Ok(Some(batch))
    }

    /// Goes on behind a row that was given. Fails if that leads back: a block whose rows are out of order would be read for
    /// ever.
    fn pass(&mut self, (time, _): Place) -> Result<()> {
        // There is one row of each time: nothing of this one is left.
        let place = (time, if self.reverse { 0 } else { u64::MAX });
        let bound = if self.reverse {
            &mut self.to
        } else {
            &mut self.from
        };
        let leads_on = match *bound {
            Bound::Unbounded => true,
            Bound::Included(previous) => place == previous || (place < previous) == self.reverse,
            Bound::Excluded(previous) => place != previous && (place < previous) == self.reverse,
        };
        *bound = Bound::Excluded(place);
        if leads_on {
            return Ok(());
        }
        let table = format!("a block of table {:?}", self.table.name);
        let reason = format!("its row of time {time} is out of order");
        Err(Error::corrupt(self.view.pages.path(), table, reason))
    }

    /// About how many rows are left, as far as times tell: memory for them is taken at once.
    fn expected(&self) -> usize {
        let ticks = self
            .ticks()
            .map_or(0, |(first, last)| last.abs_diff(first).saturating_add(1));
        usize::try_from(ticks.min(self.table.rows)).unwrap_or(usize::MAX)
    }

    /// The first and the last tick that are left.
    fn ticks(&self) -> Option<(i64, i64)> {
        let first = match self.from {
            Bound::Unbounded => Some(i64::MIN),
            Bound::Included((time, _)) => Some(time),
            Bound::Excluded((time, _)) => time.checked_add(1),
        };
        let last = match self.to {
            Bound::Unbounded => Some(i64::MAX),
            Bound::Included((time, _)) => Some(time),
            Bound::Excluded((time, _)) => time.checked_sub(1),
        };
        let times = first.zip(last).filter(|(first, last)| first <= last);
        times.and_then(|(first, last)| self.sparse.grid.ticks(first, last))
    }

    /// Merges blocks and heads into the output until it is full or nothing is left.
    fn fill(&self, ahead: &mut BlocksAhead, output: &mut Output<'_>, deletions: &Deletions) -> Result<()> {
        let Some(ticks) = self.ticks() else {
            return Ok(());
        };
        let bounds = (self.from, self.to);
        let heads = (&self.heads[..], &*self.table.schema);
        let mut heads = HeadRows::new(heads, bounds, self.visible, self.reverse);
        let read = (self.visible, deletions);
        let table = (&*self.table, &self.sparse);
        let scan = BlockScan::new(&self.view, &self.heads, table, read, ticks, self.reverse, ahead);
        scan?.fill(&mut heads, output)
    }
}
