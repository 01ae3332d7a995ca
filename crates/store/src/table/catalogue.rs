//! The catalogue: which tables there are, and where their trees begin. It is part of each
//! checkpoint. Format: docs/format.md, "Catalogue".

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bedload_pages::{PageId, PageRead};
use serde::{Deserialize, Serialize};

use super::sparse::{SparseEntry, SparseRecord};
use super::stored::{Body, StoredTable};
use crate::error::{Error, Result};
use crate::pages::{COUNTER_MAX, CatalogueText};
use crate::rows::{ArrivalMeasure, ColumnRecord, OrderRecord, TableEntry, TableId};

/// All tables, as of one checkpoint. They are kept in parts, which copies of the catalogue share:
/// changing a table costs as much as its part, however many tables there are.
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
    tables: Vec<Arc<StoredTable>>,
    /// As it is written, once that is known; the same memory as long as the part is the same.
    text: OnceLock<Arc<[u8]>>,
}

impl Part {
    fn place(&self, id: TableId) -> Result<usize, usize> {
        self.tables.binary_search_by_key(&id, |table| table.entry.id)
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

#[derive(Serialize, Deserialize)]
struct TableRecord {
    id: TableId,
    name: String,
    time_column: String,
    columns: Vec<ColumnRecord>,
    /// The names of the columns of the key, its time among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Vec<String>>,
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

impl TableRecord {
    fn of(table: &StoredTable) -> Self {
        let (order, sparse) = table.record();
        let entry = &table.entry;
        Self {
            id: entry.id,
            name: entry.name.to_string(),
            time_column: entry.schema.names().swap_remove(entry.schema.time_column()),
            columns: ColumnRecord::of_schema(&entry.schema),
            key: entry
                .schema
                .key_names()
                .map(|names| names.into_iter().map(Into::into).collect()),
            since: entry.since,
            root: entry.root.get(),
            rows: entry.rows,
            end_sequence: entry.end_sequence,
            order,
            retention: entry.retention,
            sparse,
        }
    }
}

impl Catalogue {
    pub(crate) fn empty() -> Self {
        Self {
            parts: BTreeMap::new(),
            next_table: 1,
        }
    }

    /// An empty catalogue that continues this one's numbering of tables.
    pub(crate) fn without_tables(&self) -> Self {
        Self {
            parts: BTreeMap::new(),
            next_table: self.next_table,
        }
    }

    pub(crate) fn get(&self, id: TableId) -> Option<&Arc<StoredTable>> {
        let part = self.parts.get(&part_of(id))?;
        part.place(id).ok().map(|place| &part.tables[place])
    }

    /// The part that has, or is to have, a table, which is about to change.
    fn part_mut(&mut self, id: TableId) -> &mut Part {
        let part = Arc::make_mut(self.parts.entry(part_of(id)).or_default());
        part.text = OnceLock::new();
        part
    }

    pub(crate) fn named(&self, name: &str) -> Result<&Arc<StoredTable>> {
        let found = self.iter().find(|table| *table.entry.name == *name);
        found.ok_or_else(|| Error::NoSuchTable { name: name.into() })
    }

    /// The tables, in the order in which they were created.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<StoredTable>> {
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

    /// Replaces what is known of a table, or adds it.
    pub(crate) fn put(&mut self, table: StoredTable) {
        let id = table.entry.id;
        let part = self.part_mut(id);
        match part.place(id) {
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
        self.get(TableId(table)).is_some_and(|table| table.has_file(file))
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
        let parts = self
            .parts
            .values_mut()
            .filter(|part| part.tables.iter().any(|table| table.has_files()));
        // The record of a table does not name its files.
        for table in parts.flat_map(|part| &mut Arc::make_mut(part).tables) {
            if table.has_files() {
                Arc::make_mut(table).load_files(pages, file)?;
            }
        }
        Ok(())
    }

    pub(crate) fn encode(&self) -> CatalogueText {
        let parts = self.parts.iter().map(|(&number, part)| {
            let text = part.text.get_or_init(|| {
                let record = PartRecord {
                    part: number,
                    tables: part.tables.iter().map(|table| TableRecord::of(table)).collect(),
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
        let end = catalogue
            .iter()
            .map(|table| table.entry.id.0.saturating_add(1))
            .max();
        catalogue.next_table = catalogue.next_table.max(end.unwrap_or(1));
        Ok(catalogue)
    }

    /// Takes tables as they are recorded.
    fn take(&mut self, file: &Path, records: Vec<TableRecord>, payload_len: usize) -> Result<()> {
        let damaged = |reason: String| Error::corrupt(file, "the catalogue", reason);
        for table in records {
            let schema = ColumnRecord::to_schema(&table.columns, &table.time_column, table.key.as_deref())
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
            let entry = TableEntry {
                id: table.id,
                name: table.name.into(),
                schema: Arc::new(schema),
                since: table.since,
                root,
                rows: table.rows,
                end_sequence: table.end_sequence,
                // No caller can ask for rows to go at once: zero is damage, and keeps the rows.
                retention: table.retention.filter(|&ticks| ticks > 0),
                pauses: Arc::default(),
            };
            let body = sparse.map_or_else(|| Body::indexed(order.into()), Body::Sparse);
            self.put(StoredTable { entry, body });
        }
        Ok(())
    }
}
