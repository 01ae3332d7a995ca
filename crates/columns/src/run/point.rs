//! Finds one row of a run without reading all of its index.

use std::ops::{Bound, Deref};

use bedload_pages::{PageRead, Result};
use bedload_trees::run::Run;

use super::index::RunIndexPage;
use super::kind::ColumnRuns;
use super::leaf::RunLeaf;
use super::place::Place;

/// A row of a run, on its page.
#[derive(Debug)]
pub struct RunRow<G> {
    /// The leaf of the row.
    pub leaf: RunLeaf<G>,
    /// The row's number in the leaf.
    pub row: usize,
}

impl<G: Deref<Target = [u8]>> RunRow<G> {
    /// Returns its sequence number.
    ///
    /// # Errors
    ///
    /// The leaf is damaged.
    pub fn sequence(&self) -> Result<u64> {
        self.leaf.sequence(self.row)
    }
}

impl ColumnRuns {
    /// Finds the last row of a run with a position's time and a sequence number up to its own;
    /// `None` if there is none. Reads the run's index and one leaf: O(log(leaves) + log(rows of a
    /// leaf)), plus the times of a block of rows.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged or belongs to another run.
    pub fn last_of_time<'s, S: PageRead>(
        &self,
        store: &'s S,
        run: &Run,
        place: Place,
    ) -> Result<Option<RunRow<S::Guard<'s>>>> {
        let index = RunIndexPage::read(store, run, self.owner)?;
        let Some(last) = index
            .between(Bound::Unbounded, Bound::Included(place))?
            .next_back()
        else {
            return Ok(None);
        };
        let leaf = index.open(store, last)?;
        let row = leaf.last_of_time(self.time, place)?;
        Ok(row.map(|row| RunRow { leaf, row }))
    }
}
