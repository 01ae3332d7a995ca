//! Trees of pages behind a [`PageStore`](bedload_pages::PageStore): the same tree stands on heap memory, on a file with a
//! page cache, or on a database server's buffers.
//!
//! | | |
//! |---|---|
//! | [`KeyOrder`] | what keys mean; [`U64Order`], [`I64Order`], [`ByteOrder`] |
//! | [`RowLayout`] | which columns rows have; [`NoRow`], [`FixedRow`], [`Columns`] |
//! | [`bplus_tree`] | the B+-tree |
//! | [`run`] | immutable sorted runs |
//! | [`be_tree`] | the Bε-tree, whose buffers and leaves are runs |

pub mod be_tree;
pub mod bplus_tree;
#[cfg(feature = "contract")]
pub mod contract;
mod entry;
mod key_order;
mod point;
pub mod run;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use entry::{Columns, Entries, Entry, EntrySource, FixedRow, NoRow, Position, Row, RowLayout};
pub use key_order::{ByteOrder, I64Order, KeyOrder, U64Order};
