//! The SWARE buffer (Raman, Sarkar, Olma, Athanassoulis, "Indexing for Near-Sorted Data", ICDE
//! 2023), over any tree.
//!
//! Departures from the paper:
//!
//! - The (K,L)-adaptive sort is that of Cook and Kim (1980): entries that break the order are taken
//!   out in pairs, at most 2K, sorted and merged back. Memory is O(K), not O(K + L).
//! - In a page's filter and in the global one, a key sets 6 bits, all in one cache line.
//! - An insert holds the latch of the buffer, shared, while it appends ([`LatchedSaTree`]); in the
//!   paper it lets go once it has the page's. So a drain needs no latch of a page. Arrivals
//!   there have filters for each page, and none for all of them, which would be one cache line for
//!   all writers.
//! - What overlaps with the tree may be held back ([`BufferOptions::held_percent`]).
//! - The estimated K is that of a longest sorted subsequence ([`Estimator`](bedload_sortedness::Estimator)), not the number of
//!   keys below the greatest.
//! - The Bε-tree below it (`PagedBeTree`) has its node buffers as sorted runs, and takes single
//!   changes in batches.
//! - A range sorts a copy of those unsorted entries that lie within it, and only where there are
//!   more unsorted entries than the threshold of query-driven sorting are they sorted in place,
//!   once for all reads.

mod base_tree;
mod entry;
mod filter;
#[cfg(feature = "paged")]
mod first_failure;
mod latched;
mod options;
#[cfg(feature = "paged")]
mod paged_be_tree;
#[cfg(feature = "paged")]
mod paged_tree;
mod sa_tree;
mod search;
mod sort;
mod zone;

pub use latched::LatchedSaTree;
pub use options::{BufferOptions, Filters};
#[cfg(feature = "paged")]
pub use paged_be_tree::PagedBeTree;
#[cfg(feature = "paged")]
pub use paged_tree::PagedTree;
pub use sa_tree::{BaseTree, Drained, SaTree};
