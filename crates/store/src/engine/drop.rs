//! Dropping a table, even a damaged one.

use std::collections::HashSet;

use bedload_pages::{PageId, PageRead, PageStore};

use super::state::Engine;
use crate::error::{Error, Result};
use crate::pages::WorkingPages;
use crate::rows::TableId;
use crate::table::{Catalogue, StoredTable};

impl Engine {
    /// Drops a table and all its rows.
    pub(crate) fn drop_table(&self, name: &str) -> Result<()> {
        self.check_writable()?;
        let mut found = None;
        let mut can_flush = true;
        self.with_reserve(|| {
            let _flushing = self.flush.lock();
            self.check_writable()?;
            let id = match found {
                Some(id) => id,
                None => self.view().catalogue.named(name)?.entry.id,
            };
            found = Some(id);
            self.check_place()?;
            if self.view().catalogue.get(id).is_none() {
                // The first of two checkpoints was made before the disk was full.
                self.change_catalogue(|_, _| Ok(()))?;
            } else {
                if can_flush {
                    // Rows of the table itself need not be flushed. Those of others that cannot be,
                    // as something is damaged or the disk is full, stay in memory and in the log.
                    let without = |catalogue: &mut Catalogue| catalogue.remove(id);
                    let sealed = self.seal(true);
                    match sealed.and_then(|()| self.flush_sealed_after(without, self.dropping(id))) {
                        Err(error) if is_damage(&error) || matches!(error, Error::NoSpace { .. }) => {
                            can_flush = false;
                        }
                        dropped => dropped?,
                    }
                }
                // On a full disk this runs again once the reserve is free, and a second flush would
                // use that up.
                if !can_flush {
                    self.change_catalogue(self.dropping(id))?;
                }
            }
            self.blocks.forget(id.0);
            self.release_blocks();
            Ok(())
        })
    }

    /// The change of the catalogue that drops a table as it is now, even if that catalogue lacks it
    /// already. To be called after sealing, which may flush, and so move pages of the table.
    fn dropping(&self, id: TableId) -> impl FnOnce(&WorkingPages, &mut Catalogue) -> Result<()> {
        let view = self.view();
        move |pages, catalogue| {
            let found = catalogue.get(id).or_else(|| view.catalogue.get(id));
            let Some(table) = found.cloned() else {
                return Ok(());
            };
            table.drop_files(self.storage(pages), &view);
            match sound_tree(pages, &table)? {
                Some(owned) => pages.retire(&owned),
                None => retire_damaged(pages, catalogue, &table)?,
            }
            catalogue.remove(id);
            Ok(())
        }
    }
}

/// Whether an error reports damage, or a failed read.
fn is_damage(error: &Error) -> bool {
    error.is_damage() || matches!(error, Error::Index(bedload_pages::Error::Corrupt { .. }))
}

/// The pages of a table's tree; none if it is damaged.
fn sound_tree(pages: &WorkingPages, table: &StoredTable) -> Result<Option<Vec<PageId>>> {
    match table.tree_pages(pages) {
        Ok(owned) => Ok(Some(owned)),
        Err(error) if is_damage(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Retires the pages of a damaged tree: all that no other table has. If another table is damaged,
/// too, only pages that name this tree, or its root; the rest go when the other table is dropped.
fn retire_damaged(pages: &WorkingPages, catalogue: &Catalogue, table: &StoredTable) -> Result<()> {
    let mut others: HashSet<PageId> = HashSet::new();
    let mut is_known = true;
    for other in catalogue.iter().filter(|other| other.entry.id != table.entry.id) {
        match sound_tree(pages, other)? {
            Some(owned) => others.extend(owned),
            None => is_known = false,
        }
        match other.other_pages() {
            Ok(pages) => others.extend(pages),
            Err(_) => is_known = false,
        }
    }
    if is_known {
        pages.sweep(&|id| others.contains(&id))?;
        return Ok(());
    }
    let version = pages.published();
    let is_owned = |id: &PageId| {
        let page = version.read(*id);
        *id == table.entry.root || page.is_ok_and(|page| table.is_named_by(*id, &page))
    };
    let owned: Vec<PageId> = version.ids().filter(is_owned).collect();
    pages.retire(&owned);
    Ok(())
}
