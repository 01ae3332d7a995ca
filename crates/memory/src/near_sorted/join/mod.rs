//! Joining a leaf with the entries that wait for it.

pub(crate) mod joining;
mod late;
pub(crate) mod waiting;
