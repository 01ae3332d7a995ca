//! The plain tree of packed leaves, on which a layer may be put.

mod append;
pub(crate) mod branch;
pub(crate) mod fence_index;
mod fence_slots;
pub(crate) mod layer;
pub(crate) mod layered_tree;
pub(crate) mod leaf;
pub(crate) mod leaf_pages;
pub(crate) mod packed_tree;
mod range;
pub(crate) mod spare;
