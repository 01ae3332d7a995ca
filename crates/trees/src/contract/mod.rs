//! Tests for authors of page stores, behind the feature `contract`.
//!
//! - [`check_page_store`]: the store keeps the rules of [`PageStore`](bedload_pages::PageStore);
//!   [`check_page_store_of_one_thread`] for hosts without threads.
//! - [`TreeIndex`]: a [`BPlusTree`](super::bplus_tree::BPlusTree) on the store, shown to the contract suite of
//!   `bedload-testkit`.
//! - [`check_be_tree_schedule`], [`check_be_tree_crashes`], [`check_be_tree_threads`]: a
//!   [`BeTree`](super::be_tree::BeTree) on the store.
//! - [`check_damaged_tree`], [`check_damaged_be_tree`]: what a fuzzer makes of the pages of a tree
//!   does no more than harm its answers.

mod be_tree;
mod careless_keys;
mod damaged_be_tree;
mod damaged_tree;
mod tree_index;

pub use be_tree::{
    Counts, NumberedKeys, check_be_tree_crashes, check_be_tree_schedule, check_be_tree_threads, small_be_tree,
};
pub use careless_keys::{CarelessKeys, CarelessOrder, canonical};
pub use damaged_be_tree::check_damaged_be_tree;
pub use damaged_tree::check_damaged_tree;
pub use tree_index::{KeyBytes, OrderedKeys, TieKeys, TreeIndex};
