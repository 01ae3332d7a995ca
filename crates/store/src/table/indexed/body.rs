//! The tree of a table.

use bedload_columns::{ColumnRuns, MAX_COLUMNS};
use bedload_pages::{PageId, PageRead, PageStore};
use bedload_trees::be_tree::{BeTree, BeTreeOptions, PageVisitor};
use bedload_trees::{I64Order, RowLayout};

use crate::error::{Error, Result};
use crate::rows::TableEntry;
use crate::rows::{TableId, TableSchema};

/// The most columns of a table: a leaf has one more, of sequence numbers.
const COLUMNS_MAX: usize = MAX_COLUMNS - 1;

/// The tree of a table on some pages.
pub(super) type Body<S> = BeTree<I64Order, ColumnRuns, S>;

/// Under test trees of few rows have the shape of large ones.
pub(super) const IS_SMALL: bool = cfg!(any(test, fuzzing));

/// The most rows of a run of a leaf.
pub(super) const LEAF_ENTRIES: usize = if IS_SMALL { 256 } else { 1 << 18 };

/// The most rows of a run of late rows: usually all late rows of a flush, so that they become one
/// run at the root, where readers meet each run.
pub(super) const LATE_ENTRIES: usize = 4 * LEAF_ENTRIES;

/// The most bytes of a row.
const ROW_BYTES_MAX: usize = 1 << 20;

/// How the runs of a table are made.
pub(super) fn kind_of(id: TableId, schema: &TableSchema) -> ColumnRuns {
    let kind = ColumnRuns::new(id.0, schema.places().len(), schema.time_column());
    if IS_SMALL {
        kind.leaf_rows(64).run_leaves(16)
    } else {
        kind
    }
}

/// How a tree batches and merges. A push to a leaf brings about as many rows as the leaf has, so
/// that each row is written about twice there. A push takes up to three and a half times the rows
/// of a leaf, so this bounds how long a flush works at a time. Nodes have different limits of
/// pending rows, so that writers of scrambled rows keep an even pace.
pub(super) fn options() -> BeTreeOptions {
    let leaf = LEAF_ENTRIES as u64;
    BeTreeOptions::new()
        .leaf_entries(leaf)
        .pending_entries(16 * leaf)
        .shares_of_few(2)
        .jitter(25)
        .stage_entries(leaf / 2)
}

/// The tree of a table, as some pages have it.
pub(super) fn open<S: PageRead>(pages: S, table: &TableEntry) -> Result<Body<S>> {
    let kind = kind_of(table.id, &table.schema);
    Ok(BeTree::open(pages, table.root, I64Order, kind, options())?)
}

/// Fails if a table of this schema cannot be created.
pub(crate) fn check(schema: &TableSchema) -> Result<()> {
    let columns = schema.arrow().fields().len();
    if columns > COLUMNS_MAX {
        return Err(Error::schema(format!(
            "{columns} columns, and a table has at most {COLUMNS_MAX}"
        )));
    }
    let bytes = schema.layout().fixed_len();
    if bytes > ROW_BYTES_MAX {
        return Err(Error::schema(format!(
            "the columns of fixed length take {bytes} bytes a row, and a row has at most {ROW_BYTES_MAX}"
        )));
    }
    Ok(())
}

/// Creates the tree of a table that has no rows; returns the page that names it.
pub(crate) fn create(pages: &impl PageStore, id: TableId, schema: &TableSchema) -> Result<PageId> {
    Ok(BeTree::create(pages, I64Order, kind_of(id, schema), options())?.meta())
}

/// All pages of a table's tree. Leaves are not read.
pub(crate) fn pages_of(pages: &impl PageRead, table: &TableEntry) -> Result<Vec<PageId>> {
    let mut visited = Visited(Vec::new());
    open(pages, table)?.visit_pages(&mut visited)?;
    Ok(visited.0)
}

/// The pages that a tree was seen to have.
struct Visited(Vec<PageId>);

impl PageVisitor for Visited {
    fn node(&mut self, page: PageId) {
        self.0.push(page);
    }

    fn page(&mut self, page: PageId) {
        self.0.push(page);
    }
}

/// Bytes that the columns of a row may have.
pub(crate) fn row_limit() -> usize {
    ROW_BYTES_MAX
}
