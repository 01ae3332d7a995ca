//! The tail of the newest keys, and the entries ahead of it.

pub(crate) mod ahead;
pub(crate) mod entries;
pub(crate) mod lateness;
