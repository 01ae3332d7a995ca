//! A sparse table in the catalogue: its grid, its shape, and which page is the map of which file.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bedload_pages::{PageId, PageRead, PageStore};
use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
use bedload_trees::{Columns, Entry, I64Order, Row, RowLayout};

use super::block::Owner;
use super::grid::Grid;
use super::shape::{self, Dimensions, Shape};
use crate::error::{Error, Result};
use crate::rows::TableEntry;
use crate::rows::{TableId, TableSchema};

/// The state that only a sparse table has, as of one checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct SparseEntry {
    pub(crate) grid: Grid,
    pub(crate) shape: Arc<Shape>,
    files: Files,
    /// Rows that were written over by a later row of the same time.
    pub(crate) replaced: u64,
}

/// The page of the block map of each file that has blocks.
#[derive(Debug, Clone)]
enum Files {
    Known(Arc<BTreeMap<i64, PageId>>),
    /// The damage of the tree that they are read from: file, place and reason.
    Damaged(Arc<(PathBuf, String, String)>),
}

impl Default for Files {
    fn default() -> Self {
        Self::Known(Arc::default())
    }
}

/// As the catalogue records it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct SparseRecord {
    interval: i64,
    offset: i64,
    #[serde(flatten)]
    dimensions: Dimensions,
    replaced: u64,
}

/// The tree of a sparse table has an entry for each file: its number, and the page of its block
/// map.
pub(super) type FileTree<S> = BPlusTree<I64Order, Columns, S>;

/// The columns of that tree.
fn file_columns() -> Columns {
    Columns::new(&[4], 0)
}

impl SparseEntry {
    /// A table without blocks.
    ///
    /// # Errors
    ///
    /// A row may be longer than any block.
    pub(crate) fn new(grid: Grid, schema: &TableSchema, payload_len: usize) -> Result<Self> {
        Ok(Self {
            grid,
            shape: Arc::new(Shape::of_schema(schema, payload_len)?),
            files: Files::default(),
            replaced: 0,
        })
    }

    /// The table as it was before its first row.
    pub(crate) fn without_files(&self) -> Self {
        Self {
            files: Files::default(),
            ..self.clone()
        }
    }

    pub(crate) fn record(&self) -> SparseRecord {
        SparseRecord {
            interval: self.grid.interval(),
            offset: self.grid.offset(),
            dimensions: self.shape.dimensions(),
            replaced: self.replaced,
        }
    }

    /// The table of a record, whose files are not known yet. `file` is the data file, for messages.
    pub(crate) fn of_record(
        record: &SparseRecord,
        file: &Path,
        name: &str,
        schema: &TableSchema,
        payload_len: usize,
    ) -> Result<Self> {
        let damaged =
            |reason: &str| Error::corrupt(file, "the catalogue", format!("table {name:?}: {reason}"));
        let grid = Grid::every(record.interval).map_err(|_| damaged("its interval is not positive"))?;
        if !(0..record.interval).contains(&record.offset) {
            return Err(damaged("its grid begins beyond its first interval"));
        }
        Ok(Self {
            grid: grid.from(record.offset),
            shape: Arc::new(shape::decode(file, name, schema, record.dimensions, payload_len)?),
            files: Files::default(),
            replaced: record.replaced,
        })
    }

    /// The page of the block map of each file that has blocks.
    ///
    /// # Errors
    ///
    /// The tree that they are read from is damaged: the table can be dropped and nothing else.
    pub(crate) fn files(&self) -> Result<&Arc<BTreeMap<i64, PageId>>> {
        match &self.files {
            Files::Known(files) => Ok(files),
            Files::Damaged(damage) => {
                let (file, place, reason) = &**damage;
                Err(Error::corrupt(file, place.clone(), reason.clone()))
            }
        }
    }

    /// The table with these files, and so many more rows written over.
    pub(super) fn with_files(&self, files: BTreeMap<i64, PageId>, replaced: u64) -> Self {
        Self {
            files: Files::Known(Arc::new(files)),
            replaced: self.replaced + replaced,
            ..self.clone()
        }
    }

    /// Reads which files there are from the tree at `root`. Damage there affects this table alone,
    /// and is reported once its files are needed.
    pub(crate) fn load_files(&mut self, pages: &impl PageRead, root: PageId, file: &Path) -> Result<()> {
        self.files = match read_files(pages, root, file) {
            Ok(files) => Files::Known(Arc::new(files)),
            Err(Error::Corrupt { file, place, reason }) => {
                tracing::error!(file = %file.display(), place, reason, "a sparse table cannot be read");
                Files::Damaged(Arc::new((file, place, reason)))
            }
            Err(error) => return Err(error),
        };
        Ok(())
    }

    pub(super) fn owner(&self, table: TableId, store: [u8; 8]) -> Owner<'_> {
        Owner {
            table: table.0,
            store,
            shape: &self.shape,
            grid: self.grid,
        }
    }
}

fn read_files(pages: &impl PageRead, root: PageId, file: &Path) -> Result<BTreeMap<i64, PageId>> {
    let tree = open_tree(pages, root)?;
    let mut files = BTreeMap::new();
    let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded)?;
    while let Some(leaf) = cursor.next_leaf()? {
        for index in 0..leaf.len() {
            let cell = leaf
                .fixed_column(0)
                .get(4 * index..4 * index + 4)
                .and_then(|cell| cell.first_chunk());
            let page = cell.copied().map(u32::from_le_bytes).and_then(PageId::new);
            let number = I64Order::value_of(leaf.prefix(index));
            let page = page.ok_or_else(|| {
                Error::corrupt(
                    file,
                    format!("page {root}"),
                    format!("file {number} has no block map"),
                )
            })?;
            files.insert(number, page);
        }
    }
    Ok(files)
}

/// Creates the tree of a table that has no files; returns its root.
pub(crate) fn create_files(pages: &impl PageStore) -> Result<PageId> {
    Ok(BPlusTree::create(pages, I64Order, file_columns(), tree_config())?.root())
}

/// How the trees of files fill and split: for files that come nearly in order.
fn tree_config() -> BPlusTreeOptions {
    BPlusTreeOptions::new().split_percent(80)
}

pub(super) fn open_tree<S: PageRead>(pages: S, root: PageId) -> Result<FileTree<S>> {
    Ok(BPlusTree::open(
        pages,
        root,
        I64Order,
        file_columns(),
        tree_config(),
    )?)
}

/// All pages of the tree of a table's files.
pub(crate) fn pages_of(pages: &impl PageRead, table: &TableEntry) -> Result<Vec<PageId>> {
    let report = open_tree(pages, table.root)?.verify()?;
    match report.problems.first() {
        None => Ok(report.pages.into_iter().collect()),
        Some(problem) => Err(Error::Index(bedload_pages::Error::Corrupt {
            page: problem.page,
            reason: "the tree of its files is damaged",
        })),
    }
}

/// Makes a file known.
pub(super) fn insert_file<S: PageStore>(tree: &FileTree<S>, number: i64, map: PageId) -> Result<()> {
    debug_assert_eq!(tree.layout().fixed_len(), 4);
    Ok(tree.insert(Entry {
        key: &I64Order::key(number),
        tie: 0,
        row: Row {
            fixed: &map.get().to_le_bytes(),
            variable: &[],
        },
    })?)
}

/// Forgets a file.
pub(super) fn remove_file<S: PageStore>(tree: &FileTree<S>, number: i64) -> Result<()> {
    tree.remove(&I64Order::key(number), 0)?;
    Ok(())
}
