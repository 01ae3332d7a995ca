//! Trees in memory for keys that arrive nearly in order, for one thread at a time.

mod ahead;
mod append;
mod bplus_tree;
mod branch;
mod buffer;
mod fence_index;
mod late;
mod leaf;
mod merge;
mod near_sorted;
mod options;
mod pending;
mod range;
mod search;
mod serial_map;

pub use bplus_tree::BPlusTree;
pub use buffer::{BaseTree, BufferOptions, Drained, Filters, SaTree};
pub use near_sorted::{Arrivals, NearSortedTree};
pub use options::TreeOptions;
pub use serial_map::{Locked, SerialMap};
