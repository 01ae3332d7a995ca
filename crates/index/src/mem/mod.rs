//! Ordered indexes in memory, for many threads at once.
//!
//! - [`BlinkTree`]: a B-link tree with optimistic reads.
//! - [`BlinkHash`]: a B-link tree whose right-most leaf is a hash table, for many threads that insert ascending keys.
//! - [`SbTree`]: logs of ascending keys, one for each thread, and sorted blocks that they are merged into.
//! - [`HeadIndex`]: one of these three for new keys, chosen by how much of the input is late.
//!
//! Keys are [`u64`], [`i64`] or byte strings of up to 32 bytes; values are 8 bytes. `insert`, `get` and `remove` are
//! linearizable. A range that overlaps writers yields, in order and once each, every key that was present
//! throughout, and no key that never was.

mod aim;
mod asymmetric_fence;
mod blink_hash;
mod blink_tree;
#[cfg(feature = "coherence")]
pub mod coherence;
mod columns;
#[cfg(feature = "contract")]
pub mod contract;
mod copy;
#[cfg(all(test, loom))]
mod exploration;
mod head_index;
mod inner;
mod key;
mod memory_use;
mod node;
mod ordered_map;
mod output;
pub(crate) mod prefetch;
mod primitive;
mod range;
#[cfg(all(feature = "coherence", not(loom)))]
mod reporting;
mod sb_tree;
mod search;
#[cfg(all(test, not(loom)))]
mod small_nodes;
mod sorted_leaf;
mod trunk;
mod version_latch;

pub use blink_hash::{BlinkHash, BlinkHashOptions};
pub use blink_tree::BlinkTree;
pub use head_index::{HeadIndex, HeadIndexOptions, HeadKind, HeadWork};
pub use key::Key;
pub use memory_use::{Measured, MemoryUse};
pub use ordered_map::OrderedMap;
pub use range::Range;
pub(crate) use range::{End, Leaves};
pub use sb_tree::{SbTree, SbTreeOptions, Work};
