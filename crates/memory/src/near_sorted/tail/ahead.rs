//! Entries that are ahead of their time.

use std::collections::BTreeMap;

use crate::near_sorted::options::TreeOptions;
use crate::near_sorted::pending::tree::PendingTree;
use crate::near_sorted::run::SortedRun;
use crate::search::keys::NO_KEY;

/// Entries that are read at once.
const STRETCH_ENTRIES: usize = 256;

/// An ordered queue: entries are inserted anywhere and taken from the front.
///
/// Most are inserted far from the front and in no order, so they are pending in the branches of a
/// separate tree; its first branch is merged and moved to the front as a unit when everything
/// before it has been taken.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Entries up to `near_end`.
    near: BTreeMap<u64, u64>,
    near_end: u64,
    /// Entries above `near_end`.
    far: PendingTree,
    /// The least key; [`NO_KEY`] if there is none.
    first: u64,
}

impl Ahead {
    pub(crate) fn new(options: TreeOptions) -> Self {
        Self {
            near: BTreeMap::new(),
            near_end: 0,
            far: PendingTree::with_options(options),
            first: NO_KEY,
        }
    }

    /// Returns the least key; [`NO_KEY`] if there is none.
    #[inline(always)]
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NO_KEY
    }

    pub(crate) fn insert(&mut self, key: u64, value: u64) {
        self.first = self.first.min(key);
        if key <= self.near_end {
            self.near.insert(key, value);
            return;
        }
        self.far.insert_late(key, value);
    }

    pub(crate) fn get(&self, key: u64) -> Option<u64> {
        if key <= self.near_end {
            return self.near.get(&key).copied();
        }
        self.far.get(key)
    }

    pub(crate) fn remove(&mut self, key: u64) -> Option<u64> {
        let removed = if key <= self.near_end {
            self.near.remove(&key)
        } else {
            self.far.remove(key)
        };
        if key == self.first {
            self.find_first();
        }
        removed
    }

    /// Removes the least entry, if its key is at most this one.
    pub(crate) fn pop_up_to(&mut self, key: u64) -> Option<(u64, u64)> {
        if self.first > key || self.is_empty() {
            return None;
        }
        if self.near.is_empty() {
            self.find_first();
        }
        let popped = self.near.pop_first();
        self.find_first();
        popped
    }

    /// Finds the least key, and moves it to the front if it is not there.
    fn find_first(&mut self) {
        if self.near.is_empty() {
            self.refill();
        }
        self.first = self.near.first_key_value().map_or(NO_KEY, |(&key, _)| key);
    }

    fn refill(&mut self) {
        let mut entries = Vec::new();
        while entries.is_empty() {
            let next = self.far.take_first(&mut entries);
            self.near_end = match (next, entries.last()) {
                (Some(fence), _) => fence - 1,
                (None, Some(&(last, _))) => last,
                (None, None) => return,
            };
        }
        self.near = entries.into_iter().collect();
    }

    /// Reads as [`ExclusiveMap::read_up`](crate::map::exclusive_map::ExclusiveMap::read_up) does.
    pub(crate) fn read_up(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        if lower > self.near_end {
            return self.far.read_up_below(lower, upper, entries);
        }
        let end = upper.min(self.near_end);
        let mut near = self.near.range(lower..=end);
        entries.extend(
            near.by_ref()
                .take(STRETCH_ENTRIES)
                .map(|(&key, &value)| (key, value)),
        );
        match near.next() {
            Some((&key, _)) => Some(key),
            None => (end < upper).then(|| end + 1),
        }
    }

    /// Reads as [`ExclusiveMap::read_down`](crate::map::exclusive_map::ExclusiveMap::read_down)
    /// does.
    pub(crate) fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        if upper > self.near_end {
            let end = lower.max(self.near_end + 1);
            let next = self.far.read_down_below(end, upper, entries);
            return next.or_else(|| (lower < end).then_some(self.near_end));
        }
        let before = entries.len();
        let mut near = self.near.range(lower..=upper).rev();
        entries.extend(
            near.by_ref()
                .take(STRETCH_ENTRIES)
                .map(|(&key, &value)| (key, value)),
        );
        entries[before..].reverse();
        near.next().map(|(&key, _)| key)
    }

    /// Visits all entries between the bounds, ascending.
    pub(crate) fn visit(&self, lower: u64, upper: u64, visit: &mut impl FnMut(&[u64], &[u64])) {
        self.visit_near(lower, upper, visit);
        let from = lower.max(self.near_end + 1);
        if from <= upper {
            self.far.visit_between(from, upper, visit);
        }
    }

    fn visit_near(&self, lower: u64, upper: u64, visit: &mut impl FnMut(&[u64], &[u64])) {
        if lower > self.near_end || lower > upper {
            return;
        }
        let mut stretch = SortedRun::new();
        let mut near = self.near.range(lower..=upper).peekable();
        while near.peek().is_some() {
            stretch.clear();
            let entries = near.by_ref().take(STRETCH_ENTRIES);
            entries.for_each(|(&key, &value)| stretch.push((key, value)));
            visit(&stretch.keys, &stretch.values);
        }
    }

    /// Visits all entries between the bounds, ascending, and [merges](PendingTree::scan_between)
    /// pending ones among them.
    pub(crate) fn scan(
        &mut self,
        (lower, upper): (u64, u64),
        passes: u8,
        visit: &mut impl FnMut(&[u64], &[u64]),
    ) {
        self.visit_near(lower, upper, visit);
        let from = lower.max(self.near_end + 1);
        if from <= upper {
            self.far.scan_between((from, upper), passes, visit);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        /// Bytes that a `BTreeMap` built of sorted 16-byte entries uses per entry.
        const ENTRY_BYTES: usize = 19;
        self.near.len() * ENTRY_BYTES + self.far.bytes()
    }

    /// Checks the invariants.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.far.check()?;
        let mut far = Vec::new();
        self.far
            .visit_between(0, NO_KEY - 1, &mut |keys, _| far.extend_from_slice(keys));
        let least = self.near.keys().chain(&far).min().copied().unwrap_or(NO_KEY);
        if least != self.first {
            return Err(format!("{} is not the first key ahead, but {least}", self.first));
        }
        let is_apart = self
            .near
            .last_key_value()
            .is_none_or(|(&last, _)| last <= self.near_end)
            && far.first().is_none_or(|&first| first > self.near_end);
        if is_apart {
            Ok(())
        } else {
            Err("what is far ahead reaches into what is near".into())
        }
    }
}
