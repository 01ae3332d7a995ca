//! A table of either layout: how it is made, what may be appended to it, and how it is flushed.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use bedload_pages::PageRead;

use super::indexed::{self, FlushedRows};
use super::layout::Layout;
use super::sparse::{self, BlockFiles, Grid, Placed, Snap, SparseEntry, SparseFlush, SparseRecord, Target};
use crate::error::Result;
use crate::pages::WorkingPages;
use crate::rows::{
    ArrivalMeasure, BatchRows, BlockRef, EncodedRows, Head, OrderRecord, Packing, SortedBatch, SortedRows,
    TableEntry, TableId, TableSchema,
};

/// Parts of a long batch for a sparse table, at most: a block may be written once for each of them,
/// and each time it takes another place.
const SPARSE_PARTS_MAX: usize = 64;

/// Where the rows of tables stand: the pages that the next checkpoint will have, and the files of
/// sparse tables.
#[derive(Clone, Copy)]
pub(crate) struct Storage<'s> {
    pub(crate) pages: &'s WorkingPages,
    pub(crate) blocks: &'s BlockFiles,
}

/// A table, as of one checkpoint.
#[derive(Clone)]
pub(crate) struct StoredTable {
    pub(crate) entry: TableEntry,
    pub(super) body: Body,
}

/// How a table keeps its rows, and what is known of it for that.
#[derive(Debug, Clone)]
pub(super) enum Body {
    Indexed {
        /// In which order the rows in the tree arrived.
        order: Box<ArrivalMeasure>,
        /// Not recorded: each opening begins with attempts.
        packing: Arc<Packing>,
    },
    Sparse(SparseEntry),
}

impl Body {
    /// The body of a table with a tree, whose rows arrived in this order.
    pub(super) fn indexed(order: Box<ArrivalMeasure>) -> Self {
        let packing = Arc::default();
        Self::Indexed { order, packing }
    }
}

impl fmt::Debug for StoredTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("StoredTable");
        shown.field("name", &self.entry.name);
        shown.field("layout", &self.layout()).finish_non_exhaustive()
    }
}

impl StoredTable {
    /// Creates a table without rows, which the checkpoint `since` will be the first to have; of the
    /// sparse layout if there is a grid.
    pub(crate) fn create(
        pages: &WorkingPages,
        (id, name): (TableId, &str),
        schema: &Arc<TableSchema>,
        grid: Option<Grid>,
        since: u64,
    ) -> Result<Self> {
        let (root, body) = match grid {
            Some(grid) => {
                let sparse = SparseEntry::new(grid, schema, pages.payload_len())?;
                (sparse::create_files(pages)?, Body::Sparse(sparse))
            }
            None => {
                let body = Body::indexed(Box::default());
                (indexed::create(pages, id, schema)?, body)
            }
        };
        let entry = TableEntry {
            id,
            name: name.into(),
            schema: schema.clone(),
            since,
            root,
            rows: 0,
            end_sequence: 0,
            retention: None,
            pauses: Arc::default(),
        };
        Ok(Self { entry, body })
    }

    /// Fails if a table of this schema [cannot be created](Self::create).
    pub(crate) fn check(pages: &WorkingPages, schema: &TableSchema, grid: Option<Grid>) -> Result<()> {
        match grid {
            Some(grid) => SparseEntry::new(grid, schema, pages.payload_len()).map(drop),
            None => indexed::check(schema),
        }
    }

    /// How the table's rows are kept.
    pub(crate) fn layout(&self) -> Layout {
        match &self.body {
            Body::Indexed { .. } => Layout::Indexed,
            Body::Sparse(sparse) => Layout::Sparse(sparse.grid),
        }
    }

    /// In which order the rows in pages arrived; not known of a sparse table, to which it does not
    /// matter.
    pub(crate) fn order(&self) -> Option<&ArrivalMeasure> {
        match &self.body {
            Body::Indexed { order, .. } => Some(order),
            Body::Sparse(_) => None,
        }
    }

    /// Bytes the columns of a row may have.
    pub(crate) fn row_limit(&self) -> usize {
        match &self.body {
            Body::Indexed { .. } => indexed::row_limit(),
            Body::Sparse(sparse) => sparse.shape.row_limit(),
        }
    }

    /// The fewest rows that are flushed at a time, of a long batch of `rows`.
    pub(crate) fn part_rows_min(&self, rows: usize) -> usize {
        match &self.body {
            Body::Indexed { .. } => 1,
            Body::Sparse(_) => rows.div_ceil(SPARSE_PARTS_MAX),
        }
    }

    /// The times of a batch as they are to stand on the table's grid; none if it has no grid.
    ///
    /// # Errors
    ///
    /// A time is not on the grid, and is not to be moved to it.
    pub(crate) fn place(&self, batch: &RecordBatch, snap: Snap) -> Result<Option<Placed>> {
        match &self.body {
            Body::Indexed { .. } => Ok(None),
            Body::Sparse(sparse) => Placed::new(&self.entry.schema, sparse.grid, batch, snap).map(Some),
        }
    }

    /// Whether batches of many rows are worth packing for the log; `None` if they never are.
    pub(crate) fn packing(&self) -> Option<&Packing> {
        match &self.body {
            Body::Indexed { packing, .. } => Some(packing),
            Body::Sparse(_) => None,
        }
    }

