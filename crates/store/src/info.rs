//! Sizes of a store and its tables.

use std::path::PathBuf;
use std::sync::Arc;

use crate::engine::Engine;
use crate::error::Result;
use crate::mark::StoreIdentity;
use crate::pages::FORMAT_VERSION;
use crate::rows::{ArrivalOrder, TableSchema};
use crate::scan::Scan;
use crate::table::{Density, Layout, StoredTable, View};

/// The answer of [`Store::info`](crate::Store::info).
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
    /// Bytes that the data file takes on the disk, free pages included. It may be longer, with
    /// holes.
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
    /// How its rows are kept.
    pub layout: Layout,
    /// How densely a sparse table is filled; `None` for other layouts.
    pub density: Option<Density>,
    /// How far from sorted its rows arrived; not known of a sparse table, to which order does not
    /// matter.
    pub order: Option<ArrivalOrder>,
    /// How long rows are kept, in ticks of the time column's unit; none for ever.
    pub retention: Option<u64>,
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
        let (used_bytes, file_bytes, wal_bytes) = engine.sizes()?;
        let table = |table| TableInfo::of_table(engine.identity(), (&view, visible), table);
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

impl TableInfo {
    fn of_table(
        identity: StoreIdentity,
        (view, visible): (&Arc<View>, u64),
        table: &Arc<StoredTable>,
    ) -> Result<Self> {
        let all = || Scan::new(identity, (view.clone(), visible), table.clone(), ..);
        let entry = &table.entry;
        let time = entry.schema.names().swap_remove(entry.schema.time_column());
        let edge = |scan: Scan| -> Result<Option<i64>> {
            let batch = scan.columns(&[&time])?.limit(1).next().transpose()?;
            Ok(batch.map(|batch| batch.column(0).to_data().buffers()[0].typed_data::<i64>()[0]))
        };
        let heads: Vec<_> = view.heads(entry.id).collect();
        let order = table.order().cloned().map(|mut order| {
            for head in &heads {
                order.observe_flush(&head.runs(visible));
            }
            order.order()
        });
        let is_at_rest = heads.iter().all(|head| head.is_empty());
        Ok(Self {
            name: entry.name.to_string(),
            schema: entry.schema.live().clone(),
            layout: table.layout(),
            density: table.density(view)?,
            retention: entry.retention,
            order,
            rows: if is_at_rest { entry.rows } else { all().count()? },
            first: edge(all())?,
            last: edge(all().rev())?,
        })
    }
}
