//! The plain tree below a buffer.

use super::BaseTree;
use crate::near_sorted::PackedTree;

impl BaseTree for PackedTree {
    fn max_key(&self) -> Option<u64> {
        self.max_key()
    }

    fn append(&mut self, entries: &[(u64, u64)]) {
        self.append(entries);
    }
}
