//! The check of a table.

use std::ops::Bound;

use bedload_pages::PageRead;
use bedload_trees::be_tree::Report;

use super::body::open;
use super::count::count;
use crate::error::Result;
use crate::rows::TableEntry;

/// A table that was checked.
pub(crate) struct Verified {
    /// The report on its tree.
    pub(crate) report: Report,
    /// How many rows it has; not known if it is damaged.
    pub(crate) rows: Option<u64>,
}

/// Reads the whole tree of a table, every value of it.
pub(crate) fn verify(pages: &impl PageRead, table: &TableEntry) -> Result<Verified> {
    let report = open(pages, table)?.verify()?;
    let everywhere = (Bound::Unbounded, Bound::Unbounded);
    let rows = if report.is_sound() {
        Some(count(pages, table, everywhere)?)
    } else {
        None
    };
    Ok(Verified { report, rows })
}
