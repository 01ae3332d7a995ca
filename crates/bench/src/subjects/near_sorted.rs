//! Our single-threaded maps, and the standard library's.

use std::collections::BTreeMap;

use bedload_memory::ExclusiveMap;
use bedload_memory::near_sorted::{NearSortedTree, PackedTree};
use bedload_memory::swa_buffer::{BaseTree, SaTree};

use super::contract::{SerialSubject, add_entry};

fn add((count, sum): (usize, u64), keys: &[u64], values: &[u64]) -> (usize, u64) {
    let sums = keys
        .iter()
        .zip(values)
        .map(|(key, value)| key.wrapping_add(*value));
    (count + values.len(), sums.fold(sum, u64::wrapping_add))
}

/// Returns the count and sum of the entries that a map reads between bounds.
pub(crate) fn sum_of_reads(map: &impl ExclusiveMap, lower: u64, upper: u64) -> (usize, u64) {
    let (mut all, mut entries, mut from) = ((0, 0), Vec::new(), Some(lower));
    while let Some(lower) = from {
        entries.clear();
        from = map.read_up(lower, upper, &mut entries);
        all = entries.iter().copied().fold(all, add_entry);
    }
    all
}

impl SerialSubject for NearSortedTree {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        Self::get(self, key)
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let mut all = (0, 0);
        self.visit(lower..=upper, |keys, values| all = add(all, keys, values));
        all
    }

    fn sum_sorting(&mut self, lower: u64, upper: u64) -> Option<(usize, u64)> {
        let mut all = (0, 0);
        self.scan(lower..=upper, |keys, values| all = add(all, keys, values));
        Some(all)
    }

    fn drain(&mut self) {
        self.drain();
    }

    fn space(&self) -> Option<(usize, f64)> {
        Some((self.bytes(), self.fill()))
    }
}

impl SerialSubject for PackedTree {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        Self::get(self, key)
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let mut all = (0, 0);
        self.visit(lower..=upper, |keys, values| all = add(all, keys, values));
        all
    }

    fn space(&self) -> Option<(usize, f64)> {
        Some((self.bytes(), self.fill()))
    }

    fn leaf_splits(&self) -> Option<u64> {
        Some(self.leaf_splits())
    }
}

impl SerialSubject for SaTree<PackedTree> {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        get_sorting(self, key)
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        sum_of_reads(self, lower, upper)
    }

    fn drain(&mut self) {
        self.drain();
    }

    fn space(&self) -> Option<(usize, f64)> {
        Some((self.base().bytes() + self.buffer_bytes(), self.base().fill()))
    }

    fn top_inserts_percent(&self) -> Option<f64> {
        let drained = self.drained();
        let all = drained.top_inserts + drained.appended;
        Some(drained.top_inserts as f64 * 100.0 / all.max(1) as f64)
    }

    fn leaf_splits(&self) -> Option<u64> {
        Some(self.base().leaf_splits())
    }
}

/// A lookup first sorts the entries it would scan if the paper's threshold says so.
#[inline]
pub(crate) fn get_sorting<T: BaseTree>(tree: &mut SaTree<T>, key: u64) -> Option<u64> {
    if tree.wants_preparation() {
        tree.prepare_reads();
    }
    SaTree::get(tree, key)
}

impl SerialSubject for BTreeMap<u64, u64> {
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        Self::get(self, &key).copied()
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let entries = self.range(lower..=upper).map(|(&key, &value)| (key, value));
        entries.fold((0, 0), add_entry)
    }
}
