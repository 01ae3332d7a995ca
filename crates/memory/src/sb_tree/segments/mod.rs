//! The logs of new keys: one for each thread, sealed together, and converted to blocks.

pub(crate) mod chains;
pub(crate) mod convert;
pub(crate) mod log;
pub(crate) mod merge;
pub(crate) mod own_log;
pub(crate) mod owners;
pub(crate) mod segment;
pub(crate) mod sorting;
pub(crate) mod stamps;
pub(crate) mod view;
pub(crate) mod writer_number;
