//! Trees of pages: key orders, the page store contract, and the designs that stand on them.
//!
//! | | |
//! |---|---|
//! | [`PageStore`], [`PageRead`], [`VacuumStore`] | what a tree asks of whoever keeps its pages |
//! | [`HeapPages`] | pages in heap memory |
//! | [`MimicPages`], [`FaultyPages`] | for tests: pages of the weakest host, and faults by plan |
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
mod error;
mod faulty_pages;
mod heap_pages;
mod key_order;
mod mimic_pages;
mod page_store;
mod point;
mod read_ahead;
pub mod run;

pub use entry::{Columns, Entries, Entry, EntrySource, FixedRow, NoRow, Position, Row, RowLayout};
pub use error::{Error, Result};
pub use faulty_pages::{Calls, Fault, FaultyBatch, FaultyPages, FaultyRunWriter, InjectedFault};
pub use heap_pages::{HeapBatch, HeapMaintenance, HeapPages, HeapPagesError, HeapRunWriter};
pub use key_order::{ByteOrder, I64Order, KeyOrder, U64Order};
pub use mimic_pages::{MimicBatch, MimicPages, MimicRunWriter};
pub use page_store::{Batch, MAX_BATCH_PAGES, PageId, PageRead, PageStore, Reserved, RunWriter, VacuumStore};
