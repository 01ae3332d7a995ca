//! The result of checking one table.

use bedload_pages::PageId;

use crate::error::{Error, Result};

/// A table that was checked.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    pub(crate) rows: u64,
    pub(crate) blocks: u64,
    /// The pages of the table.
    pub(crate) pages: Vec<PageId>,
    pub(crate) problems: Vec<Error>,
}

impl Verified {
    /// Notes damage and goes on; other errors are passed on.
    pub(crate) fn note(&mut self, error: Error) -> Result<()> {
        if !error.is_damage() {
            return Err(error);
        }
        self.problems.push(error);
        Ok(())
    }
}
