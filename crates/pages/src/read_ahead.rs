//! How far ahead of a cursor its store fetches leaves.

use std::ops::Range;

use super::error::Result;

/// Leaves fetched when a cursor leaves its first leaf; the number doubles with each further leaf.
const FIRST: usize = 4;
/// The most leaves fetched at once: enough to keep the disk busy while fetched leaves are read.
const MOST: usize = 32;

/// The read-ahead of a cursor over the children of one node. A short range ends before it fetches
/// anything.
#[derive(Debug, Default)]
pub struct ReadAhead {
    reach: usize,
    /// How many leaves after the current one are being fetched.
    fetched: usize,
}

impl ReadAhead {
    /// Starts with the largest read-ahead, for a scan of everything.
    pub const fn at_once() -> Self {
        Self {
            reach: MOST,
            fetched: 0,
        }
    }

    /// Notes that the cursor moves on to the children of another node.
    pub fn enter_node(&mut self) {
        self.fetched = 0;
    }

    /// Notes that the cursor moves on to a leaf, after which its node has `left` more in the range.
    /// Returns which of these to fetch, counted from 0. Fetches more once half of the fetched
    /// leaves are passed.
    ///
    /// # Errors
    ///
    /// Those of `left`, which is called only if needed.
    pub fn enter_leaf(&mut self, left: impl FnOnce() -> Result<usize>) -> Result<Range<usize>> {
        let reach = self.reach;
        self.reach = (2 * reach).clamp(FIRST, MOST);
        self.fetched = self.fetched.saturating_sub(1);
        if reach == 0 || self.fetched > reach / 2 {
            return Ok(0..0);
        }
        let until = reach.min(left()?).max(self.fetched);
        Ok(std::mem::replace(&mut self.fetched, until)..until)
    }
}
