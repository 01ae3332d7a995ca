//! The catalogue: which tables there are, and where their trees begin. It is part of each checkpoint. Format:
//! docs/format.md, "Catalogue".

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bedload_pages::{PageId, PageRead};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::pages::COUNTER_MAX;
use crate::rows::{ArrivalMeasure, ColumnRecord, OrderRecord, TableId, TableSchema};
use crate::sparse::{SparseEntry, SparseRecord};

/// A table, as of one checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct TableEntry {
    pub(crate) id: TableId,
    pub(crate) name: String,
    pub(crate) schema: Arc<TableSchema>,
    /// The first checkpoint that has the table. Pages older than that are not the table's, whatever they say: page
    /// ids are given out again.
    pub(crate) since: u64,
    /// The root page of the table's tree.
    pub(crate) root: PageId,
    /// Rows in the tree.
    pub(crate) rows: u64,
    /// The first sequence number that no row in the tree reaches.
    pub(crate) end_sequence: u64,
    /// In which order the rows in the tree arrived; empty for a table of the sparse layout.
    pub(crate) order: ArrivalMeasure,
    /// What a table of the sparse layout has instead of rows in its tree.
    pub(crate) sparse: Option<SparseEntry>,
}

impl TableEntry {
    /// How the table's rows are kept.
    pub(crate) fn layout(&self) -> Layout {
        self.sparse
            .as_ref()
            .map_or(Layout::Indexed, |sparse| Layout::Sparse(sparse.grid))
    }
}

/// All tables, as of one checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct Catalogue {
    tables: BTreeMap<TableId, Arc<TableEntry>>,
    next_table: u32,
}

#[derive(Serialize, Deserialize)]
struct CatalogueRecord {
    next_table: u32,
    tables: Vec<TableRecord>,
}

#[derive(Serialize, Deserialize)]
struct TableRecord {
    id: TableId,
    name: String,
    time_column: String,
    columns: Vec<ColumnRecord>,
    since: u64,
    root: u32,
    rows: u64,
    end_sequence: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<OrderRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sparse: Option<SparseRecord>,
}

impl Catalogue {
    pub(crate) fn empty() -> Self {
        Self {
            tables: BTreeMap::new(),
            next_table: 1,
        }
    }

    /// A catalogue that goes on numbering tables where this one is, and has none.
    pub(crate) fn without_tables(&self) -> Self {
        Self {
            tables: BTreeMap::new(),
            next_table: self.next_table,
        }
    }

    pub(crate) fn get(&self, id: TableId) -> Option<&Arc<TableEntry>> {
        self.tables.get(&id)
    }

    pub(crate) fn named(&self, name: &str) -> Result<&Arc<TableEntry>> {
        let found = self.iter().find(|table| table.name == name);
        found.ok_or_else(|| Error::NoSuchTable { name: name.into() })
    }

    /// The tables, in the order in which they were created.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.tables.values()
    }

    /// Adds a table whose tree begins at `root`; `since` is the checkpoint that will be the first to have it.
    pub(crate) fn add(
        &mut self,
        name: &str,
        schema: Arc<TableSchema>,
        since: u64,
        root: PageId,
        sparse: Option<SparseEntry>,
    ) -> Result<()> {
        let id = TableId(self.next_table);
        self.next_table = self
            .next_table
            .checked_add(1)
            .ok_or_else(|| Error::schema("the store has had as many tables as it can number"))?;
        self.put(TableEntry {
            id,
            name: name.into(),
            schema,
            since,
            root,
            rows: 0,
            end_sequence: 0,
            order: ArrivalMeasure::default(),
            sparse,
        });
        Ok(())
    }

    /// Replaces what is known of a table, or adds it.
    pub(crate) fn put(&mut self, table: TableEntry) {
        self.tables.insert(table.id, Arc::new(table));
    }

    /// Whether there was a table of this number that is gone.
    pub(crate) fn was_dropped(&self, id: TableId) -> bool {
        id.0 < self.next_table && self.get(id).is_none()
    }

    /// Whether a sparse table has a file.
    pub(crate) fn has_file(&self, table: u32, file: i64) -> bool {
        let sparse = self.get(TableId(table)).and_then(|table| table.sparse.as_ref());
        // Of a damaged table nothing is given up.
        sparse.is_some_and(|sparse| sparse.files().map_or(true, |files| files.contains_key(&file)))
    }

    pub(crate) fn remove(&mut self, id: TableId) {
        self.tables.remove(&id);
    }

    /// Reads which files the sparse tables have.
    pub(crate) fn load_files(&mut self, pages: &impl PageRead, file: &Path) -> Result<()> {
        for table in self.tables.values_mut() {
            if table.sparse.is_some() {
                let mut entry = TableEntry::clone(table);
                let root = entry.root;
                if let Some(sparse) = &mut entry.sparse {
                    sparse.load_files(pages, root, file)?;
                }
                *table = Arc::new(entry);
            }
        }
        Ok(())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let table = |table: &Arc<TableEntry>| TableRecord {
            id: table.id,
            name: table.name.clone(),
            time_column: table.schema.names().swap_remove(table.schema.time_column()),
            columns: ColumnRecord::of_schema(&table.schema),
            since: table.since,
            root: table.root.get(),
            rows: table.rows,
            end_sequence: table.end_sequence,
            order: table.sparse.is_none().then(|| table.order.record()),
            sparse: table.sparse.as_ref().map(SparseEntry::record),
        };
        let record = CatalogueRecord {
            next_table: self.next_table,
            tables: self.iter().map(table).collect(),
        };
        serde_json::to_vec(&record).expect("plain data with text keys")
    }

    /// The catalogue that `encode` wrote; `file` names where it was read from.
    ///
    /// Which files a sparse table has is in its tree, and not known yet.
    pub(crate) fn decode(file: &Path, bytes: &[u8], payload_len: usize) -> Result<Self> {
        let damaged = |reason: String| Error::corrupt(file, "the catalogue", reason);
        let record: CatalogueRecord =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        let mut catalogue = Self {
            tables: BTreeMap::new(),
            next_table: record.next_table,
        };
        for table in record.tables {
            let schema = ColumnRecord::to_schema(&table.columns, &table.time_column)
                .map_err(|error| damaged(format!("table {:?}: {error}", table.name)))?;
            if table.rows.max(table.end_sequence) > COUNTER_MAX {
                let reason = format!("table {:?} counts further than any store gets", table.name);
                return Err(damaged(reason));
            }
            let root = PageId::new(table.root)
                .ok_or_else(|| damaged(format!("table {:?} has no root page", table.name)))?;
            let sparse = table
                .sparse
                .as_ref()
                .map(|record| SparseEntry::of_record(record, file, &table.name, &schema, payload_len));
            let sparse = sparse.transpose()?;
            let order = match &table.order {
                None => ArrivalMeasure::default(),
                Some(record) => ArrivalMeasure::of_record(record)
                    .ok_or_else(|| damaged(format!("table {:?} has an impossible order", table.name)))?,
            };
            catalogue.put(TableEntry {
                id: table.id,
                name: table.name,
                schema: Arc::new(schema),
                since: table.since,
                root,
                rows: table.rows,
                end_sequence: table.end_sequence,
                order,
                sparse,
            });
        }
        Ok(catalogue)
    }
}
