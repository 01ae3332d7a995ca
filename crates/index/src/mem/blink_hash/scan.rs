//! Reading many entries, sorted or not.

use std::ops::{Bound, RangeBounds};

use crossbeam_epoch::{self as epoch, Guard};

use super::super::columns::Words;
use super::super::key::Key;
use super::super::node::NodePtr;
use super::super::primitive::{Backoff, interleave};
use super::super::range::{Leaves, is_empty, words_of};
use super::super::sorted_leaf::SortedLeaf;
use super::super::trunk::{Aim, Found, read_sorted};
use super::BlinkHash;
use super::hash_leaf::HashLeaf;
use super::settle::settle;

/// Entries that an iterator takes from a hash leaf at once: each time costs a look at every bucket.
const CHUNK: usize = 512;

/// Which entries of a leaf are wanted.
#[derive(Debug, Clone, Copy)]
struct Wanted<W> {
    lower: Bound<W>,
    upper: Bound<W>,
    limit: usize,
    /// The greatest, and not the least, if there are more than `limit`.
    greatest: bool,
}

/// The best entries seen so far, at most twice as many as wanted.
struct Selection<'e, W: Words> {
    wanted: Wanted<W>,
    entries: &'e mut Vec<(W, u64)>,
    start: usize,
    /// Keys beyond this one are not among the wanted.
    edge: Option<W>,
    is_cut: bool,
}

impl<'e, W: Words> Selection<'e, W> {
    fn new(wanted: Wanted<W>, entries: &'e mut Vec<(W, u64)>) -> Self {
        let start = entries.len();
        Self {
            wanted,
            entries,
            start,
            edge: None,
            is_cut: false,
        }
    }

    fn accepts(&self, key: W) -> bool {
        let above = match self.wanted.lower {
            Bound::Included(lower) => key >= lower,
            Bound::Excluded(lower) => key > lower,
            Bound::Unbounded => true,
        };
        let below = match self.wanted.upper {
            Bound::Included(upper) => key <= upper,
            Bound::Excluded(upper) => key < upper,
            Bound::Unbounded => true,
        };
        above && below
    }

    fn is_beyond_edge(&self, key: W) -> bool {
        self.edge.is_some_and(|edge| {
            if self.wanted.greatest {
                key < edge
            } else {
                key > edge
            }
        })
    }

    fn offer(&mut self, key: W, value: u64) {
        if !self.accepts(key) {
            return;
        }
        if self.is_beyond_edge(key) {
            self.is_cut = true;
            return;
        }
        self.entries.push((key, value));
    }

    /// Keeps no more than twice what is wanted.
    fn prune(&mut self) {
        let limit = self.wanted.limit;
        let found = &mut self.entries[self.start..];
        if limit == 0 || found.len() < limit.saturating_mul(2).saturating_add(64) {
            return;
        }
        let by_key = |a: &(W, u64), b: &(W, u64)| a.0.cmp(&b.0);
        if self.wanted.greatest {
            found.select_nth_unstable_by(limit - 1, |a, b| by_key(b, a));
        } else {
            found.select_nth_unstable_by(limit - 1, by_key);
        }
        self.edge = Some(found[limit - 1].0);
        self.entries.truncate(self.start + limit);
        self.is_cut = true;
    }

    /// Sorts what was wanted; returns whether there is more than that.
    ///
    /// A key that was removed and put back meanwhile may have been seen in two buckets, with a value it had each time;
    /// one of them is enough.
    fn finish(self) -> bool {
        self.entries[self.start..].sort_unstable_by_key(|entry| entry.0);
        self.entries.dedup_by_key(|entry| entry.0);
        let excess = (self.entries.len() - self.start).saturating_sub(self.wanted.limit);
        if self.wanted.greatest {
            self.entries.drain(self.start..self.start + excess);
        } else {
            self.entries.truncate(self.entries.len() - excess);
        }
        self.is_cut || excess > 0
    }
}

