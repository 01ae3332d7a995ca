//! Checks of the invariants.

use crossbeam_epoch as epoch;

use super::BlinkHash;
use super::hash_leaf::HashLeaf;
use super::settle::settle_all;
use crate::blink::sorted_leaf::SortedLeaf;
use crate::map::key::Key;
use crate::search::columns::Words;

impl<K: Key> BlinkHash<K> {
    /// Checks the index's invariants: order, fences, links, reachability, and that every entry is
    /// in a bucket where its key is searched. Takes O(n), and settles all buckets. No other
    /// operation may be under way, or it may report errors in a sound index.
    ///
    /// # Errors
    ///
    /// Returns the first violated invariant and its location.
    pub fn check_structure(&self) -> Result<(), String> {
        let guard = &epoch::pin();
        for leaf in self.trunk.check(guard)? {
            let at = || format!("leaf from {:?} to {:?}", leaf.low, leaf.high);
            let mut entries = Vec::new();
            if let Some(sorted) = leaf.node.downcast::<SortedLeaf<K::Words>>() {
                entries.extend(sorted.entries(0..sorted.len()));
            } else if let Some(hash) = leaf.node.downcast::<HashLeaf<K::Words>>() {
                let version = leaf.node.latch.optimistic();
                if hash.low() != leaf.low || hash.is_frozen() {
                    return Err(format!("{}: another low fence, or frozen", at()));
                }
                if version.is_none_or(|version| !settle_all(hash, version, guard)) {
                    return Err(format!("{}: does not settle", at()));
                }
                entries = hash_entries(hash).map_err(|what| format!("{}: {what}", at()))?;
                let mut view = hash.view().lock();
                let is_complete = version.is_some_and(|version| hash.catch_up(&mut view, version, guard));
                if !is_complete || *view != entries {
                    return Err(format!("{}: the ordered view differs from the buckets", at()));
                }
            } else {
                return Err(format!("{}: not a leaf", at()));
            }
            if !entries.is_sorted_by(|a, b| a.0 < b.0) {
                return Err(format!("{}: keys do not ascend, or one is there twice", at()));
            }
            let is_inside =
                |key| leaf.low.is_none_or(|low| low <= key) && leaf.high.is_none_or(|high| key < high);
            if !entries.iter().all(|entry| is_inside(entry.0)) {
                return Err(format!("{}: a key lies outside its fences", at()));
            }
        }
        Ok(())
    }
}

/// Returns the entries of a hash leaf, ascending, after checking that each is found.
fn hash_entries<W: Words>(leaf: &HashLeaf<W>) -> Result<Vec<(W, u64)>, String> {
    let mut entries = Vec::new();
    for bucket in leaf.buckets() {
        entries.extend(
            bucket
                .entries()
                .map(|slot| (bucket.key(slot), bucket.value(slot))),
        );
    }
    for (key, value) in &entries {
        let version = leaf.header().latch.optimistic().ok_or("obsolete")?;
        if leaf.get(key, version) != Ok(Some(*value)) {
            return Err(format!("{key:?} is not where it is looked for"));
        }
    }
    entries.sort_unstable();
    Ok(entries)
}
