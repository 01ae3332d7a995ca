//! Blink-hash: a B-link tree with hash leaves (Cha, Hao, Wang, Zhang, Akella, Yu, "Blink-hash: An
//! Adaptive Hybrid Index for In-Memory Time-Series Databases", PVLDB 16(6), 2023).
//!
//! Ascending keys all go to the right-most leaf. Here it is a hash table of many buckets with a
//! latch each, so writers rarely meet; it is split lazily ([`settle`]), and scanned leaves are
//! converted to sorted ones ([`convert`]).
//!
//! # Rules
//!
//! 1. The right-most leaf is a hash leaf, and is never converted.
//! 2. A leaf's latch protects its fences, links, generation and frozen flag; a bucket's latch its
//!    entries. A writer of entries validates the leaf's version while it holds all its latches;
//!    after a later split, its entries move when their bucket settles.
//! 3. Operations on a key hold the latch of its home bucket, so they exclude each other wherever
//!    the entry is.
//! 4. No thread waits for a latch while it holds one, nor for a leaf's ordered view
//!    ([`ordered_view`]), whose lock comes before latches.
//!
//! # Departures from the paper, and why
//!
//! - *A split latches no bucket*: it increments the leaf's generation, which unsettles all of them
//!   at once. The paper latches every bucket; writers then wait for the complete leaf.
//! - *An insert searches for its key* in every bucket where it may be, so a key is stored once.
//!   Instead of all probed buckets it searches those that the home bucket notes as strays of
//!   earlier probes, usually none. Lookups use the notes too.
//! - *A split at the right end keeps most entries* where keys ascend, as in B+-trees, and one at
//!   the left end few where they descend; elsewhere it halves a leaf.
//! - *Readers settle a bucket only if it lacks entries*: one of a right half. In a left half they
//!   ignore entries beyond the fence.
//! - *A scanned hash leaf also keeps its entries in order* ([`ordered_view`]), so that a scan of
//!   the newest entries sorts only those that were inserted since the last one.
//! - *Conversion is left to writers*: a scan of a hash leaf that is not the right-most requests its
//!   conversion at the next split, or look for emptied leaves; only if none follows does a later
//!   scan convert it. A leaf stays readable during conversion.
//! - *Leaves that ascending keys have left behind* are converted to fuller sorted leaves than
//!   others, as full as a B-link tree's are.
//! - *Leaves that removals empty are given back* ([`emptied`]): they are converted to sorted
//!   leaves, which merge.
//! - *Left siblings* are found by a descent when conversion needs them. The left pointer names the
//!   leaf from which a leaf was split, for settling. So sorted leaves need not maintain it.

mod bucket;
mod catch_up;
mod check;
mod convert;
mod emptied;
mod fingerprints;
mod hash_leaf;
mod options;
mod ordered_view;
mod scan;
mod settle;
mod sort;
mod spare_buckets;
mod split;
mod tree;

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;

pub use options::BlinkHashOptions;
pub use tree::BlinkHash;
