//! Salvage: what is left of a table of either layout in a damaged store.

use arrow_array::RecordBatch;
use bedload_pages::PageId;

use super::indexed::{self, LeafRemains};
use super::sparse::{self, BlockFiles, BlockRemains};
use super::stored::{Body, StoredTable};
use crate::error::{Error, Result};
use crate::pages::{FoundPage, Remains, WorkingPages};
use crate::rows::{ArrivalMeasure, BlockRef, SalvagedTable, SortedBatch, SortedRows, TableEntry};

/// The remains of a table.
pub(crate) enum TableRemains {
    Leaves(Box<(LeafRemains, Box<ArrivalMeasure>)>),
    Blocks(Box<BlockRemains>),
}

/// The table that a page says it belongs to; `None` if it says none.
pub(crate) fn owner_of(id: PageId, page: &[u8]) -> Option<u32> {
    indexed::owner_of(id, page).or_else(|| sparse::owner_of(page))
}

impl TableRemains {
    /// Nothing was found yet. `is_current` tells whether the catalogue is that of the last
    /// checkpoint.
    pub(crate) fn new(table: &StoredTable, is_current: bool) -> Self {
        match &table.body {
            Body::Indexed { order, .. } => {
                let leaves = LeafRemains::new(&table.entry, is_current);
                Self::Leaves(Box::new((leaves, order.clone())))
            }
            Body::Sparse(sparse) => {
                Self::Blocks(Box::new(BlockRemains::new(&table.entry, sparse, is_current)))
            }
        }
    }

    /// Takes note of a page that says it is of this table.
    pub(crate) fn visit(&mut self, found: &FoundPage) {
        match self {
            Self::Leaves(leaves) => leaves.0.visit(found),
            Self::Blocks(blocks) => blocks.visit(found),
        }
    }

    /// The table in a new store, with the rows of the leaves that are whole.
    ///
    /// # Errors
    ///
    /// The new store failed.
    pub(crate) fn begin(
        &mut self,
        pages: &Remains,
        working: &WorkingPages,
        problems: &mut Vec<Error>,
    ) -> Result<StoredTable> {
        let (root, end_sequence, body) = match self {
            Self::Leaves(leaves) => {
                let (leaves, order) = &mut **leaves;
                let root = leaves.copy(pages, working, problems)?;
                let order = order.clone();
                (root, leaves.end_sequence, Body::indexed(order))
            }
            Self::Blocks(blocks) => {
                let root = sparse::create_files(working)?;
                (root, 0, Body::Sparse(blocks.sparse.without_files()))
            }
        };
        let known = self.entry();
        let entry = TableEntry {
            since: 1,
            root,
            rows: 0,
            end_sequence: known.end_sequence.max(end_sequence),
            ..known.clone()
        };
        Ok(StoredTable { entry, body })
    }

    /// Gives the rows of every block that is whole to `put`.
    ///
    /// # Errors
    ///
    /// Those of `put`.
    pub(crate) fn copy_blocks(
        &mut self,
        files: &BlockFiles,
        problems: &mut Vec<Error>,
        mut put: impl FnMut(SortedRows) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Leaves(_) => Ok(()),
            Self::Blocks(blocks) => {
                let schema = blocks.entry.schema.clone();
                blocks.copy(files, problems, |batch| {
                    put(SortedBatch::new(&schema, batch.columns().to_vec())?.numbered(0))
                })
            }
        }
    }

    /// Checks every block that the last checkpoint has.
    pub(crate) fn check_blocks(&self, files: &BlockFiles, problems: &mut Vec<Error>) {
        if let Self::Blocks(blocks) = self {
            blocks.check(files, problems);
        }
    }

    /// The table as the damaged store has it.
    fn entry(&self) -> &TableEntry {
        match self {
            Self::Leaves(leaves) => &leaves.0.entry,
            Self::Blocks(blocks) => &blocks.entry,
        }
    }

    /// Reports what was saved of the table, which has `rows` rows now.
    pub(crate) fn report(&self, rows: u64) -> SalvagedTable {
        match self {
            Self::Leaves(leaves) => leaves.0.report(rows),
            Self::Blocks(blocks) => blocks.report(rows),
        }
    }
}

impl StoredTable {
    /// Rows of the log without those that were copied from leaves. A sparse table takes a row twice
    /// as it takes it once.
    pub(crate) fn without_copied(&self, pages: &WorkingPages, rows: SortedRows) -> Result<SortedRows> {
        match &self.body {
            Body::Indexed { .. } => indexed::without_copied(pages, &self.entry, rows),
            Body::Sparse(_) => Ok(rows),
        }
    }

    /// The rows of a block that the log names; none if the table has no blocks.
    pub(crate) fn block_rows(
        &self,
        files: &BlockFiles,
        block: i64,
        named: &BlockRef,
    ) -> Result<Option<RecordBatch>> {
        match &self.body {
            Body::Indexed { .. } => Ok(None),
            Body::Sparse(sparse) => files.rows_of(&self.entry, sparse, block, named).map(Some),
        }
    }
}
