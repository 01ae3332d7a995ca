//! The catalogue: which tables there are, and where their trees begin. It is part of each checkpoint. Format:
//! docs/format.md, "Catalogue".

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bedload_pages::{PageId, PageRead};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::pages::{COUNTER_MAX, CatalogueText};
use crate::rows::{ArrivalMeasure, ColumnRecord, Deletion, OrderRecord, TableId, TableSchema};
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
    /// The page that names the table's tree.
    pub(crate) root: PageId,
    /// Rows in the tree.
    pub(crate) rows: u64,
    /// The first sequence number that no row in the tree reaches.
    pub(crate) end_sequence: u64,
    /// In which order the rows in the tree arrived; empty for a table of the sparse layout.
    pub(crate) order: ArrivalMeasure,
    /// For how many ticks rows are kept, counted back from the newest; none for ever. At least one.
    pub(crate) retention: Option<u64>,
    /// What a table of the sparse layout has instead of rows in its tree.
    pub(crate) sparse: Option<SparseEntry>,
}

impl TableEntry {
    fn record(&self) -> TableRecord {
        TableRecord {
            id: self.id,
            name: self.name.clone(),
            time_column: self.schema.names().swap_remove(self.schema.time_column()),
            columns: ColumnRecord::of_schema(&self.schema),
            since: self.since,
            root: self.root.get(),
            rows: self.rows,
            end_sequence: self.end_sequence,
            order: self.sparse.is_none().then(|| self.order.record()),
            retention: self.retention,
            sparse: self.sparse.as_ref().map(SparseEntry::record),
        }
    }

    /// The deletion of the rows that the retention of the table does not keep, given the time of the newest row and a sequence
    /// number above all of them; none if it keeps all.
    pub(crate) fn expired(&self, newest: Option<i64>, at: u64) -> Option<Deletion> {
        let first = newest?.checked_sub_unsigned(self.retention?)?;
        Some(Deletion {
            times: i64::MIN..=first.checked_sub(1)?,
            from_sequence: 0,
            at,
        })
    }

    /// How the table's rows are kept.
    pub(crate) fn layout(&self) -> Layout {
        self.sparse
            .as_ref()
            .map_or(Layout::Indexed, |sparse| Layout::Sparse(sparse.grid))
    }
}

/// All tables, as of one checkpoint. They are kept in parts, which copies of the catalogue share: changing a table costs as
/// much as its part, however many tables there are.
#[derive(Debug, Clone)]
pub(crate) struct Catalogue {
    parts: BTreeMap<u32, Arc<Part>>,
    next_table: u32,
}

/// Tables whose ids follow one another.
const PART_TABLES: u32 = 32;

#[derive(Debug, Clone, Default)]
struct Part {
    /// Ascending by id.
    tables: Vec<Arc<TableEntry>>,
    /// As it is written, once that is known; the same memory as long as the part is the same.
    text: OnceLock<Arc<[u8]>>,
}

impl Part {
    fn place(&self, id: TableId) -> Result<usize, usize> {
        self.tables.binary_search_by_key(&id, |table| table.id)
    }
}

/// The number of the part that has a table.
fn part_of(id: TableId) -> u32 {
    id.0 / PART_TABLES
}

#[derive(Serialize, Deserialize)]
struct PartRecord {
    part: u32,
    tables: Vec<TableRecord>,
}

/// The catalogue as early releases wrote it, in one piece.
#[derive(Deserialize)]
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
    retention: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sparse: Option<SparseRecord>,
}

impl Catalogue {
    pub(crate) fn empty() -> Self {
        Self {
            parts: BTreeMap::new(),
            next_table: 1,
        }
    }

    /// A catalogue that goes on numbering tables where this one is, and has none.
    pub(crate) fn without_tables(&self) -> Self {
        Self {
            parts: BTreeMap::new(),
            next_table: self.next_table,
        }
    }

    pub(crate) fn get(&self, id: TableId) -> Option<&Arc<TableEntry>> {
        let part = self.parts.get(&part_of(id))?;
        part.place(id).ok().map(|place| &part.tables[place])
    }

    /// The part that has, or is to have, a table, which is about to change.
    fn part_mut(&mut self, id: TableId) -> &mut Part {
        let part = Arc::make_mut(self.parts.entry(part_of(id)).or_default());
        part.text = OnceLock::new();
        part
    }

    pub(crate) fn named(&self, name: &str) -> Result<&Arc<TableEntry>> {
        let found = self.iter().find(|table| table.name == name);
        found.ok_or_else(|| Error::NoSuchTable { name: name.into() })
    }

