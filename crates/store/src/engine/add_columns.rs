//! Adding columns to a table.
//!
//! Rows in pages and in the log stay as they are: rows with fewer columns than their table are null
//! in the others. Rows in memory get these nulls when the checkpoint that has the columns is
//! published, under the commit lock, so that all rows in memory have all columns of their table in
//! the newest view.

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
            if table.layout() != Layout::Indexed {
                return Err(Error::schema(format!(
                    "table {name:?} is sparse: its blocks have room for the columns that it was created with"
                )));
            }
            let schema = table.entry.schema.with_columns(columns)?;
            StoredTable::check(&self.pages, &schema, None)?;
            Ok(schema)
        })
    }

    /// Gives a table another schema durably: with a checkpoint, as tables are created.
    pub(super) fn change_schema(
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

/// Adds nulls to the rows in memory for the columns that only the new catalogue has. The caller
/// holds the commit lock.
pub(super) fn fill_up(active: &Generation, old: &Catalogue, new: &Catalogue) {
    for id in active.tables() {
        if let (Some(old), Some(new)) = (old.get(id), new.get(id))
            && old.entry.schema.places().len() < new.entry.schema.places().len()
        {
            active.fill_up(id, &new.entry.schema);
        }
    }
}
