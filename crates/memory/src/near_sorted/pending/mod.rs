//! The layer of pending entries: late ones are staged, then wait by the leaf to which they belong, and are merged leaf by leaf.

mod by_leaf;
mod merge;
mod range;
pub(crate) mod scan;
mod scratch;
pub(crate) mod stage;
pub(crate) mod tree;
mod window;
