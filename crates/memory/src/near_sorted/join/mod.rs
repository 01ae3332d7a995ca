//! Joining a leaf with its pending entries.

pub(crate) mod joining;
mod late;
pub(crate) mod waiting;
