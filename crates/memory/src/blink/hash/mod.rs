//! Blink-hash: a B-link tree with hash leaves (Cha, Hao, Wang, Zhang, Akella, Yu, "Blink-hash: An Adaptive Hybrid Index
//! for In-Memory Time-Series Databases", PVLDB 16(6), 2023).
//!
//! Keys that ascend all go to the right-most leaf. Here it is a hash table of many buckets with a latch each, so
//! writers rarely meet; it is split lazily ([`settle`]), and leaves that are scanned are converted to sorted ones
//! ([`convert`]).
//!
//! # Rules
//!
//! 1. The right-most leaf is a hash leaf, and is never converted.
//! 2. A leaf's latch protects its fences, links, generation and whether it is frozen; a bucket's latch its entries. Who
//!    writes entries validates the leaf's version with all latches in hand; a split in between moves what was
//!    written when the bucket settles.
//! 3. Operations on a key hold the latch of its home bucket, so they exclude each other wherever the entry is.
//! 4. Nobody waits for a latch while holding one, nor for a leaf's ordered view ([`ordered_view`]), whose lock comes
//!    before latches.
//!
//! # Departures from the paper, and why
//!
//! - *A split latches no bucket*: it moves the leaf's generation on, which unsettles all of them at once. The paper
//!   latches every bucket; writers then wait for the whole leaf.
//! - *An insert looks for its key* wherever it may be, so a key is there once. That would cost a look at every probed
//!   bucket; but the home bucket knows which probes ever ended elsewhere, and mostly none did. Lookups gain by it too.
//! - *A split at the right end keeps most entries* where keys ascend, as B+-trees do; elsewhere it halves a leaf.
//! - *Readers settle a bucket only if it lacks entries*: that of a right half. In a left half they ignore what lies
//!   beyond the fence.
//! - *A hash leaf that is scanned keeps its entries in order too* ([`ordered_view`]), so that the newest are scanned as
//!   quickly as old ones.
//! - *Conversion waits for a writer*: a scan of a hash leaf that is not the right-most asks for it to be converted at the
//!   next split; only where none comes does a later scan convert. A leaf that is being converted stays readable.
//! - *Leaves that ascending keys have left behind* are converted to fuller sorted leaves than others, as full as a B-link
//!   tree's are.
//! - *Left siblings* are found by a descent when they are needed, at conversion. The left pointer names the leaf that
//!   a leaf was split from, for settling. So sorted leaves need not maintain it.

mod bucket;
mod catch_up;
mod check;
mod convert;
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
