//! The contract of page stores, and pages in heap memory.
//!
//! | | |
//! |---|---|
//! | [`PageStore`], [`PageRead`], [`VacuumStore`] | the contract between a tree and the store that keeps its pages |
//! | [`HeapPages`] | pages in heap memory |
//! | [`PageSet`] | a bit for each page |
//! | [`ReadAhead`] | how far ahead of a cursor its store fetches leaves |
//! | [`Error`] | errors of trees and page stores |
//!
//! The feature `contract` adds `MimicPages`, which behaves like the weakest host, `FaultyPages`,
//! which fails and crashes by plan, and `contract`, the test suite of every page store.

#[cfg(feature = "contract")]
pub mod contract;
mod error;
#[cfg(feature = "contract")]
mod faulty_pages;
mod heap_pages;
#[cfg(feature = "contract")]
mod mimic_pages;
mod page_id;
mod page_set;
mod page_store;
mod read_ahead;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use error::{Error, Result};
#[cfg(feature = "contract")]
pub use faulty_pages::{Calls, Fault, FaultyBatch, FaultyPages, FaultyRunWriter, InjectedFault};
pub use heap_pages::{HeapBatch, HeapMaintenance, HeapPages, HeapPagesError, HeapRunWriter};
#[cfg(feature = "contract")]
pub use mimic_pages::{MimicBatch, MimicPages, MimicRunWriter};
pub use page_id::PageId;
pub use page_set::PageSet;
pub use page_store::{
    Batch, MAX_BATCH_PAGES, PageRead, PageStore, Reserved, RunLife, RunWriter, VacuumStore,
};
pub use read_ahead::ReadAhead;
