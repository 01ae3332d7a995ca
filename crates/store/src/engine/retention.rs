//! How long rows of a table are kept.

use super::flush::{flush_generation, take_back};
use super::state::Engine;
use crate::error::{Error, Result};
use crate::rows::{Generation, TableEntry, TableId};
use crate::table::Catalogue;

impl Engine {
    /// Keeps rows of a table for `ticks` from now on, durably; older rows go at once.
    pub(crate) fn set_retention(&self, id: TableId, ticks: Option<u64>) -> Result<()> {
        if ticks == Some(0) {
            return Err(Error::schema(
                "rows cannot be kept for no time; delete them instead",
            ));
        }
        self.expire(id, |table| table.retention = ticks)
    }

    /// Lets the rows of a table go that have expired.
    pub(crate) fn let_expire(&self, id: TableId) -> Result<()> {
        let view = self.view();
        match view.catalogue.get(id) {
            Some(table) if table.entry.retention.is_some() => self.expire(id, |_| {}),
            _ => Ok(()),
        }
    }

    fn expire(&self, id: TableId, change: impl Fn(&mut TableEntry)) -> Result<()> {
        self.check_writable()?;
        self.with_reserve(|| {
            let _flushing = self.flush.lock();
            self.check_writable()?;
            if self.view().catalogue.get(id).is_none() {
                return Err(super::commit::no_such_table());
            }
            let first = self.seal_before(true, 0)?;
            // Before the flush, which would drop rows in memory that only the new retention keeps.
            let prepare = |catalogue: &mut Catalogue| {
                if let Some(table) = catalogue.get(id) {
                    let mut table = (**table).clone();
                    change(&mut table.entry);
                    catalogue.put(table);
                }
            };
            self.flush_sealed_after(prepare, |pages, catalogue| {
                // A flush of nothing: it removes what has expired.
                let nothing = Generation::new(0, first);
                nothing.touch(id);
                let are_settled = |table| self.are_settled(table);
                flush_generation(self.storage(pages), catalogue, &nothing, are_settled).map(drop)
            })
        })
    }

    /// Does something while no flush is under way.
    pub(crate) fn between_flushes(&self, then: impl FnOnce()) {
        // In a forked child the lock may be held by a thread that does not exist there.
        let _flushing = (!self.is_inherited()).then(|| self.flush.lock());
        then();
    }

    /// Whether nothing unsealed takes back rows of a table.
    pub(super) fn are_settled(&self, table: TableId) -> bool {
        !take_back(std::slice::from_ref(self.view().active()), table)
    }
}
