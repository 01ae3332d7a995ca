//! Late entries: staged, then waiting by the leaf to which they belong.

pub(crate) mod late;
pub(crate) mod merge;
pub(crate) mod stage;
pub(crate) mod waiting;
