//! Reading a table of either layout.

use std::ops::Bound;
use std::sync::Arc;

use arrow_array::RecordBatch;
use bedload_pages::PageRead;

use super::indexed::{self, IndexedScan};
use super::sparse::{self, Density, Latest, SparseScan};
use super::stored::{Body, StoredTable};
use super::view::View;
use crate::error::Result;
use crate::pages::PageVersion;
use crate::rows::{Deletions, Filter, Place, Projection, TableId, TableSchema};

/// A row that was found by its time.
#[derive(Debug, Clone)]
pub(crate) enum FoundRow {
    Indexed(indexed::FoundRow),
    Sparse(Arc<TableSchema>, sparse::FoundRow),
}

/// The rows of a table between two places, batch by batch.
#[derive(Debug)]
pub(crate) enum TableRows {
    Indexed(IndexedScan),
    Sparse(SparseScan),
}

/// Rows between two places.
type Bounds = (Bound<Place>, Bound<Place>);

impl StoredTable {
    /// The row of a time that arrived last.
    pub(crate) fn find(&self, view: &View, visible: u64, time: i64) -> Result<Option<FoundRow>> {
        let table = &self.entry;
        match &self.body {
            Body::Indexed { .. } => {
                let heads: Vec<_> = view.heads(table.id).collect();
                let found = indexed::find(&view.pages, &heads, table, visible, time)?;
                Ok(found.map(FoundRow::Indexed))
            }
            Body::Sparse(sparse) => {
                let found = sparse::find(&view.sparse(table.id), table, sparse, visible, time)?;
                Ok(found.map(|found| FoundRow::Sparse(table.schema.clone(), found)))
            }
        }
    }

    /// The rows between two places that match a filter.
    pub(crate) fn rows(
        &self,
        (view, visible): (&View, u64),
        columns: (&Projection, &Filter),
        bounds: Bounds,
        reverse: bool,
    ) -> Result<TableRows> {
        let table = &self.entry;
        Ok(match &self.body {
            Body::Indexed { .. } => {
                let heads = (view.heads(table.id), visible);
                let rows = IndexedScan::new(&view.pages, table, columns, heads, bounds, reverse)?;
                TableRows::Indexed(rows)
            }
            Body::Sparse(sparse) => {
                let of_table = (table, sparse);
                let rows =
                    SparseScan::new(view.sparse(table.id), of_table, columns, visible, bounds, reverse)?;
                TableRows::Sparse(rows)
            }
        })
    }

    /// All rows that pages have of a table of the indexed layout.
    pub(crate) fn rows_of_pages(
        &self,
        pages: &Arc<PageVersion>,
        projection: &Projection,
    ) -> Result<Option<TableRows>> {
        let Body::Indexed { .. } = &self.body else {
            return Ok(None);
        };
        let (columns, heads) = ((projection, &Filter::default()), (std::iter::empty(), 0));
        let bounds = (Bound::Unbounded, Bound::Unbounded);
        let rows = IndexedScan::new(pages, &self.entry, columns, heads, bounds, false)?;
        Ok(Some(TableRows::Indexed(rows)))
    }

    /// How many rows pages have between two places, if that can be told without reading them.
    pub(crate) fn count(&self, pages: &impl PageRead, bounds: Bounds) -> Result<Option<u64>> {
        match &self.body {
            Body::Indexed { .. } => indexed::count(pages, &self.entry, bounds).map(Some),
            Body::Sparse(_) => Ok(None),
        }
    }

    /// The newest state of the blocks of a table.
    pub(crate) fn latest(view: &View, id: TableId) -> Latest {
        let table = view.catalogue.get(id);
        Latest {
            view: view.sparse(id),
            is_behind: !view.being_written().is_empty(),
            sparse: table.and_then(|table| match &table.body {
                Body::Indexed { .. } => None,
                Body::Sparse(sparse) => Some(sparse.clone()),
            }),
        }
    }

    /// How densely a sparse table is filled.
    pub(crate) fn density(&self, view: &View) -> Result<Option<Density>> {
        match &self.body {
            Body::Indexed { .. } => Ok(None),
            Body::Sparse(sparse) => {
                let of_table = view.sparse(self.entry.id);
                Density::of_table(&of_table, &self.entry, sparse).map(Some)
            }
        }
    }
}

impl TableRows {
    /// The next rows, up to so many; `None` after the last.
    pub(crate) fn next(&mut self, most: usize, deletions: &Deletions) -> Result<Option<RecordBatch>> {
        match self {
            Self::Indexed(rows) => rows.next(most, deletions),
            Self::Sparse(rows) => rows.next(most, deletions),
        }
    }
}
