//! Sizes of a store and its tables.

use std::path::PathBuf;

use crate::engine::Engine;
use crate::error::Result;
use crate::pages::FORMAT_VERSION;
use crate::rows::TableSchema;

/// What [`Store::info`](crate::Store::info) tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreInfo {
    /// The store's directory.
    pub path: PathBuf,
    /// The version of the format on disk.
    pub format_version: u32,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// The number of the last checkpoint.
    pub checkpoint: u64,
    /// Bytes of the data file that hold pages.
    pub used_bytes: u64,
    /// Bytes of the data file, free pages included.
    pub file_bytes: u64,
    /// Bytes of log that the next opening would read.
    pub wal_bytes: u64,
    /// The tables, in the order in which they were created.
    pub tables: Vec<TableInfo>,
}

/// A table, as [`StoreInfo`] lists it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TableInfo {
    /// The table's name.
    pub name: String,
    /// Its columns.
    pub schema: TableSchema,
    /// How many rows it has.
    pub rows: u64,
    /// The time of its first row, in ticks of the time column's unit.
    pub first: Option<i64>,
    /// The time of its last row.
    pub last: Option<i64>,
}

impl StoreInfo {
    pub(crate) fn of_engine(engine: &Engine) -> Result<Self> {
        let (view, visible) = engine.snapshot();
        let (used_bytes, file_bytes, wal_bytes) = engine.sizes();
        let table = |table| TableInfo::of_table(&view, visible, table);
        Ok(Self {
            path: engine.dir().into(),
            format_version: FORMAT_VERSION,
            page_bytes: engine.page_bytes(),
            checkpoint: view.pages.number(),
            used_bytes,
            file_bytes,
            wal_bytes,
            tables: view.catalogue.iter().map(table).collect::<Result<_>>()?,
        })
    }
}
