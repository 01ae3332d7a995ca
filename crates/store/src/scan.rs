//! Scans: the rows of a table between two times, from pages and heads, as record batches.
//!
//! Each batch is made by itself: the tree's cursor descends to the first row behind the last one given, and the
//! heads are asked for theirs. So a scan holds nothing between two batches but its snapshot, a position, and blocks of a
//! sparse table that were read together with those before.

mod head_rows;
mod tree_rows;

use std::any::Any;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bedload_trees::I64Order;
use bedload_trees::bplus_tree::BPlusTree;

use crate::engine::{TableEntry, View, tree_config};
use crate::error::{Error, Result};
use crate::rows::{BatchBuilder, Deletions, Head, Place, Projection, RowSource, Stretch};
use crate::sparse::{BlockScan, BlocksAhead, SparseEntry};

pub(crate) use head_rows::HeadRows;
use tree_rows::TreeRows;

/// The most rows of a batch.
const BATCH_ROWS: usize = 8192;
/// As many rows a batch may have, however wide they are.
const WIDE_BATCH_ROWS: usize = 512;
/// Bytes of values from which on rows are wide: into memory that stays in the second cache of a processor, columns were copied half as
/// fast again (rows of 264 bytes, a cache of 2 MiB, 2,048 rows and 8,192).
const BATCH_BYTES: usize = 512 << 10;

/// Rows of a table within a time range, ascending by time; rows of one time in the order of their arrival. An
/// iterator of record batches of at most 8,192 rows, of fewer if rows are wide: a batch has about 512 KiB of values.
///
/// A scan reads one consistent state: that of the moment it was made, or of its snapshot.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{Float64Array, RecordBatch, TimestampSecondArray};
/// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
/// # let dir = tempfile::tempdir()?;
/// # let store = bedload::Store::create(dir.path().join("s"))?;
/// # let arrow = Arc::new(Schema::new(vec![
/// #     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
/// #     Field::new("x", DataType::Float64, true),
/// # ]));
/// # let table = store.create_table("t", bedload::TableSchema::new(arrow.clone(), "at")?)?;
/// # table.append(&RecordBatch::try_new(arrow, vec![
/// #     Arc::new(TimestampSecondArray::from(vec![1, 3, 2])),
/// #     Arc::new(Float64Array::from(vec![0.1, 0.3, 0.2])),
/// # ])?)?;
/// // The last two readings before time 4, the latest first.
/// for batch in table.range(..4)?.columns(&["x"])?.rev().limit(2) {
///     println!("{:?}", batch?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a scan reads nothing until it is iterated"]
pub struct Scan {
    view: Arc<View>,
    table: Arc<TableEntry>,
    projection: Projection,
    /// The heads of the table that have something visible.
    heads: Vec<Arc<Head>>,
    /// None if nothing was deleted since the last flush.
    deletions: Option<Arc<Deletions>>,
    /// Rows from this sequence number on are not visible.
    visible: u64,
    from: Bound<Place>,
    to: Bound<Place>,
    reverse: bool,
    /// Rows still to be given.
    remaining: u64,
    /// Blocks of a sparse table that were read ahead.
    ahead: BlocksAhead,
    /// Keeps the store open, and so its pages where they are.
    store: Option<Arc<dyn Any + Send + Sync>>,
}

