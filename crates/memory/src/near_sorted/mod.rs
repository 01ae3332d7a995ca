//! Trees in memory for keys that arrive nearly in order: from `u64` to `u64`, one writer at a time.
//!
//! | | |
//! |---|---|
//! | [`NearSortedTree`] | takes keys in any order at little more than the cost of sorting them |
//! | [`PackedTree`] | the plain tree of packed leaves, which inserts each entry where it belongs |
//!
//! A [`NearSortedTree`] consists of the same packed leaves (`tree/`), a layer of pending entries on
//! top (`pending/`, `join/`), and a tail of the newest keys (`tail/`). Dependencies between the
//! folders point one way: `tail` → `pending` → `join` → `tree`. `bedload-bench run
//! near-sorted-ingest` compares the two with the [buffer of the paper](super::swa_buffer).
//!
//! The paper (Raman, Sarkar, Olma, Athanassoulis, "Indexing for Near-Sorted Data", ICDE 2023)
//! buffers *everything*, sorts the buffer, and drains a part of it: appended after the last leaf
//! where in order, inserted one by one from the root where it overlaps with the tree.
//! [`NearSortedTree`] buffers only keys out of order, and
//!
//! * moves an entry in order once: from the tail, to which it is appended, to the leaf where it
//!   stays;
//! * keeps entries ahead of their time apart (a swap displaces one key late and one ahead; a tail
//!   that follows the greatest key would make *every* key late);
//! * gathers slightly late entries in the tail, as far back as late keys reach, sorts at least a
//!   thousand of them at a time, and packs leaves from the part that no late key reaches;
//! * stages entries that are too late for that, sorts some hundred at a time, and keeps them per
//!   leaf, with fingerprints: a lookup seldom meets them, and a scan merges only those of one leaf;
//! * merges them leaf by leaf, when more than an eighth of a leaf's entries are pending: one pass
//!   serves many, and memory is bounded in any order of input;
//! * merges the pending entries that a scan meets, as a query of the paper sorts them: the next one
//!   finds them in order;
//! * merges them when the tail has moved further ahead than keys were late in the last window, as
//!   measured by the [`Estimator`](bedload_sortedness::Estimator).

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
