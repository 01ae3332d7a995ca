//! Our indexes, and variants of them.

use std::ops::Bound;

use bedload_memory::{
    BlinkHash, BlinkHashOptions, BlinkTree, HeadIndex, Measured, MemoryUse, SbTree, SbTreeWork, SharedMap,
};

use super::{AnyKey, BASELINE, Entrant, Subject, count_and_sum};

struct Ours<M>(M);

impl<K: AnyKey, M: SharedMap<K> + Measured> Subject<K> for Ours<M> {
    fn insert(&self, key: K, value: u64) {
        self.0.insert(key, value);
    }

    fn get(&self, key: K) -> Option<u64> {
        self.0.get(key)
    }

    fn scan(&self, from: K, limit: usize) -> (usize, u64) {
        let bounds = (Bound::Included(from), Bound::Unbounded);
        K::with_room(|keys, values| {
            let filled = self.0.scan(bounds, &mut keys[..limit], &mut values[..limit]);
            count_and_sum(values[..filled].iter().copied())
        })
    }

    fn memory_use(&self) -> Option<MemoryUse> {
        Some(self.0.memory_use())
    }
}

pub(super) const fn blink_tree<K: AnyKey>() -> Entrant<K> {
    Entrant {
        name: BASELINE,
        is_peer: false,
        make: || Box::new(Ours(BlinkTree::new())),
    }
}

pub(super) const fn blink_hash<K: AnyKey>() -> Entrant<K> {
    Entrant {
        name: "blink-hash",
        is_peer: false,
        make: || Box::new(Ours(BlinkHash::new())),
    }
}

/// An index that puts work off until after the inserts, and can have memory set aside before them.
trait Settles {
    fn reserve(&self, entries: usize);
    fn settle(&self);

    fn work(&self) -> Option<SbTreeWork> {
        None
    }
}

impl<K: AnyKey> Settles for SbTree<K> {
    fn reserve(&self, entries: usize) {
        self.reserve(entries);
    }

    fn settle(&self) {
        self.settle();
    }

    fn work(&self) -> Option<SbTreeWork> {
        Some(self.work())
    }
}

impl<K: AnyKey> Settles for HeadIndex<K> {
    fn reserve(&self, entries: usize) {
        self.reserve(entries);
    }

    fn settle(&self) {
        self.settle();
    }
}

/// One of these; with what it has put off, and perhaps with memory that is there before the first insert.
struct Settling<M> {
    index: Ours<M>,
    reserves: bool,
}

impl<K: AnyKey, M: SharedMap<K> + Measured + Settles> Subject<K> for Settling<M> {
    fn insert(&self, key: K, value: u64) {
        self.index.insert(key, value);
    }

    fn get(&self, key: K) -> Option<u64> {
        self.index.get(key)
    }

    fn scan(&self, from: K, limit: usize) -> (usize, u64) {
        self.index.scan(from, limit)
    }

    fn reserve(&self, entries: usize) {
        if self.reserves {
            self.index.0.reserve(entries);
        }
    }

    fn settle(&self) {
        self.index.0.settle();
    }

    fn work(&self) -> Option<SbTreeWork> {
        self.index.0.work()
    }

    fn memory_use(&self) -> Option<MemoryUse> {
        Subject::<K>::memory_use(&self.index)
    }
}

fn make_settling<K, M>(index: M, reserves: bool) -> Box<dyn Subject<K>>
where
    K: AnyKey,
    M: SharedMap<K> + Measured + Settles + 'static,
{
    let index = Ours(index);
    Box::new(Settling { index, reserves })
}

pub(super) const fn sb_tree<K: AnyKey>() -> Entrant<K> {
    Entrant {
        name: "sb-tree",
        is_peer: false,
        make: || make_settling(SbTree::new(), false),
    }
}

#[cfg(feature = "coherence")]
fn with_logs_of(entries: usize) -> Box<dyn Subject> {
    let options = bedload_memory::SbTreeOptions::new().log_entries_max(entries);
    make_settling(SbTree::with_options(options), false)
}

