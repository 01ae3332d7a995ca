//! How far ahead of a cursor its store fetches leaves.

use std::ops::Range;

use super::error::Result;

/// Leaves that are fetched when a cursor leaves its first one; twice as many each time that it leaves another.
const FIRST: usize = 4;
/// The most: some requests to a disk, so that one is under way while what another brought is read.
const MOST: usize = 32;

/// Of a cursor, on the children of one node. Short ranges end before they fetch anything in vain.
#[derive(Debug, Default)]
pub struct ReadAhead {
    reach: usize,
    /// How many leaves behind the present one are being fetched.
    fetched: usize,
}

impl ReadAhead {
    /// For who is going to read all there is.
    pub const fn at_once() -> Self {
        Self {
            reach: MOST,
            fetched: 0,
        }
    }

    /// The cursor goes on to the children of another node.
    pub fn enter_node(&mut self) {
        self.fetched = 0;
    }

    /// The cursor goes on to a leaf, behind which its node has `left` more of the range. Which of them are to be fetched now:
    /// 0 is the first of them. Asks for more when half of what was fetched is passed.
    ///
    /// # Errors
    ///
    /// Those of `left`, which is asked only if it matters.
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
