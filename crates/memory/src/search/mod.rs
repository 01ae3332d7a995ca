//! Memory that is read while it is written, and searching and copying it with vectors.

pub(crate) mod columns;
pub(crate) mod copy;
pub(crate) mod prefetch;
pub(crate) mod words;
