//! The report of a salvage: rows saved, and problems met.

use crate::engine::verify::Problem;
use crate::error::Error;
use crate::rows::SalvagedTable;

/// The report of [`salvage`](crate::salvage).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SalvageReport {
    /// The tables of the new store, in the order in which they were created.
    pub tables: Vec<SalvagedTable>,
    /// Records of the log that were applied.
    pub log_records: u64,
    /// Places that could not be read; empty if the store was intact.
    pub problems: Vec<Problem>,
}

impl SalvageReport {
    pub(super) fn new(problems: Vec<Error>, log_records: u64) -> Self {
        Self {
            tables: Vec::new(),
            log_records,
            problems: problems.into_iter().map(Problem::from).collect(),
        }
    }

    /// Whether everything in the store was whole, and so is in the new one.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.problems.is_empty()
    }
}