impl Scan {
    pub(crate) fn new(
        view: Arc<View>,
        visible: u64,
        table: Arc<TableEntry>,
        times: impl RangeBounds<i64>,
    ) -> Self {
        let from = match times.start_bound() {
            Bound::Included(&time) => Bound::Included((time, 0)),
            Bound::Excluded(&time) => Bound::Excluded((time, u64::MAX)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let to = match times.end_bound() {
            Bound::Included(&time) => Bound::Included((time, u64::MAX)),
            Bound::Excluded(&time) => Bound::Excluded((time, 0)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let heads = view
            .generations()
            .iter()
            .filter_map(|generation| generation.head(table.id));
        let heads: Vec<Arc<Head>> = heads.collect();
        let mut deletions = heads.iter().filter_map(|head| head.merged_deletions(visible));
        let deletions = match (deletions.next(), deletions.next()) {
            (None, _) => None,
            (Some(all), None) => Some(all),
            (Some(first), Some(second)) => {
                let sets: Vec<_> = [first, second].into_iter().chain(deletions).collect();
                Some(Arc::new(Deletions::merge(sets.iter().map(|set| &**set))))
            }
        };
        let projection = Projection::all(table.schema.clone());
        Self {
            view,
            table,
            projection,
            heads,
            deletions,
            visible,
            from,
            to,
            reverse: false,
            remaining: u64::MAX,
            ahead: BlocksAhead::default(),
            store: None,
        }
    }

    /// Keeps the store open as long as the scan.
    pub(crate) fn holding(mut self, store: Arc<dyn Any + Send + Sync>) -> Self {
        self.store = Some(store);
        self
    }

    /// Only these columns, in this order.
    ///
    /// # Errors
    ///
    /// The table has no such column.
    pub fn columns(mut self, names: &[&str]) -> Result<Self> {
        let schema = self.table.schema.clone();
        let known = schema.names();
        let position = |name: &&str| {
            let found = known.iter().position(|known| known == name);
            found.ok_or_else(|| Error::NoSuchColumn {
                name: (*name).into(),
                columns: known.clone(),
            })
        };
        let columns = names.iter().map(position).collect::<Result<_>>()?;
        self.projection = Projection::new(schema, columns, self.projection.with_sequence());
        Ok(self)
    }

    /// Adds a last column `_sequence` of type `UInt64`: the numbers that rows were given in the order of arrival.
    pub fn with_sequence(mut self) -> Self {
        let columns = self.projection.columns().collect();
        self.projection = Projection::new(self.table.schema.clone(), columns, true);
        self
    }

    /// Descending: the latest row first.
    pub fn rev(mut self) -> Self {
        self.reverse = !self.reverse;
        self
    }

    /// At most so many rows.
    pub fn limit(mut self, rows: u64) -> Self {
        self.remaining = rows;
        self
    }

    /// The schema of the batches.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.projection.arrow()
    }

    /// Counts the rows; nothing is copied.
    ///
    /// # Errors
    ///
    /// A page could not be read or is damaged.
    pub fn count(mut self) -> Result<u64> {
        self.projection = Projection::new(self.table.schema.clone(), Vec::new(), false);
        self.try_fold(0, |count, batch| Ok(count + batch?.num_rows() as u64))
    }

    /// Goes on behind a row that was given. Fails if that leads back: a leaf whose rows are out of order would be read
    /// for ever.
    fn pass(&mut self, place: Place) -> Result<()> {
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
        let table = format!("a leaf of table {:?}", self.table.name);
        let reason = format!("its row of time {} is out of order", place.0);
        Err(Error::corrupt(self.view.pages.path(), table, reason))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let wanted = usize::try_from(self.remaining)
            .unwrap_or(usize::MAX)
            .min(self.batch_rows());
        if self.table.sparse.is_some() && self.projection.with_sequence() {
            return Err(Error::schema("a sparse table keeps no sequence numbers"));
        }
        if wanted == 0 {
            return Ok(None);
        }
        let mut output = Output {
            builder: BatchBuilder::new(&self.projection, self.expected().min(wanted), &self.view.memory),
            wanted,
            last: None,
            stretch: None,
        };
        let mut ahead = std::mem::take(&mut self.ahead);
        self.fill(&mut ahead, &mut output)?;
        let Output { builder, last, .. } = output;
        // Without a row nothing is left: only what was deleted lies behind.
        let Some(mut last) = last.filter(|_| builder.len() > 0) else {
            return Ok(None);
        };
        if self.table.sparse.is_some() {
            // There is one row of each time: nothing of this one is left.
            last.1 = if self.reverse { 0 } else { u64::MAX };
        }
        let is_full = builder.is_full(wanted);
        let rows = builder.len() as u64;
        let batch = builder.finish().map_err(|error| {
            let place = format!("a row of table {:?}", self.table.name);
            Error::corrupt(self.view.pages.path(), place, error.to_string())
        })?;
        self.ahead = ahead;
        self.pass(last)?;
        self.remaining = if is_full { self.remaining - rows } else { 0 };
        Ok(Some(batch))
    }

    fn deletions(&self) -> &Deletions {
        static NONE: Deletions = Deletions::NONE;
        self.deletions.as_deref().unwrap_or(&NONE)
    }

    /// Merges pages and heads into the output until it is full or nothing is left.
    fn fill(&self, ahead: &mut BlocksAhead, output: &mut Output<'_>) -> Result<()> {
        let bounds = (self.from, self.to);
        let mut heads = HeadRows::new(self.heads.clone(), bounds, self.visible, self.reverse);
        if let Some(sparse) = &self.table.sparse {
            return self.fill_from_blocks(sparse, ahead, &mut heads, output);
        }
        let layout = self.table.schema.layout().clone();
        let tree = BPlusTree::open(
            &*self.view.pages,
            self.table.root,
            I64Order,
            layout,
            tree_config(),
        )?;
        let mut tree = TreeRows::new(&tree, (self.from, self.to), self.reverse)?;
        while let Some(leaf) = tree.next_leaf()? {
            let mut at = 0;
            while at < leaf.len() {
                // Rows of the leaf before the next row of a head go out together.
                let end = heads
                    .peek()
                    .map_or(leaf.len(), |place| leaf.end_before(at, place));
                if end > at {
                    at = output.take(&leaf, at..end, self.deletions())?;
                } else if let Some(row) = heads.pop() {
                    output.take(&row, 0..1, self.deletions())?;
                }
                if output.is_full() {
                    return Ok(());
                }
            }
        }
        while !output.is_full()
            && let Some(row) = heads.pop()
        {
            output.take(&row, 0..1, self.deletions())?;
        }
        Ok(())
    }
}

impl Scan {
    /// The most rows of a batch. What text they have is not known.
    fn batch_rows(&self) -> usize {
        let rows = BATCH_BYTES / self.projection.row_bytes().max(1);
        rows.clamp(WIDE_BATCH_ROWS, BATCH_ROWS)
    }

    /// About how many rows are left, as far as times tell: memory for them is taken at once.
    fn expected(&self) -> usize {
        let Some(sparse) = &self.table.sparse else {
            return 0;
        };
        let ticks = self
            .ticks(sparse)
            .map_or(0, |(first, last)| last.abs_diff(first).saturating_add(1));
        usize::try_from(ticks.min(self.table.rows)).unwrap_or(usize::MAX)
    }

    /// The first and the last tick that are left.
    fn ticks(&self, sparse: &SparseEntry) -> Option<(i64, i64)> {
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
        times.and_then(|(first, last)| sparse.grid.ticks(first, last))
    }

    fn fill_from_blocks(
        &self,
        sparse: &SparseEntry,
        ahead: &mut BlocksAhead,
        heads: &mut HeadRows,
        output: &mut Output<'_>,
    ) -> Result<()> {
        let Some(ticks) = self.ticks(sparse) else {
            return Ok(());
        };
        let read = (self.visible, self.deletions());
        let table = (&*self.table, sparse);
        let scan = BlockScan::new(&self.view, &self.heads, table, read, ticks, self.reverse, ahead);
        scan?.fill(heads, output)
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next_batch().transpose();
        if !matches!(batch, Some(Ok(_))) {
            self.remaining = 0;
        }
        batch
    }
}

impl std::iter::FusedIterator for Scan {}

/// A batch in the making.
pub(crate) struct Output<'s> {
    builder: BatchBuilder<'s>,
    wanted: usize,
    /// The place of the last row looked at.
    last: Option<Place>,
    /// What is deleted around it.
    stretch: Option<Stretch>,
}

impl Output<'_> {
    pub(crate) fn is_full(&self) -> bool {
        self.builder.is_full(self.wanted)
    }

    /// Rows that it has room for.
    pub(crate) fn room(&self) -> usize {
        self.wanted.saturating_sub(self.builder.len())
    }

    /// Says how many rows are left, if none has been taken.
    pub(crate) fn expect(&mut self, rows: usize) {
        if self.builder.len() == 0 {
            self.builder.expect(rows.min(self.wanted));
        }
    }

    /// Whether so many rows are best taken at once: they are all there are, and few.
    pub(crate) fn takes_whole(&self, rows: usize) -> bool {
        self.builder.takes_whole(rows)
    }

    /// Asks for the memory of rows that will be taken after others.
    pub(crate) fn approach(&self, source: &impl RowSource, rows: Range<usize>) {
        self.builder.approach(source, rows);
    }

    /// Takes rows of a source, without those that were deleted, until the batch has as many as are wanted; returns
    /// the number of the first row that was not looked at.
    pub(crate) fn take(
        &mut self,
        source: &impl RowSource,
        rows: Range<usize>,
        deletions: &Deletions,
    ) -> Result<usize> {
        let mut at = rows.start;
        while at < rows.end && self.builder.len() < self.wanted {
            let most = rows.end.min(at + (self.wanted - self.builder.len()));
            if deletions.is_empty() {
                self.builder.append(source, at..most)?;
                at = most;
                continue;
            }
            // Times ascend, or descend: those of one stretch stand together.
            let time = source.place(at).0;
            let known = self.stretch.filter(|stretch| stretch.contains(time));
            let stretch = known.unwrap_or_else(|| deletions.stretch(time));
            self.stretch = Some(stretch);
            let (mut end, mut beyond) = (at + 1, most);
            while end < beyond {
                let middle = usize::midpoint(end, beyond);
                if stretch.contains(source.place(middle).0) {
                    end = middle + 1;
                } else {
                    beyond = middle;
                }
            }
            let is_gone = |row: &usize| {
                let (time, sequence) = source.place(*row);
                deletions.covers_in(stretch, time, sequence)
            };
            if !deletions.leaves_all(stretch) {
                let left = (at..end).find(|row| !is_gone(row)).unwrap_or(end);
                end = (left..end).find(is_gone).unwrap_or(end);
                at = left;
            }
            if end > at {
                self.builder.append(source, at..end)?;
                at = end;
            }
        }
        if at > rows.start {
            self.last = Some(source.place(at - 1));
        }
        Ok(at)
    }
}
