//! Reading many entries, from hash leaves and sorted ones.

use std::ops::{Bound, RangeBounds};

use crossbeam_epoch::{self as epoch, Guard};

use super::BlinkHash;
use super::hash_leaf::HashLeaf;
use super::ordered_view::ToRead;
use crate::blink::aim::Aim;
use crate::blink::node::NodePtr;
use crate::blink::sorted_leaf::SortedLeaf;
use crate::blink::trunk::{FoundNode, Scanned, read_sorted, scan_sorted};
use crate::map::key::Key;
use crate::map::output::Output;
use crate::map::range::{End, Leaves, is_empty, words_of};
use crate::search::columns::Words;
use crate::sync::primitive::interleave;

/// Entries that an iterator takes from a hash leaf at once.
const CHUNK: usize = 512;

/// Passes the entries of a hash leaf between the bounds, ascending, to `take`. `None` if the leaf
/// has changed; the entries passed are then invalid.
fn read_hash<W: Words, R>(
    found: &FoundNode<'_, W>,
    leaf: &HashLeaf<W>,
    (lower, upper): (Bound<W>, Bound<W>),
    guard: &Guard,
    take: impl FnOnce(&[(W, u64)]) -> R,
) -> Option<R> {
    let mut locked = leaf.view().lock_to_read();
    if let ToRead::Behind(entries) = &mut locked
        && !leaf.catch_up(entries, found.version, guard)
    {
        return None;
    }
    let view: &[_] = match &locked {
        ToRead::Current(entries) => entries,
        ToRead::Behind(entries) => entries,
    };
    interleave();
    let from = match lower {
        Bound::Included(lower) => view.partition_point(|entry| entry.0 < lower),
        Bound::Excluded(lower) => view.partition_point(|entry| entry.0 <= lower),
        Bound::Unbounded => 0,
    };
    let to = match upper {
        Bound::Included(upper) => view.partition_point(|entry| entry.0 <= upper),
        Bound::Excluded(upper) => view.partition_point(|entry| entry.0 < upper),
        Bound::Unbounded => view.len(),
    };
    let taken = take(&view[from..to.max(from)]);
    found.node.latch.validate(found.version).then_some(taken)
}

impl<K: Key> BlinkHash<K> {
    /// Copies the first entries whose keys lie in `bounds`, ascending, to the beginning of `keys`
    /// and `values`; returns how many. It stops at the end of the range or of the shorter slice: to
    /// continue, begin after the last key.
    ///
    /// Takes O(1) for each entry. Entries inserted into a hash leaf since its last scan are sorted
    /// first.
    pub fn scan(&self, bounds: impl RangeBounds<K>, keys: &mut [K], values: &mut [u64]) -> usize {
        let (mut lower, upper) = words_of(bounds);
        let mut output = Output::new(keys, values);
        let guard = &epoch::pin();
        while output.room() > 0 && !is_empty(lower, upper) {
            let Some(found) = self.trunk.find_leaf_to_scan(&Aim::least(lower), guard) else {
                continue;
            };
            if let Some(leaf) = found.node.downcast::<SortedLeaf<K::Words>>() {
                match scan_sorted(&found, leaf, (lower, upper), &mut output, guard) {
                    Scanned::ToTheEnd => break,
                    Scanned::UpTo(bound) => lower = bound,
                }
            } else if let Some(leaf) = found.node.downcast::<HashLeaf<K::Words>>() {
                let high = found.node.right(guard).map(|(high, _)| high);
                let before = output.filled();
                let read = read_hash(&found, leaf, (lower, upper), guard, |entries| {
                    output.extend(entries.iter().copied());
                });
                match (read, high) {
                    (None, _) => output.truncate(before),
                    (Some(()), high) => {
                        self.note_scan(found.node, leaf, guard);
                        let Some(high) = high else { break };
                        lower = Bound::Included(high);
                    }
                }
            }
        }
        output.filled()
    }

    /// Arranges for a scanned leaf to be converted, unless it is the right-most.
    fn note_scan(&self, node: NodePtr<'_, K::Words>, leaf: &HashLeaf<K::Words>, guard: &Guard) {
        if node.is_rightmost() {
            return;
        }
        let scans = leaf.note_scan();
        if scans == 1 {
            self.ask_for_conversion(leaf.low());
        }
        if scans >= self.options.scans_before_conversion {
            self.convert(leaf.low(), guard);
        }
    }
}

impl<K: Key> Leaves<K::Words> for BlinkHash<K> {
    fn read(
        &self,
        from: End,
        is_first: bool,
        bounds: (Bound<K::Words>, Bound<K::Words>),
        entries: &mut Vec<(K::Words, u64)>,
    ) -> Option<K::Words> {
        let guard = &epoch::pin();
        loop {
            let found = self.trunk.find_leaf_to_scan(&Aim::end(from, bounds), guard)?;
            if let Some(leaf) = found.node.downcast::<SortedLeaf<K::Words>>() {
                if let Some(fences) = read_sorted(&found, leaf, bounds, entries, guard) {
                    return fences.behind(from);
                }
            } else if let Some(leaf) = found.node.downcast::<HashLeaf<K::Words>>() {
                let high = found.node.right(guard).map(|(high, _)| high);
                let chunk = read_hash(&found, leaf, bounds, guard, |between| {
                    let (chunk, next, fence) = match from {
                        End::Least => {
                            let (chunk, rest) = between.split_at(between.len().min(CHUNK));
                            (chunk, rest.first(), high)
                        }
                        End::Greatest => {
                            let (rest, chunk) = between.split_at(between.len().saturating_sub(CHUNK));
                            (chunk, chunk.first().filter(|_| !rest.is_empty()), leaf.low())
                        }
                    };
                    (chunk.to_vec(), next.map(|entry| entry.0).or(fence))
                });
                if let Some((mut chunk, next)) = chunk {
                    entries.append(&mut chunk);
                    let begins_leaf = match (from, bounds) {
                        (End::Least, (Bound::Included(lower), _)) => leaf.low() == Some(lower),
                        (End::Greatest, (_, Bound::Excluded(upper))) => high == Some(upper),
                        _ => false,
                    };
                    // Once for all the chunks of a leaf.
                    if is_first || begins_leaf {
                        self.note_scan(found.node, leaf, guard);
                    }
                    return next;
                }
            }
        }
    }
}
