//! The layer of pending entries: late entries are staged, then kept per leaf, and merged leaf by
//! leaf.

mod by_leaf;
mod merge;
mod range;
pub(crate) mod scan;
mod scratch;
pub(crate) mod stage;
pub(crate) mod tree;
mod window;
