//! A B-link tree: a B+-tree whose nodes link to the right, so that a split takes two steps and
//! readers proceed between them (Lehman, Yao, TODS 1981), with optimistic latches instead of locks.
//!
//! Departures from the paper, and why:
//!
//! - *Readers latch nothing* and validate versions instead; writers latch by version, so an insert
//!   that finds its leaf unchanged has nothing else to check.
//! - *Nodes merge* (Sagiv, 1986): a time series is deleted from its old end, and Lehman and Yao
//!   would keep its emptied leaves for ever. Memory is reclaimed by epochs.
//! - *Parents are found again from the root*, not remembered: a split is rare, and a remembered
//!   parent may be obsolete.
//! - *Ascending keys skip the descent*: the right-most leaf is known, and keeps most entries when
//!   it splits.
//!
//! The module is also the baseline for the hash-leaf hybrid ("Blink-hash", PVLDB 16(6), 2023,
//! §5.3).

mod blink_tree;
mod scan;

#[cfg(all(test, not(loom)))]
mod tests;

pub use blink_tree::BlinkTree;
