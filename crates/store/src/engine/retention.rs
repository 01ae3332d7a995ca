//! For how long rows of a table are kept.

use super::flush::flush_generation;
use super::state::Engine;
use crate::error::{Error, Result};
use crate::rows::{Generation, TableId};

impl Engine {
    /// Keeps rows of a table for so many ticks from now on, durably; what is older goes at once.
    pub(crate) fn set_retention(&self, id: TableId, ticks: Option<u64>) -> Result<()> {
        if ticks == Some(0) {
            return Err(Error::schema(
                "rows cannot be kept for no time; delete them instead",
            ));
        }
        self.check_writable()?;
        self.with_reserve(|| {
            let _flushing = self.flush.lock();
            self.check_writable()?;
            if self.view().catalogue.get(id).is_none() {
                return Err(super::commit::no_such_table());
            }
            let first = self.seal_before(true, 0)?;
            self.flush_sealed(|pages, catalogue| {
                let Some(table) = catalogue.get(id) else {
                    return Ok(());
                };
                let mut table = (**table).clone();
                table.entry.retention = ticks;
                catalogue.put(table);
                // A flush of nothing: it removes what has expired.
                let nothing = Generation::new(0, first);
                nothing.touch(id);
                flush_generation(self.storage(pages), catalogue, &nothing).map(drop)
            })
        })
    }
}
