//! Ordered indexes in memory.
//!
//! For many threads at once:
//!
//! - [`BlinkTree`]: a B-link tree with optimistic reads.
//! - [`BlinkHash`]: a B-link tree whose right-most leaf is a hash table, for many threads that
//!   insert ascending keys.
//! - [`SbTree`]: logs of ascending keys, one for each thread, and sorted blocks that they are
//!   merged into.
//!
//! Their keys are [`u64`], [`i64`] or byte strings of up to 32 bytes; values are 8 bytes. `insert`,
//! `get` and `remove` are linearizable. A range that overlaps writers yields, in order and once
//! each, every key that was present throughout, and no key that never was.
//!
//! For one writer at a time, and keys that arrive nearly in order: [`near_sorted`], and the buffer
//! of the SWARE paper, [`swa_buffer`]. They map `u64` to `u64`.
//!
//! Two traits say what all of them can do: [`SharedMap`] of those for many threads,
//! [`ExclusiveMap`] of those for one writer. [`Locked`] puts a lock around an exclusive map, which
//! makes it a shared one.
//!
//! Nothing in this crate opens a file, reads a clock or starts a thread.

mod blink;
mod map;
pub mod near_sorted;
mod sb_tree;
mod search;
pub mod swa_buffer;
mod sync;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use blink::hash::{BlinkHash, BlinkHashOptions};
pub use blink::tree::BlinkTree;
#[cfg(feature = "contract")]
pub use map::contract;
pub use map::exclusive_map::{ExclusiveMap, Locked};
pub use map::key::Key;
pub use map::memory_use::{Measured, MemoryUse};
pub use map::range::Range;
pub use map::shared_map::SharedMap;
pub use sb_tree::{SbTree, SbTreeOptions, SbTreeWork};
#[cfg(feature = "coherence")]
pub use sync::coherence;
