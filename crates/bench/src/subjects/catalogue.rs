//! The subjects of each scenario.

use bedload_memory::BlinkHashOptions;

use super::contract::{Address, Make, MakeRows};
use super::lmdb::Lmdb;
#[cfg(feature = "rocksdb")]
use super::rocksdb::RocksDb;
#[cfg(feature = "wiredtiger")]
use super::wiredtiger;
use super::{bedload, buffered, indexes, limits, peers, sqlite};

use crate::runner::Entrant;

const fn ours<K>(name: &'static str, make: Make<K>) -> Entrant<Make<K>> {
    Entrant {
        name,
        is_peer: false,
        make,
    }
}

/// Creates an entrant of a third party: one that panics is reported and excluded.
const fn peer<K>(name: &'static str, make: Make<K>) -> Entrant<Make<K>> {
    Entrant {
        name,
        is_peer: true,
        make,
    }
}

/// The baseline of a scenario again: the deviation of its ratio from 1 is the noise of a run.
pub(crate) const SAME_AGAIN: &str = "same-again";

/// The subject that ratios refer to.
pub const BASELINE: &str = "blink-tree";

/// The ordered indexes.
pub const INDEXES: &[Entrant<Make>] = &[
    ours(BASELINE, indexes::blink_tree),
    ours("blink-hash", indexes::blink_hash),
    ours("blink-hash-converted", indexes::blink_hash_converted),
    ours("sb-tree", indexes::sb_tree),
    ours("sb-tree-reserved", indexes::sb_tree_reserved),
    ours("sb-tree-again", indexes::sb_tree_reserved),
    ours(SAME_AGAIN, indexes::blink_tree),
    peer("bplustree", peers::bplustree),
    peer("scc-tree", peers::scc_tree),
    peer("skip-map", peers::skip_map),
    peer("btree-map", peers::btree_map),
    peer("concurrent-map", peers::concurrent_map),
    peer("congee", peers::congee),
];

/// The tree that has nothing to convert, and Blink-hash as it was loaded and converted beforehand.
pub const CONVERTING: &[Entrant<Make>] = &[
    ours(BASELINE, indexes::blink_tree),
    ours("blink-hash", indexes::blink_hash),
    ours("blink-hash-converted", indexes::blink_hash_converted),
];

/// The SB-tree, which reports its conversions and searches.
pub const SEGMENTED: &[Entrant<Make>] = &[
    ours("sb-tree", indexes::sb_tree),
    ours("sb-tree-reserved", indexes::sb_tree_reserved),
];

/// The ordered indexes, and plain storage of stamped keys.
#[must_use]
pub fn indexes_and_ceiling() -> Vec<Entrant<Make>> {
    [INDEXES, &[peer("ceiling", limits::ceiling)]].concat()
}

/// The ordered indexes, and a hash table.
#[must_use]
pub fn indexes_and_hash_table() -> Vec<Entrant<Make>> {
    [INDEXES, &[peer("scc-map", limits::hash_table)]].concat()
}

/// The ordered indexes, and the straw men of the Blink-hash paper (§5.6).
#[must_use]
pub fn indexes_and_buffers() -> Vec<Entrant<Make>> {
    [
        INDEXES,
        &[
            peer("flush-on-late", buffered::flush_on_late),
            peer("insert-late", buffered::insert_late),
        ],
    ]
    .concat()
}

/// The ordered indexes that support addresses as keys.
pub const OF_ADDRESSES: &[Entrant<Make<Address>>] = &[
    ours(BASELINE, indexes::blink_tree),
    ours("blink-hash", indexes::blink_hash),
    ours("blink-hash-converted", indexes::blink_hash_converted),
    ours("sb-tree", indexes::sb_tree),
    peer("bplustree", peers::bplustree),
    peer("scc-tree", peers::scc_tree),
    peer("skip-map", peers::skip_map),
    peer("btree-map", peers::btree_map),
    peer("concurrent-map", peers::concurrent_map),
];

/// SB-trees with logs of different maximum lengths, to vary how often writers contend.
#[cfg(feature = "coherence")]
pub const LOG_SIZES: &[Entrant<Make>] = &[
    ours("sb-tree-log-64", indexes::sb_tree_with_logs_of::<64>),
    ours("sb-tree-log-512", indexes::sb_tree_with_logs_of::<512>),
];

const NEVER: u32 = u32::MAX;

macro_rules! variants {
    ($($name:literal: $($option:ident($value:expr)).*;)*) => {
        &[
            ours(BASELINE, indexes::blink_tree),
            $(ours($name, || indexes::variant(BlinkHashOptions::new().$($option($value)).*)),)*
        ]
    };
}

/// The steps from a B-link tree to a Blink-hash (Figure 12).
pub const FACTORS: &[Entrant<Make>] = variants! {
    "+hash-leaf": sample_percent(100).append_percentile(50).lazy_split(false).scans_before_conversion(NEVER);
    "+median": append_percentile(50).lazy_split(false).scans_before_conversion(NEVER);
    "+lazy-split": append_percentile(50).scans_before_conversion(NEVER);
    "+adaptation": append_percentile(50);
    "+append": append_percentile(90);
};

/// Each changes one parameter: where a leaf splits, its size, how much is sampled, how many buckets
/// are probed (Tables 2 and 3, Figures 13 and 14).
pub const TUNINGS: &[Entrant<Make>] = variants! {
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

/// Every durable store of rows.
pub const ROW_STORES: &[Entrant<MakeRows>] = &[
    rows("sparse", bedload::sparse),
    rows("indexed", bedload::indexed),
    rows(ROW_BASELINE, Lmdb::rows),
    rows("sqlite", sqlite::make),
    #[cfg(feature = "rocksdb")]
    rows("rocksdb", RocksDb::rows),
    #[cfg(feature = "wiredtiger")]
    rows("wiredtiger", wiredtiger::make),
];

/// The store that ratios refer to.
pub const ROW_BASELINE: &str = "lmdb";

const fn rows(name: &'static str, make: MakeRows) -> Entrant<MakeRows> {
    Entrant {
        name,
        is_peer: false,
        make,
    }
}

/// Returns the names of entrants.
#[must_use]
pub fn names<M>(entrants: &[Entrant<M>]) -> Vec<&'static str> {
    entrants.iter().map(|entrant| entrant.name).collect()
}
