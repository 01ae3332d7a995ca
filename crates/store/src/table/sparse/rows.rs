//! The rows of a sparse table between two places, batch by batch.
//!
//! A batch begins after the last row given. Between two batches a scan keeps its snapshot, a
//! position, blocks that were read together with those before, and rows that met its conditions.

use std::ops::Bound;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::ArrowError;
use arrow_select::filter::filter_record_batch;

use super::head_rows::HeadRows;
use super::output::Output;
use super::scan::{BlockScan, BlocksAhead};
use super::table::SparseEntry;
use super::view::SparseView;
use crate::error::{Error, Result};
use crate::rows::TableEntry;
use crate::rows::{BatchBuilder, Deletions, Filter, Place, Projection};

/// Rows that are tested against a filter at a time.
const FILTERED_ROWS: usize = 8192;

/// A scan of a sparse table under way.
#[derive(Debug)]
pub(crate) struct SparseScan {
    view: SparseView,
    table: TableEntry,
    sparse: SparseEntry,
    filter: Filter,
    /// The columns of the batches.
    wanted: Projection,
    /// The columns that are read.
    projection: Projection,
    /// Rows that match the filter and were not given yet.
    matched: Option<RecordBatch>,
    visible: u64,
    from: Bound<Place>,
    to: Bound<Place>,
    reverse: bool,
    ahead: BlocksAhead,
    is_over: bool,
}

impl SparseScan {
    pub(crate) fn new(
        view: SparseView,
        (table, sparse): (&TableEntry, &SparseEntry),
        (projection, filter): (&Projection, &Filter),
        visible: u64,
        (from, to): (Bound<Place>, Bound<Place>),
        reverse: bool,
    ) -> Result<Self> {
        if projection.with_sequence() {
            return Err(Error::schema("a sparse table keeps no sequence numbers"));
        }
        let read = if filter.is_empty() {
            projection.clone()
        } else {
            // Columns that are compared come after those that are wanted.
            let mut columns: Vec<usize> = projection.columns().collect();
            for (column, _) in filter.conditions() {
                if !columns.contains(column) {
                    columns.push(*column);
                }
            }
            Projection::new(table.schema.clone(), columns, false)
        };
        Ok(Self {
            view,
            table: table.clone(),
            filter: filter.clone(),
            wanted: projection.clone(),
            sparse: sparse.clone(),
            projection: read,
            matched: None,
            visible,
            from,
            to,
            reverse,
            ahead: BlocksAhead::default(),
            is_over: false,
        })
    }

    /// The next rows, at most `wanted`; `None` after the last.
    pub(crate) fn next(&mut self, wanted: usize, deletions: &Deletions) -> Result<Option<RecordBatch>> {
        if self.filter.is_empty() {
            return self.next_unfiltered(wanted, deletions);
        }
        let rows = match self.matched.take() {
            Some(rows) => Some(rows),
            None => self.next_matching(deletions)?,
        };
        let Some(rows) = rows else { return Ok(None) };
        let given = rows.num_rows().min(wanted);
        if given < rows.num_rows() {
            self.matched = Some(rows.slice(given, rows.num_rows() - given));
        }
        Ok(Some(rows.slice(0, given)))
    }

    /// The next rows that match the filter; `None` after the last.
    fn next_matching(&mut self, deletions: &Deletions) -> Result<Option<RecordBatch>> {
        while !self.filter.is_stopped()
            && let Some(batch) = self.next_unfiltered(FILTERED_ROWS, deletions)?
        {
            let matching = self.filter.select(|column| {
                let read = self.projection.columns().position(|read| read == column);
                let array = read.map(|read| batch.column(read).clone());
                array.ok_or_else(|| Error::schema("a column that is compared is not read"))
            })?;
            let rows = matching.unwrap_or_else(|| BooleanBuffer::new_set(batch.num_rows()));
            if rows.count_set_bits() == 0 {
                continue;
            }
            let refused = |error: ArrowError| Error::schema(error.to_string());
            let kept = filter_record_batch(&batch, &BooleanArray::new(rows, None)).map_err(refused)?;
            let columns = kept.columns()[..self.wanted.arrow().fields().len()].to_vec();
            let options = RecordBatchOptions::new().with_row_count(Some(kept.num_rows()));
            let kept = RecordBatch::try_new_with_options(self.wanted.arrow().clone(), columns, &options);
            return kept.map(Some).map_err(refused);
        }
        Ok(None)
    }

    /// As [`next`](Self::next), of all rows, and with the columns that are compared.
    fn next_unfiltered(&mut self, wanted: usize, deletions: &Deletions) -> Result<Option<RecordBatch>> {
        if self.is_over {
            return Ok(None);
        }
        let projection = self.projection.clone();
        let builder = BatchBuilder::new(&projection, self.expected().min(wanted), &self.view.memory);
        let mut output = Output::new(builder, wanted);
        let mut ahead = std::mem::take(&mut self.ahead);
        self.fill(&mut ahead, &mut output, deletions)?;
        let Output { builder, last, .. } = output;
        // Without a row nothing is left: only deleted rows follow.
        let Some(last) = last.filter(|_| builder.len() > 0) else {
            return Ok(None);
        };
        self.is_over = !builder.is_full(wanted);
        let batch = builder.finish().map_err(|error| {
            let place = format!("a row of table {:?}", self.table.name);
            Error::corrupt(self.view.pages.path(), place, error.to_string())
        })?;
        self.ahead = ahead;
        self.pass(last)?;
        Ok(Some(batch))
    }

    /// Goes on after a row that was given. Fails if that leads back: a block whose rows are out of
    /// order would be read for ever.
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
        let heads = (&self.view.heads[..], &*self.table.schema);
        let mut heads = HeadRows::new(heads, bounds, self.visible, self.reverse);
        let read = (self.visible, deletions);
        let table = (&self.table, &self.sparse);
        let scan = BlockScan::new(&self.view, table, read, ticks, self.reverse, ahead);
        scan?.fill(&mut heads, output)
    }
}