    /// The tables, in the order in which they were created.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.parts.values().flat_map(|part| &part.tables)
    }

    /// The number of the next table, which is given to no other.
    pub(crate) fn next_id(&mut self) -> Result<TableId> {
        let id = TableId(self.next_table);
        self.next_table = self
            .next_table
            .checked_add(1)
            .ok_or_else(|| Error::schema("the store has had as many tables as it can number"))?;
        Ok(id)
    }

    /// Adds a table whose tree begins at `root`; `since` is the checkpoint that will be the first to have it.
    pub(crate) fn add(
        &mut self,
        id: TableId,
        name: &str,
        schema: Arc<TableSchema>,
        (since, root): (u64, PageId),
        sparse: Option<SparseEntry>,
    ) {
        self.put(TableEntry {
            id,
            name: name.into(),
            schema,
            since,
            root,
            rows: 0,
            end_sequence: 0,
            order: ArrivalMeasure::default(),
            retention: None,
            sparse,
        });
    }

    /// Replaces what is known of a table, or adds it.
    pub(crate) fn put(&mut self, table: TableEntry) {
        let part = self.part_mut(table.id);
        match part.place(table.id) {
            Ok(place) => part.tables[place] = Arc::new(table),
            Err(place) => part.tables.insert(place, Arc::new(table)),
        }
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
        let part = self.part_mut(id);
        if let Ok(place) = part.place(id) {
            part.tables.remove(place);
        }
        if part.tables.is_empty() {
            self.parts.remove(&part_of(id));
        }
    }

    /// Reads which files the sparse tables have.
    pub(crate) fn load_files(&mut self, pages: &impl PageRead, file: &Path) -> Result<()> {
        let is_sparse = |table: &Arc<TableEntry>| table.sparse.is_some();
        let parts = self
            .parts
            .values_mut()
            .filter(|part| part.tables.iter().any(is_sparse));
        // What is written of a table does not say which files it has.
        for table in parts.flat_map(|part| &mut Arc::make_mut(part).tables) {
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

    pub(crate) fn encode(&self) -> CatalogueText {
        let parts = self.parts.iter().map(|(&number, part)| {
            let text = part.text.get_or_init(|| {
                let record = PartRecord {
                    part: number,
                    tables: part.tables.iter().map(|table| table.record()).collect(),
                };
                serde_json::to_vec(&record)
                    .expect("plain data with text keys")
                    .into()
            });
            (number, text.clone())
        });
        CatalogueText {
            next_table: self.next_table,
            parts: parts.collect(),
        }
    }

    /// The catalogue that `encode` wrote; `file` names where it was read from.
    ///
    /// Which files a sparse table has is in its tree, and not known yet.
    pub(crate) fn decode(file: &Path, text: &CatalogueText, payload_len: usize) -> Result<Self> {
        let damaged = |reason: String| Error::corrupt(file, "the catalogue", reason);
        let mut catalogue = Self {
            parts: BTreeMap::new(),
            next_table: text.next_table,
        };
        for (&number, text) in &text.parts {
            if number == CatalogueText::WHOLE {
                let record: CatalogueRecord =
                    serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
                catalogue.next_table = record.next_table;
                catalogue.take(file, record.tables, payload_len)?;
                continue;
            }
            let record: PartRecord =
                serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
            let is_of_part = |table: &TableRecord| part_of(table.id) == number;
            if record.part != number || !record.tables.iter().all(is_of_part) {
                return Err(damaged(format!(
                    "part {number} is another one, or has tables of another one"
                )));
            }
            catalogue.take(file, record.tables, payload_len)?;
            if let Some(part) = catalogue.parts.get_mut(&number) {
                // It need not be written again.
                let _ = Arc::make_mut(part).text.set(text.clone());
            }
        }
        let end = catalogue.iter().map(|table| table.id.0.saturating_add(1)).max();
        catalogue.next_table = catalogue.next_table.max(end.unwrap_or(1));
        Ok(catalogue)
    }

    /// Takes tables as they are recorded.
    fn take(&mut self, file: &Path, records: Vec<TableRecord>, payload_len: usize) -> Result<()> {
        let damaged = |reason: String| Error::corrupt(file, "the catalogue", reason);
        for table in records {
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
            self.put(TableEntry {
                id: table.id,
                name: table.name,
                schema: Arc::new(schema),
                since: table.since,
                root,
                rows: table.rows,
                end_sequence: table.end_sequence,
                order,
                // No caller can ask for rows to go at once: zero is damage, and keeps the rows.
                retention: table.retention.filter(|&ticks| ticks > 0),
                sparse,
            });
        }
        Ok(())
    }
}
