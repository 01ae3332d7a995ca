//! The contract tests of the in-memory page stores.

mod page_stores;
