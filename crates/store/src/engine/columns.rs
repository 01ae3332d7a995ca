//! Adding columns to a table, renaming and dropping them.
//!
//! Rows in pages and in the log stay as they are, and only the catalogue names columns: rows with
//! fewer columns than their table are null in the others, and those that were dropped stay where
//! they were. Rows in memory get these nulls when the checkpoint that has the columns is published,
//! under the commit lock, so that all rows in memory have all columns of their table in the newest
//! view.

use std::sync::Arc;

use arrow_schema::FieldRef;

use super::state::Engine;
use crate::error::{Error, Result};
use crate::rows::{Generation, TableSchema};
use crate::table::{Catalogue, Layout, StoredTable};

impl Engine {
    /// Adds columns to a table durably.
    pub(crate) fn add_columns(&self, name: &str, columns: &[FieldRef]) -> Result<Arc<StoredTable>> {
        self.change_schema(name, |table| {
            check_indexed(table)?;
            let schema = table.entry.schema.with_columns(columns)?;
            StoredTable::check(&self.pages, &schema, None)?;
            Ok(schema)
        })
    }

    /// Renames a column of a table durably.
    pub(crate) fn rename_column(&self, table: &str, name: &str, new: &str) -> Result<Arc<StoredTable>> {
        self.change_schema(table, |table| table.entry.schema.with_renamed(name, new))
    }

    /// Drops a column of a table durably.
    pub(crate) fn drop_column(&self, table: &str, name: &str) -> Result<Arc<StoredTable>> {
        self.change_schema(table, |table| {
            check_indexed(table)?;
            table.entry.schema.without(name)
        })
    }

    /// Gives a table another schema durably: with a checkpoint, as tables are created.
    fn change_schema(
        &self,
        name: &str,
        schema: impl Fn(&StoredTable) -> Result<TableSchema>,
    ) -> Result<Arc<StoredTable>> {
        self.check_writable()?;
        self.with_space(|| {
            let _flushing = self.flush.lock();
            self.check_writable()?;
            let table = self.view().catalogue.named(name)?.clone();
            let (id, schema) = (table.entry.id, Arc::new(schema(&table)?));
            self.seal(true)?;
            self.flush_sealed(|_, catalogue| {
                if let Some(table) = catalogue.get(id) {
                    let mut table = StoredTable::clone(table);
                    table.entry.schema = schema;
                    catalogue.put(table);
                }
                Ok(())
            })?;
            self.view().catalogue.named(name).cloned()
        })
    }
}

/// Fails if columns of a table can be neither added nor dropped.
fn check_indexed(table: &StoredTable) -> Result<()> {
    if table.layout() == Layout::Indexed {
        return Ok(());
    }
    Err(Error::schema(format!(
        "table {:?} is sparse: its blocks have room for the columns that it was created with",
        table.entry.name
    )))
}

/// Gives the rows in memory the columns of the new catalogue: added columns are null, and dropped
/// ones become nullable. Otherwise rows of short commits, which stay encoded, could not be joined
/// with later ones that are null in a dropped column. The caller holds the commit lock.
pub(super) fn fill_up(active: &Generation, old: &Catalogue, new: &Catalogue) {
    for id in active.tables() {
        if let (Some(old), Some(new)) = (old.get(id), new.get(id))
            && old.entry.schema.places() != new.entry.schema.places()
        {
            active.fill_up(id, &new.entry.schema);
        }
    }
}
