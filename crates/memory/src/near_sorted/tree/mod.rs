//! The tree of packed leaves.

pub(crate) mod append;
pub(crate) mod bplus_tree;
pub(crate) mod branch;
pub(crate) mod fence_index;
pub(crate) mod fence_slots;
pub(crate) mod leaf;
pub(crate) mod leaf_pages;
pub(crate) mod scratch;
pub(crate) mod window;
