//! Renaming a table. Pages, blocks and the log number tables; only the catalogue names them.

use super::state::Engine;
use super::table_name::check_name;
use crate::error::{Error, Result};

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
}
