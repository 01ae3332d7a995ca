//! Names of tables that the command makes for itself, and that are not for rows of its users.

use crate::exit::{Failure, Result};

/// How many rows of each input with a `--source-id` its table has.
pub(crate) const SOURCES: &str = "bedload.sources";

/// The table of a convert until it is whole. One process has a store open, so one convert at a time
/// uses it; what one that was killed has left is dropped by the next.
pub(crate) const UNFINISHED: &str = "(unfinished convert)";

/// Whether a table is the command's own.
pub(crate) fn is_own(name: &str) -> bool {
    matches!(name, SOURCES | UNFINISHED)
}

/// Refuses to make a table of a name that is the command's, or to change such a table.
pub(crate) fn refuse(name: &str) -> Result<()> {
    let purpose = match name {
        SOURCES => "which keeps the counts of --source-id there",
        UNFINISHED => "whose convert drops what a convert that was killed left there",
        _ => return Ok(()),
    };
    Err(Failure::input(format!(
        "table {name} is for the command alone, {purpose}"
    )))
}
