//! Shared by all indexes: keys, ranges, the traits of maps, and where their memory goes.

#[cfg(feature = "contract")]
pub mod contract;
pub(crate) mod exclusive_map;
pub(crate) mod key;
pub(crate) mod memory_use;
pub(crate) mod output;
pub(crate) mod range;
pub(crate) mod shared_map;
#[cfg(all(test, not(loom)))]
pub(crate) mod small_nodes;
