//! The indexes that are measured: ours, and those of the registry.

use std::collections::BTreeMap;
use std::ops::Bound;

use bedload_index::mem::{BlinkHash, BlinkTree, OrderedMap};
use bplustree::BPlusTree;
use crossbeam_skiplist::SkipMap;
use parking_lot::RwLock;
use scc::{Guard, TreeIndex};

/// The longest scan of any scenario.
pub const SCAN_MAX: usize = 100;

/// An index from `u64` to `u64` under measurement.
pub trait Subject: Sync {
    /// Puts a value in place.
    fn insert(&self, key: u64, value: u64);

    /// Looks a key up.
    fn get(&self, key: u64) -> Option<u64>;

    /// Reads up to `limit` entries, at most [`SCAN_MAX`], from the least key not below `from`; returns how many there
    /// were and the sum of their values, so that none of it is optimised away.
    fn scan(&self, from: u64, limit: usize) -> (usize, u64);
}

/// A subject's name, and how to make an empty one.
#[derive(Clone, Copy)]
pub struct Entrant {
    /// Its name in reports.
    pub name: &'static str,
    /// Whether it is somebody else's: a peer that panics is reported and left out.
    pub is_peer: bool,
    /// Makes an empty one.
    pub make: fn() -> Box<dyn Subject>,
}

/// The subject that ratios refer to.
pub const BASELINE: &str = "blink-tree";

/// Every subject.
pub const ALL: &[Entrant] = &[
    Entrant {
        name: BASELINE,
        is_peer: false,
        make: || Box::new(Ours(BlinkTree::new())),
    },
    Entrant {
        name: "blink-hash",
        is_peer: false,
        make: || Box::new(Ours(BlinkHash::new())),
    },
    Entrant {
        name: "bplustree",
        is_peer: true,
        make: || Box::new(BPlusTree::new()),
    },
    Entrant {
        name: "scc-tree",
        is_peer: true,
        make: || Box::new(TreeIndex::new()),
    },
    Entrant {
        name: "skip-map",
        is_peer: true,
        make: || Box::new(SkipMap::new()),
    },
    Entrant {
        name: "btree-map",
        is_peer: true,
        make: || Box::new(RwLock::new(BTreeMap::new())),
    },
];

struct Ours<M>(M);

impl<M: OrderedMap<u64>> Subject for Ours<M> {
    fn insert(&self, key: u64, value: u64) {
        self.0.insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(key)
    }

    fn scan(&self, from: u64, limit: usize) -> (usize, u64) {
        let (mut keys, mut values) = ([0; SCAN_MAX], [0; SCAN_MAX]);
        let bounds = (Bound::Included(from), Bound::Unbounded);
        let filled = self.0.scan(bounds, &mut keys[..limit], &mut values[..limit]);
        (filled, sum(values[..filled].iter().copied()))
    }
}

impl Subject for BPlusTree<u64, u64> {
    fn insert(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.lookup(&key, |value| *value)
    }

    fn scan(&self, from: u64, limit: usize) -> (usize, u64) {
        let mut iterator = self.raw_iter();
        iterator.seek(&from);
        let mut found = (0, 0_u64);
        while found.0 < limit
            && let Some((_, value)) = iterator.next()
        {
            found = (found.0 + 1, found.1.wrapping_add(*value));
        }
        found
    }
}

impl Subject for TreeIndex<u64, u64> {
    fn insert(&self, key: u64, value: u64) {
        // An insert refuses a key that is there; the scenarios never give one twice.
        let _ = self.insert_sync(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.peek_with(&key, |_, value| *value)
    }

    fn scan(&self, from: u64, limit: usize) -> (usize, u64) {
        let guard = Guard::new();
        count_and_sum(self.range(from.., &guard).take(limit).map(|(_, value)| *value))
    }
}

impl Subject for SkipMap<u64, u64> {
    fn insert(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key).map(|entry| *entry.value())
    }

    fn scan(&self, from: u64, limit: usize) -> (usize, u64) {
        count_and_sum(self.range(from..).take(limit).map(|entry| *entry.value()))
    }
}

impl Subject for RwLock<BTreeMap<u64, u64>> {
    fn insert(&self, key: u64, value: u64) {
        self.write().insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.read().get(&key).copied()
    }

    fn scan(&self, from: u64, limit: usize) -> (usize, u64) {
        count_and_sum(self.read().range(from..).take(limit).map(|(_, value)| *value))
    }
}

fn sum(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::wrapping_add)
}

fn count_and_sum(values: impl Iterator<Item = u64>) -> (usize, u64) {
    values.fold((0, 0), |(count, sum), value| (count + 1, sum.wrapping_add(value)))
}
