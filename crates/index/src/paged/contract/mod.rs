//! Tests that whoever brings a page store runs on it, behind the feature `contract`.
//!
//! - [`TreeIndex`]: a [`BPlusTree`](super::bplus_tree::BPlusTree) on it, shown to the contract suite of
//!   `bedload-testkit`.

mod tree_index;

pub use tree_index::{KeyBytes, OrderedKeys, TieKeys, TreeIndex};
