//! Operations on sorted leaves. Each returns `None`, or `false`, if the leaf has changed since it
//! was found.

use std::ops::Bound;

use crossbeam_epoch::Guard;

use super::{FoundNode, Trunk};
use crate::blink::sorted_leaf::SortedLeaf;
use crate::map::key::Key;
use crate::map::output::Output;
use crate::map::range::{End, is_empty};
use crate::search::columns::Words;
use crate::sync::primitive::interleave;

/// Returns the value of a key.
pub(crate) fn get_sorted<W: Words>(
    found: &FoundNode<'_, W>,
    leaf: &SortedLeaf<W>,
    key: &W,
) -> Option<Option<u64>> {
    let (place, is_there) = leaf.search(key);
    let value = if is_there { leaf.value(place) } else { None };
    found.node.latch.validate(found.version).then_some(value)
}

/// Appends the entries between the bounds; returns the leaf's fences.
pub(crate) fn read_sorted<W: Words>(
    found: &FoundNode<'_, W>,
    leaf: &SortedLeaf<W>,
    (lower, upper): (Bound<W>, Bound<W>),
    entries: &mut Vec<(W, u64)>,
    guard: &Guard,
) -> Option<Fences<W>> {
    let before = entries.len();
    let places = leaf.places(lower, upper);
    entries.extend(leaf.entries(places));
    let high = found.node.right(guard).map(|(high, _)| high);
    if found.node.latch.validate(found.version) {
        return Some(Fences { low: found.low, high });
    }
    entries.truncate(before);
    None
}

/// How far a scan has come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scanned<W> {
    /// To the end of the range or of the output.
    ToTheEnd,
    /// Up to this bound, where a leaf has changed or is of another type.
    UpTo(Bound<W>),
}

/// Copies entries between the bounds, from the leaf found and those to its right.
pub(crate) fn scan_sorted<'g, K: Key>(
    found: &FoundNode<'g, K::Words>,
    leaf: &'g SortedLeaf<K::Words>,
    (mut lower, upper): (Bound<K::Words>, Bound<K::Words>),
    output: &mut Output<'_, K>,
    guard: &'g Guard,
) -> Scanned<K::Words> {
    let (mut node, mut version, mut leaf) = (found.node, found.version, leaf);
    loop {
        let before = output.filled();
        let places = leaf.places(lower, upper);
        let right = node.right(guard);
        if let Some((_, next)) = right {
            let wanted = output.room().saturating_sub(places.len());
            SortedLeaf::prefetch_first(next, wanted);
        }
        leaf.copy_to(places, output);
        if !node.latch.validate(version) {
            output.truncate(before);
            return Scanned::UpTo(lower);
        }
        let Some((fence, next)) = right else {
            return Scanned::ToTheEnd;
        };
        lower = Bound::Included(fence);
        if output.room() == 0 || is_empty(lower, upper) {
            return Scanned::ToTheEnd;
        }
        interleave();
        let (Some(next_leaf), Some(next_version)) = (next.downcast(), next.latch.optimistic()) else {
            return Scanned::UpTo(lower);
        };
        (node, version, leaf) = (next, next_version, next_leaf);
    }
}

/// The fences of a leaf.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fences<W> {
    pub(crate) low: Option<W>,
    pub(crate) high: Option<W>,
}

impl<W> Fences<W> {
    /// Returns the fence at which a reader that comes from this end continues.
    pub(crate) fn behind(self, from: End) -> Option<W> {
        match from {
            End::Least => self.high,
            End::Greatest => self.low,
        }
    }
}

impl<W: Words> Trunk<W> {
    /// Inserts an entry into the leaf found for it.
    pub(crate) fn insert_sorted(
        &self,
        found: &FoundNode<'_, W>,
        leaf: &SortedLeaf<W>,
        key: W,
        value: u64,
        guard: &Guard,
    ) -> bool {
        let (place, is_there) = leaf.search(&key);
        interleave();
        let Some(latched) = found.node.latch.try_latch(found.version) else {
            return false;
        };
        if is_there {
            leaf.set_value(place, value, latched.writer());
        } else if !leaf.is_full() {
            leaf.insert(place, key, value, latched.writer());
        } else {
            let was_rightmost = leaf.header().is_rightmost();
            // The right-most leaf may not know its low fence.
            let is_leftmost = found.low.is_none() && !was_rightmost;
            let (fence, right) = leaf.split(is_leftmost, place, key, value, latched.writer(), guard);
            if was_rightmost {
                self.set_rightmost(right, latched.writer());
            }
            drop(latched);
            self.insert_separator(fence, right, guard);
        }
        true
    }

    /// Removes a key from the leaf found for it; returns its value.
    pub(crate) fn remove_sorted(
        &self,
        found: &FoundNode<'_, W>,
        leaf: &SortedLeaf<W>,
        key: W,
        guard: &Guard,
    ) -> Option<Option<u64>> {
        let (place, is_there) = leaf.search(&key);
        if !is_there {
            return found.node.latch.validate(found.version).then_some(None);
        }
        interleave();
        let latched = found.node.latch.try_latch(found.version)?;
        let value = leaf.value(place);
        leaf.remove(place, latched.writer());
        let (is_underfull, is_empty) = (leaf.is_underfull(), leaf.len() == 0);
        drop(latched);
        if is_underfull {
            self.merge_around(key, is_empty, guard);
        }
        Some(value)
    }
}
