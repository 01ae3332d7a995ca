//! Searching with vectors, copying and prefetching: the one place for instructions that the
//! compiler does not find.
//!
//! - `words`, `bytes`, `columns`, `copy`: memory that is read while it is written, for the
//!   concurrent indexes.
//! - `keys`, `wide`, `join`, `dispatch`: memory of one writer, for the near-sorted trees.

pub(crate) mod bytes;
pub(crate) mod columns;
pub(crate) mod copy;
pub(crate) mod dispatch;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) mod join;
pub(crate) mod keys;
pub(crate) mod prefetch;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) mod wide;
pub(crate) mod words;
