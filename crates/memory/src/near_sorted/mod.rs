//! Trees in memory for keys that arrive nearly in order: from `u64` to `u64`, one writer at a time.
//!
//! | | |
//! |---|---|
//! | [`NearSortedTree`] | takes keys in any order at little more than the cost of sorting them |
//! | [`PackedTree`] | the plain tree of packed leaves, which inserts each entry where it belongs |
//!
//! A [`NearSortedTree`] is the same packed leaves (`tree/`), a layer of pending entries on top (`pending/`, `join/`), and a tail of
//! the newest keys (`tail/`). Arrows between the folders point one way: `tail` → `pending` → `join` → `tree`.
//! `bedload-bench run near-sorted-ingest` compares the two with the [buffer of the paper](super::swa_buffer).
//!
//! The paper (Raman, Sarkar, Olma, Athanassoulis, "Indexing for Near-Sorted Data", ICDE 2023) buffers *everything*, sorts
//! the buffer, and drains a part of it: in order behind the last leaf, entry by entry from the root where it overlaps
//! with the tree. [`NearSortedTree`] buffers only what is out of order, and
//!
//! * moves an entry in order once: from the tail, to which it is appended, to the leaf where it stays;
//! * keeps what is ahead of its time apart, until its time has come (the pairs that a swap displaces are one late and
//!   one ahead; a tail that follows the greatest key would make *every* key late);
//! * gathers what is a little late in the tail, as far back as late keys reach, sorts a thousand entries or more of it at a
//!   time, and packs leaves from what no late key reaches any more;
//! * stages what is too late for that, sorts some hundred entries at a time, and keeps them by the leaf to which they
//!   belong, behind fingerprints: a lookup seldom meets them, and a scan has only to merge those of one leaf;
//! * merges them leaf by leaf, when more than an eighth of what a leaf holds waits for it: one pass serves many, and memory
//!   is bounded, whatever the order;
//! * merges what a scan meets, as a query of the paper sorts it: the next one finds it in order;
//! * merges them as soon as the tail is further ahead than keys were late in the last window, by the measure of the
//!   [`Estimator`](bedload_sortedness::Estimator).

mod hash;
mod join;
mod near_sorted_tree;
mod options;
mod pending;
mod range;
mod run;
mod tail;
mod tree;

pub use near_sorted_tree::{ArrivalCounts, NearSortedTree};
pub use options::TreeOptions;
pub use tree::packed_tree::PackedTree;