/// SB-trees with logs of so many entries at most, for how often writers meet.
#[cfg(feature = "coherence")]
pub const LOG_SIZES: &[Entrant] = &[
    Entrant {
        name: "sb-tree-log-64",
        is_peer: false,
        make: || with_logs_of(64),
    },
    Entrant {
        name: "sb-tree-log-512",
        is_peer: false,
        make: || with_logs_of(512),
    },
];

/// With memory set aside, and touched, before the first insert.
pub(super) const fn sb_tree_reserved() -> Entrant {
    Entrant {
        name: "sb-tree-reserved",
        is_peer: false,
        make: || make_settling(SbTree::new(), true),
    }
}

/// The same under another name, as [`same_again`] is the baseline.
pub(super) const fn sb_tree_again() -> Entrant {
    Entrant {
        name: "sb-tree-again",
        ..sb_tree_reserved()
    }
}

/// What chooses among the three.
pub(super) const fn head<K: AnyKey>() -> Entrant<K> {
    Entrant {
        name: "head",
        is_peer: false,
        make: || make_settling(HeadIndex::new(), false),
    }
}

/// With memory set aside, and touched, before the first insert.
pub(super) const fn head_reserved() -> Entrant {
    Entrant {
        name: "head-reserved",
        is_peer: false,
        make: || make_settling(HeadIndex::new(), true),
    }
}

/// A Blink-hash all of whose leaves but the right-most are converted after the inserts (Figures 1, 2, 6c and 7c of the SB-tree
/// paper).
struct Converted<K: AnyKey>(Ours<BlinkHash<K>>);

impl<K: AnyKey> Subject<K> for Converted<K> {
    fn insert(&self, key: K, value: u64) {
        self.0.insert(key, value);
    }

    fn get(&self, key: K) -> Option<u64> {
        self.0.get(key)
    }

    fn scan(&self, from: K, limit: usize) -> (usize, u64) {
        self.0.scan(from, limit)
    }

    fn settle(&self) {
        self.0.0.convert_all();
    }

    fn memory_use(&self) -> Option<MemoryUse> {
        self.0.memory_use()
    }
}

pub(super) const fn blink_hash_converted<K: AnyKey>() -> Entrant<K> {
    Entrant {
        name: "blink-hash-converted",
        is_peer: false,
        make: || Box::new(Converted(Ours(BlinkHash::new()))),
    }
}

/// The baseline under another name: what differs between the two is noise.
pub(super) const fn same_again() -> Entrant {
    Entrant {
        name: "same-again",
        ..blink_tree()
    }
}

const NEVER: u32 = u32::MAX;

macro_rules! variants {
    ($($name:literal: $($option:ident($value:expr)).*;)*) => {
        &[
            blink_tree(),
            $(Entrant {
                name: $name,
                is_peer: false,
                make: || {
                    let options = BlinkHashOptions::new().$($option($value)).*;
                    Box::new(Ours(BlinkHash::with_options(options)))
                },
            },)*
        ]
    };
}

/// What makes a B-link tree a Blink-hash, one step after another (Figure 12).
pub const FACTORS: &[Entrant] = variants! {
    "+hash-leaf": sample_percent(100).append_percentile(50).lazy_split(false).scans_before_conversion(NEVER);
    "+median": append_percentile(50).lazy_split(false).scans_before_conversion(NEVER);
    "+lazy-split": append_percentile(50).scans_before_conversion(NEVER);
    "+adaptation": append_percentile(50);
    "+append": append_percentile(90);
};

/// One parameter changed at a time: where a leaf splits, how large it is, how much is sampled, how far is probed (Tables
/// 2 and 3, Figures 13 and 14).
pub const TUNINGS: &[Entrant] = variants! {
    "defaults": append_percentile(90);
    "split-50": append_percentile(50).split_percentile(50);
    "split-60": append_percentile(60).split_percentile(60);
    "split-70": append_percentile(70).split_percentile(70);
    "split-80": append_percentile(80).split_percentile(80);
    "split-90": append_percentile(90).split_percentile(90);
    "node-64k": node_bytes(64 << 10);
    "node-128k": node_bytes(128 << 10);
    "node-512k": node_bytes(512 << 10);
    "sample-1": sample_percent(1);
    "sample-5": sample_percent(5);
    "sample-10": sample_percent(10);
    "probes-2": probes(2);
    "probes-8": probes(8);
};
