//! The contract of page stores, over those in memory.

mod page_stores;
