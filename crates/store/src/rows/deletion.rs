//! Deletions: rows declared gone, by time and by order of arrival.

use std::ops::RangeInclusive;

/// Removes rows of a table whose time is in `times` and that arrived from sequence number `from_sequence` on and
/// before the deletion itself, which has the sequence number `at`.
///
/// A range delete starts at sequence 0; taking back what was appended since a mark spans all times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deletion {
    pub(crate) times: RangeInclusive<i64>,
    pub(crate) from_sequence: u64,
    pub(crate) at: u64,
}

impl Deletion {
    /// Whether a row with this time and sequence number is gone.
    pub(crate) fn covers(&self, time: i64, sequence: u64) -> bool {
        self.times.contains(&time) && self.from_sequence <= sequence && sequence < self.at
    }
}