/// Appends, ascending, the wanted entries of a hash leaf; returns whether there are more in the leaf. `None` if the
/// leaf has changed.
fn read_hash<W: Words>(
    found: &Found<'_, W>,
    leaf: &HashLeaf<W>,
    wanted: Wanted<W>,
    entries: &mut Vec<(W, u64)>,
    guard: &Guard,
) -> Option<bool> {
    let start = entries.len();
    let mut selection = Selection::new(wanted, entries);
    let high = found.node.right(guard).map(|(high, _)| high);
    for (index, bucket) in leaf.buckets().iter().enumerate() {
        interleave();
        let before = selection.entries.len();
        let was_cut = selection.is_cut;
        let mut backoff = Backoff::default();
        loop {
            let version = bucket.latch.optimistic()?;
            let lacks_entries = bucket.settled() == 0;
            for slot in bucket.entries() {
                let key = bucket.key(slot);
                // What has yet to follow a split belongs to the right sibling.
                if high.is_none_or(|high| key < high) {
                    selection.offer(key, bucket.value(slot));
                }
            }
            if bucket.latch.validate(version) && !lacks_entries {
                break;
            }
            selection.entries.truncate(before);
            selection.is_cut = was_cut;
            if !settle(leaf, index, found.version, guard) {
                if !found.node.latch.validate(found.version) {
                    selection.entries.truncate(start);
                    return None;
                }
                backoff.wait();
            }
        }
        selection.prune();
    }
    if found.node.latch.validate(found.version) {
        return Some(selection.finish());
    }
    selection.entries.truncate(start);
    None
}

impl<K: Key> BlinkHash<K> {
    /// Copies the least entries whose keys lie in `bounds`, ascending, to the beginning of `keys` and `values`; returns
    /// how many. It stops where the range or the shorter slice ends: to go on, begin behind the last key.
    ///
    /// In sorted leaves it takes O(1) for each entry; a hash leaf is looked through whole.
    pub fn scan(&self, bounds: impl RangeBounds<K>, keys: &mut [K], values: &mut [u64]) -> usize {
        let (mut lower, upper) = words_of(bounds);
        let limit = keys.len().min(values.len());
        let mut filled = 0;
        let mut entries = Vec::new();
        while filled < limit && !is_empty(lower, upper) {
            entries.clear();
            let next = self.read(
                Wanted {
                    lower,
                    upper,
                    limit: limit - filled,
                    greatest: false,
                },
                &mut entries,
            );
            for (&(key, value), place) in entries.iter().zip(filled..limit) {
                keys[place] = K::from_words(key);
                values[place] = value;
            }
            filled = limit.min(filled + entries.len());
            match next {
                Some(key) => lower = Bound::Included(key),
                None => break,
            }
        }
        filled
    }

    /// Appends, ascending, wanted entries of one leaf; returns where the next are: for the least, the key from which
    /// on nothing was read, and for the greatest, the key below which nothing was read.
    fn read(&self, wanted: Wanted<K::Words>, entries: &mut Vec<(K::Words, u64)>) -> Option<K::Words> {
        let Wanted {
            lower,
            upper,
            greatest,
            ..
        } = wanted;
        let aim = if greatest {
            Aim::greatest(upper)
        } else {
            Aim::least(lower)
        };
        let guard = &epoch::pin();
        let start = entries.len();
        loop {
            let found = self.trunk.find_leaf(&aim, guard)?;
            if let Some(leaf) = found.node.downcast::<SortedLeaf<K::Words>>() {
                if let Some(fences) = read_sorted(&found, leaf, (lower, upper), entries, guard) {
                    return if greatest { fences.low } else { fences.high };
                }
                continue;
            }
            let Some(leaf) = found.node.downcast::<HashLeaf<K::Words>>() else {
                continue;
            };
            // Where the next are is told by the least that was read, or by the greatest, which therefore is one more
            // than wanted and given back.
            let limit = wanted.limit.saturating_add(usize::from(!greatest));
            let high = found.node.right(guard).map(|(high, _)| high);
            let Some(has_more) = read_hash(&found, leaf, Wanted { limit, ..wanted }, entries, guard) else {
                continue;
            };
            self.note_scan(found.node, leaf, guard);
            let has_more = has_more || entries.len() - start > wanted.limit;
            return match (has_more, greatest) {
                (false, true) => leaf.low(),
                (false, false) => high,
                (true, true) => entries.get(start).map(|entry| entry.0),
                (true, false) => entries.pop().map(|entry| entry.0),
            };
        }
    }

    /// Has a leaf that is scanned, and no longer the right-most, converted sooner or later.
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
    fn read_least(
        &self,
        lower: Bound<K::Words>,
        upper: Bound<K::Words>,
        entries: &mut Vec<(K::Words, u64)>,
    ) -> Option<K::Words> {
        self.read(
            Wanted {
                lower,
                upper,
                limit: CHUNK,
                greatest: false,
            },
            entries,
        )
    }

    fn read_greatest(
        &self,
        lower: Bound<K::Words>,
        upper: Bound<K::Words>,
        entries: &mut Vec<(K::Words, u64)>,
    ) -> Option<K::Words> {
        self.read(
            Wanted {
                lower,
                upper,
                limit: CHUNK,
                greatest: true,
            },
            entries,
        )
    }
}
