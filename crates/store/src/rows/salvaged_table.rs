//! The rows that a salvage saved of one table, and where rows are missing.

use super::TableSchema;

/// A table that was salvaged.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SalvagedTable {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub schema: TableSchema,
    /// The rows it has in the new store.
    pub rows: u64,
    /// How many rows of the last checkpoint are missing; none if that cannot be told.
    pub missing: Option<u64>,
    /// Between which times rows may be missing, in ascending order.
    pub gaps: Vec<Gap>,
}

/// A range of times in which rows may be missing, in ticks of the time column's unit. Both ends are
/// included: rows of that very time may be missing, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Where it begins; none if before all times.
    pub from: Option<i64>,
    /// Where it ends; none if after all times.
    pub to: Option<i64>,
}

impl Gap {
    /// Whether a time lies in it.
    #[must_use]
    pub fn contains(&self, time: i64) -> bool {
        self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time <= to)
    }
}
