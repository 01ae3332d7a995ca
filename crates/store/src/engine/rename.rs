//! Renaming a table, or a column of one.
//!
//! Pages, blocks and the log number tables and columns; only the catalogue names them.

use std::sync::Arc;

use super::state::Engine;
use super::table_name::check_name;
use crate::error::{Error, Result};
use crate::table::StoredTable;

impl Engine {
    /// Renames a table durably: with a checkpoint, as tables are created.
    pub(crate) fn rename_table(&self, name: &str, new: &str) -> Result<()> {
        self.check_writable()?;
        check_name(new)?;
        self.with_space(|| {
            let _flushing = self.flush.lock();
            self.check_writable()?;
            let table = self.view().catalogue.named(name)?.entry.id;
            if self.view().catalogue.named(new).is_ok() {
                return Err(Error::TableExists { name: new.into() });
            }
            self.seal(true)?;
            self.flush_sealed(|_, catalogue| {
                if let Some(table) = catalogue.get(table) {
                    let mut table = (**table).clone();
                    table.entry.name = new.into();
                    catalogue.put(table);
                }
                Ok(())
            })
        })
    }

    /// Renames a column of a table durably.
    pub(crate) fn rename_column(&self, table: &str, name: &str, new: &str) -> Result<Arc<StoredTable>> {
        self.change_schema(table, |table| table.entry.schema.with_renamed(name, new))
    }
}
