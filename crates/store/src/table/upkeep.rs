//! Verifying, copying and dropping a table of either layout.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bedload_pages::{PageId, PageRead};
use bedload_trees::bplus_tree::tree_of as named_tree;

use super::indexed;
use super::sparse::{self, BlockFiles, SparseEntry, SparseFlush};
use super::stored::{Body, Storage, StoredTable};
use super::view::View;
use crate::error::{Error, Result};
use crate::rows::{Head, Verified};

/// Pages that differ in a copy of a store.
#[derive(Default)]
pub(crate) struct PageChanges<'t>(HashMap<PageId, &'t SparseEntry>);

impl PageChanges<'_> {
    /// Makes of a page that of the copy.
    pub(crate) fn apply(&self, page: PageId, payload: &mut [u8]) {
        if let Some(sparse) = self.0.get(&page) {
            sparse::change_map(sparse, payload);
        }
    }
}

impl StoredTable {
    /// Reads and checks all that the table has. `data` is the data file, for messages; its
    /// `damaged` pages are reported already.
    ///
    /// # Errors
    ///
    /// The table cannot be walked; the disk failed.
    pub(crate) fn verify(&self, view: &View, data: &Path, damaged: &HashSet<PageId>) -> Result<Verified> {
        let table = &self.entry;
        if let Body::Sparse(sparse) = &self.body {
            return sparse::verify(&view.sparse(table.id), table, sparse, data);
        }
        let problem = |page: PageId, reason| {
            Error::corrupt(data, format!("page {page} (table {:?})", table.name), reason)
        };
        let found = match indexed::verify(&*view.pages, table) {
            Err(Error::Index(bedload_pages::Error::Corrupt { page, reason })) => {
                return Err(problem(page, reason.to_owned()));
            }
            found => found?,
        };
        let problems = found.report.problems.into_iter();
        let mut problems: Vec<Error> = problems
            .filter(|found| !damaged.contains(&found.page))
            .map(|found| problem(found.page, found.what))
            .collect();
        if let Some(rows) = found.rows.filter(|&rows| rows != table.rows) {
            let reason = format!("its tree has {rows} rows, the catalogue says {}", table.rows);
            problems.push(Error::corrupt(data, format!("table {:?}", table.name), reason));
        }
        Ok(Verified {
            rows: found.rows.unwrap_or(found.report.entries),
            blocks: 0,
            pages: found.report.pages.into_iter().collect(),
            problems,
        })
    }

    /// Copies the table's own files, as of a view, into those of another store; adds the pages that
    /// differ there.
    pub(crate) fn copy_files<'t>(
        &'t self,
        view: &View,
        files: &BlockFiles,
        changes: &mut PageChanges<'t>,
    ) -> Result<()> {
        if let Body::Sparse(sparse) = &self.body {
            sparse::copy_blocks(&view.sparse(self.entry.id), &self.entry, sparse, files)?;
            changes
                .0
                .extend(sparse.files()?.values().map(|&page| (page, sparse)));
        }
        Ok(())
    }

    /// Copies the blocks that commits have written since the checkpoint of a view into the files of
    /// another store; returns what `head` is there.
    pub(crate) fn copy_head(&self, view: &View, head: &Arc<Head>, files: &BlockFiles) -> Result<Arc<Head>> {
        match &self.body {
            Body::Indexed { .. } => Ok(head.clone()),
            Body::Sparse(sparse) => {
                let view = view.sparse(self.entry.id);
                sparse::copy_written_blocks(&view, (&self.entry, sparse), head, files).map(Arc::new)
            }
        }
    }

    /// All pages of the table's tree.
    pub(crate) fn tree_pages(&self, pages: &impl PageRead) -> Result<Vec<PageId>> {
        match &self.body {
            Body::Indexed { .. } => indexed::pages_of(pages, &self.entry),
            Body::Sparse(_) => sparse::pages_of(pages, &self.entry),
        }
    }

    /// The pages of the table that are not in its tree.
    pub(crate) fn other_pages(&self) -> Result<Vec<PageId>> {
        match &self.body {
            Body::Indexed { .. } => Ok(Vec::new()),
            Body::Sparse(sparse) => Ok(sparse.files()?.values().copied().collect()),
        }
    }

    /// Whether a page says that it is of the table's tree.
    pub(crate) fn is_named_by(&self, id: PageId, page: &[u8]) -> bool {
        named_tree(page) == Some(self.entry.root) || indexed::owner_of(id, page) == Some(self.entry.id.0)
    }

    /// Gives up the files of a table that is dropped, and the pages that are not in its tree.
    pub(crate) fn drop_files(&self, storage: Storage<'_>, view: &View) {
        if let Body::Sparse(sparse) = &self.body {
            let flush = SparseFlush {
                pages: storage.pages,
                files: storage.blocks,
            };
            let heads = view.heads(self.entry.id);
            let written = heads.flat_map(|head| head.blocks(u64::MAX).into_keys());
            sparse::drop_files(&flush, &self.entry, sparse, written);
        }
    }
}
