//! The files of a store, within its directory. Format: docs/format.md, "Directory".

pub(super) const DATA_FILE: &str = "data";
/// The data file of a store whose creation is not finished.
pub(super) const BEGUN_FILE: &str = "data.begun";
pub(super) const LOG_DIR: &str = "log";
pub(super) const LOCK_FILE: &str = "lock";
pub(super) const RESERVE_FILE: &str = "reserve";
pub(super) const READERS_DIR: &str = "readers";
