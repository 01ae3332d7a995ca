//! Our indexes, and variants of them.

use std::ops::Bound;

use bedload_memory::{
    BlinkHash, BlinkHashOptions, BlinkTree, Measured, MemoryUse, SbTree, SbTreeOptions, SbTreeWork, SharedMap,
};

use super::contract::{AnyKey, Subject, count_and_sum};

/// An index, and its capabilities beyond a map.
struct Ours<M> {
    index: M,
    reserve: fn(&M, usize),
    settle: fn(&M),
    work: fn(&M) -> Option<SbTreeWork>,
}

impl<M> Ours<M> {
    fn new(index: M) -> Self {
        Self {
            index,
            reserve: |_, _| {},
            settle: |_| {},
            work: |_| None,
        }
    }
}

impl<K: AnyKey, M: SharedMap<K> + Measured> Subject<K> for Ours<M> {
    fn insert(&self, key: K, value: u64) {
        self.index.insert(key, value);
    }

    fn get(&self, key: K) -> Option<u64> {
        self.index.get(key)
    }

    fn scan(&self, from: K, limit: usize) -> (usize, u64) {
        let bounds = (Bound::Included(from), Bound::Unbounded);
        K::with_room(|keys, values| {
            let filled = self.index.scan(bounds, &mut keys[..limit], &mut values[..limit]);
            count_and_sum(values[..filled].iter().copied())
        })
    }

    fn reserve(&self, entries: usize) {
        (self.reserve)(&self.index, entries);
    }

    fn settle(&self) {
        (self.settle)(&self.index);
    }

    fn work(&self) -> Option<SbTreeWork> {
        (self.work)(&self.index)
    }

    fn memory_use(&self) -> Option<MemoryUse> {
        Some(self.index.memory_use())
    }
}

pub(super) fn blink_tree<K: AnyKey>() -> Box<dyn Subject<K>> {
    Box::new(Ours::new(BlinkTree::new()))
}

pub(super) fn blink_hash<K: AnyKey>() -> Box<dyn Subject<K>> {
    Box::new(Ours::new(BlinkHash::new()))
}

/// Converts all leaves but the right-most after the inserts (Figures 1, 2, 6c and 7c of the SB-tree
/// paper).
pub(super) fn blink_hash_converted<K: AnyKey>() -> Box<dyn Subject<K>> {
    Box::new(Ours {
        settle: |index: &BlinkHash<K>| {
            index.convert_all();
        },
        ..Ours::new(BlinkHash::<K>::new())
    })
}

fn with_logs<K: AnyKey>(options: SbTreeOptions) -> Ours<SbTree<K>> {
    Ours {
        settle: SbTree::settle,
        work: |index| Some(index.work()),
        ..Ours::new(SbTree::with_options(options))
    }
}

pub(super) fn sb_tree<K: AnyKey>() -> Box<dyn Subject<K>> {
    Box::new(with_logs(SbTreeOptions::new()))
}

/// Limits the length of logs, to vary how often writers contend.
#[cfg(feature = "coherence")]
pub(super) fn sb_tree_with_logs_of<const ENTRIES: usize>() -> Box<dyn Subject> {
    Box::new(with_logs(SbTreeOptions::new().log_entries_max(ENTRIES)))
}

/// With memory allocated and touched before the first insert.
pub(super) fn sb_tree_reserved() -> Box<dyn Subject> {
    Box::new(Ours {
        reserve: SbTree::reserve,
        ..with_logs(SbTreeOptions::new())
    })
}

pub(super) fn variant(options: BlinkHashOptions) -> Box<dyn Subject> {
    Box::new(Ours::new(BlinkHash::with_options(options)))
}
