//! Appending entries in order, by packing leaves.

use super::packed_tree::PackedTree;
use crate::search::keys::NO_KEY;

impl PackedTree {
    /// Returns the greatest key.
    pub(crate) fn max_key(&self) -> Option<u64> {
        if self.packed.greatest.is_some() {
            return Some(NO_KEY);
        }
        let leaves = self
            .packed
            .branches
            .iter()
            .rev()
            .find_map(|branch| branch.leaves().last());
        leaves.and_then(|leaf| leaf.keys().last().copied())
    }

    /// Appends entries with ascending keys, all above those present.
    pub(crate) fn append(&mut self, entries: &[(u64, u64)]) {
        let fill = self.packed.options.filled_leaf();
        let last = self.packed.branches.len() - 1;
        let mut rest = entries;
        if let Some((NO_KEY, value)) = rest.last() {
            self.packed.greatest = Some(*value);
            rest = &rest[..rest.len() - 1];
        }
        let leaves = self.packed.branches[last].leaves().len();
        if leaves > 0 {
            let tail = self.packed.branches[last].leaf_mut(leaves - 1);
            let (first, behind) = rest.split_at(rest.len().min(fill.saturating_sub(tail.len())));
            first.iter().for_each(|&(key, value)| tail.push(key, value));
            self.packed.entries += first.len();
            rest = behind;
        }
        for filling in rest.chunks(fill) {
            let mut leaf = self.packed.spare.leaf();
            filling.iter().for_each(|&(key, value)| leaf.push(key, value));
            self.packed.push_leaf(filling[0].0, leaf);
        }
    }
}