    /// Where the blocks that a batch fills are written at once; none if the table has no blocks.
    /// `is_synced` tells whether commits wait for the disk.
    pub(crate) fn target<'t>(
        &'t self,
        blocks: &'t BlockFiles,
        head_bytes: usize,
        is_synced: bool,
    ) -> Option<Target<'t>> {
        match &self.body {
            Body::Indexed { .. } => None,
            Body::Sparse(sparse) => Some(Target {
                files: blocks,
                table: &self.entry,
                sparse,
                head_bytes,
                is_synced,
            }),
        }
    }

    /// The rows of a log record, numbered from `first`.
    ///
    /// # Errors
    ///
    /// The reason why they are no rows of this table.
    pub(crate) fn rows_of(&self, rows: &BatchRows, first: u64) -> Result<SortedRows, &'static str> {
        self.check_grid(rows.decode(&self.entry.schema)?.numbered(first))
    }

    /// As [`rows_of`](Self::rows_of), of the rows of a record that are in none of its blocks.
    pub(crate) fn rest_of(&self, rest: &EncodedRows, first: u64) -> Result<SortedRows, &'static str> {
        let schema = &self.entry.schema;
        let sorted = SortedBatch::new(schema, rest.decode(schema)?).map_err(|_| "its text is too long")?;
        self.check_grid(sorted.numbered(first))
    }

    fn check_grid(&self, rows: SortedRows) -> Result<SortedRows, &'static str> {
        match &self.body {
            Body::Sparse(sparse) if !rows.arrivals().iter().all(|&time| sparse.grid.tick(time).1) => {
                Err("its rows do not stand on the grid of their table")
            }
            _ => Ok(rows),
        }
    }

    /// Rows of a log record that were held back.
    ///
    /// # Errors
    ///
    /// The reason why they are no rows of this table.
    pub(crate) fn held_rows(
        &self,
        rows: &EncodedRows,
        sequences: Vec<u64>,
    ) -> Result<SortedRows, &'static str> {
        let schema = &self.entry.schema;
        let held = match &self.body {
            Body::Indexed { .. } => SortedRows::held(schema, rows.decode(schema)?, sequences),
            Body::Sparse(_) => None,
        };
        held.ok_or("the rows that were held back are not in order")
    }

    /// Fails if single rows of the table cannot be replaced.
    ///
    /// # Errors
    ///
    /// The reason.
    pub(crate) fn check_replaces(&self) -> Result<(), &'static str> {
        match &self.body {
            Body::Indexed { .. } => Ok(()),
            Body::Sparse(_) => Err("it replaces single rows of a sparse table"),
        }
    }

    /// Fails unless the table can have these blocks, which the log names.
    ///
    /// # Errors
    ///
    /// The reason why the table cannot have them.
    pub(crate) fn check_blocks(&self, blocks: &[(i64, BlockRef)]) -> Result<(), &'static str> {
        match &self.body {
            Body::Indexed { .. } => Err("it names blocks of a table that has none"),
            Body::Sparse(sparse) if !blocks.iter().all(|(_, block)| sparse.shape.admits(block)) => {
                Err("it names blocks that its table cannot have")
            }
            Body::Sparse(_) => Ok(()),
        }
    }

    /// Whether blocks that the log names are whole; if they are, they are written once more, to be
    /// synced with what the flush under way writes.
    pub(crate) fn renew_blocks(&self, files: &BlockFiles, blocks: &[(i64, BlockRef)]) -> Result<bool> {
        match &self.body {
            Body::Indexed { .. } => Ok(true),
            Body::Sparse(sparse) => files.renew((&self.entry, sparse), blocks),
        }
    }

    /// Whether blocks that the log names are whole.
    pub(crate) fn has_whole_blocks(&self, files: &BlockFiles, blocks: &[(i64, BlockRef)]) -> Result<bool> {
        match &self.body {
            Body::Indexed { .. } => Ok(true),
            Body::Sparse(sparse) => files.are_whole((&self.entry, sparse), blocks),
        }
    }

    /// Applies the rows and deletions of a sealed head, and lets rows expire if `are_settled` says
    /// that no later head takes rows back; the table is then what it is afterwards. Tells where the
    /// rows went of a table that has a tree of them.
    pub(crate) fn flush(
        &mut self,
        storage: Storage<'_>,
        head: &Head,
        are_settled: &dyn Fn() -> bool,
    ) -> Result<FlushedRows> {
        match &mut self.body {
            Body::Indexed { order, .. } => {
                indexed::flush(storage.pages, &mut self.entry, order, head, are_settled)
            }
            Body::Sparse(sparse) => {
                let flush = SparseFlush {
                    pages: storage.pages,
                    files: storage.blocks,
                };
                *sparse = flush.flush(&mut self.entry, sparse, head, are_settled)?;
                Ok(FlushedRows::default())
            }
        }
    }

    /// Returns what the catalogue records beside the entry: the order of arrival, or what a sparse
    /// table has.
    pub(super) fn record(&self) -> (Option<OrderRecord>, Option<SparseRecord>) {
        match &self.body {
            Body::Indexed { order, .. } => (Some(order.record()), None),
            Body::Sparse(sparse) => (None, Some(sparse.record())),
        }
    }

    /// Whether it is a table whose files are to be read by [`load_files`](Self::load_files).
    pub(super) fn has_files(&self) -> bool {
        matches!(self.body, Body::Sparse(_))
    }

    /// Reads which files a sparse table has. `file` is the data file, for messages.
    pub(super) fn load_files(&mut self, pages: &impl PageRead, file: &Path) -> Result<()> {
        match &mut self.body {
            Body::Indexed { .. } => Ok(()),
            Body::Sparse(sparse) => sparse.load_files(pages, self.entry.root, file),
        }
    }

    /// Whether the table has a file of this number.
    pub(super) fn has_file(&self, file: i64) -> bool {
        match &self.body {
            Body::Indexed { .. } => false,
            // No space of a damaged table is given back.
            Body::Sparse(sparse) => sparse.files().map_or(true, |files| files.contains_key(&file)),
        }
    }
}
