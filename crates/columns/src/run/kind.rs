//! The description of a table's column runs for a tree.

use arrow_array::ArrayRef;

use super::index::RunIndex;
use super::place::Places;
use crate::column;

/// The columns of a table's runs, and the size of their leaves.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, TimestampSecondArray, UInt64Array};
/// use bedload_columns::{ColumnRunWriter, ColumnRuns, RunIndex};
/// use bedload_pages::HeapPages;
///
/// let pages = HeapPages::new(8192);
/// let kind = ColumnRuns::new(7, 1, 0);
/// let mut writer = ColumnRunWriter::new(&pages, kind)?;
/// let time: ArrayRef = Arc::new(TimestampSecondArray::from(vec![10, 20, 30]));
/// let sequence: ArrayRef = Arc::new(UInt64Array::from(vec![2, 0, 1]));
/// writer.push(vec![time.clone(), sequence])?;
/// let run = writer.finish()?.pop().expect("it has rows");
///
/// let index = RunIndex::read(&pages, &run, 7)?;
/// let leaf = index.open(&pages, 0)?;
/// assert_eq!(&leaf.decode(0, 0..3)?, &time);
/// # Ok::<(), bedload_pages::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct ColumnRuns {
    pub(super) owner: u32,
    pub(super) columns: usize,
    pub(super) time: usize,
    pub(super) leaf_rows: usize,
    pub(super) leaf_bytes: usize,
    run_leaves: u32,
}

impl ColumnRuns {
    /// Describes runs of the table number `owner` with this many columns. Column `time` has
    /// timestamps and no nulls. Leaves written when the table had fewer columns stay as they are:
    /// their rows are null in the columns after their own.
    pub const fn new(owner: u32, columns: usize, time: usize) -> Self {
        Self {
            owner,
            columns,
            time,
            leaf_rows: 1 << 14,
            leaf_bytes: 2 << 20,
            run_leaves: u32::MAX,
        }
    }

    /// Sets the most rows of a leaf, from 1 to [`MAX_ROWS`](crate::MAX_ROWS). Default: 16,384.
    pub const fn leaf_rows(mut self, rows: usize) -> Self {
        assert!(
            rows > 0 && rows <= crate::MAX_ROWS,
            "a leaf has from 1 to 65,536 rows"
        );
        self.leaf_rows = rows;
        self
    }

    /// Sets the most uncompressed bytes of a leaf, assuming rows of equal size; a leaf has at least
    /// one row. Default: 2 MiB.
    pub const fn leaf_bytes(mut self, bytes: usize) -> Self {
        self.leaf_bytes = bytes;
        self
    }

    /// Sets the most leaves of a run, at least 1. A run never has more leaves than the page of its
    /// index can name, about 300,000. Default: as many as that.
    pub const fn run_leaves(mut self, leaves: u32) -> Self {
        assert!(leaves > 0, "a run has at least one leaf");
        self.run_leaves = leaves;
        self
    }

    /// Returns the table that the rows belong to.
    pub const fn owner(&self) -> u32 {
        self.owner
    }

    /// Returns the number of the time column.
    pub const fn time(&self) -> usize {
        self.time
    }

    /// Returns the positions of rows, given as the table's columns, or the first of them, and then
    /// the sequence numbers; `None` if the columns are not those.
    pub fn places(&self, columns: &[ArrayRef]) -> Option<Places> {
        if !self.admits(columns.len()) {
            return None;
        }
        Places::of_columns(columns.get(self.time)?, columns.last()?)
    }

    /// Whether rows of the table may have so many columns, sequence numbers included.
    pub(super) fn admits(&self, columns: usize) -> bool {
        (self.time + 2..=self.columns + 1).contains(&columns)
    }

    /// Returns the most leaves of a run whose index page has so many bytes.
    pub(super) fn leaves_max(&self, payload_max: usize) -> usize {
        let named = RunIndex::leaves_max(payload_max);
        usize::try_from(self.run_leaves).map_or(named, |set| named.min(set))
    }

    /// Returns how many of these rows fit in a leaf.
    pub(super) fn leaf_rows_of(&self, columns: &[ArrayRef]) -> usize {
        let rows = columns[0].len().max(1);
        let bytes: usize = columns.iter().map(|column| column::content_bytes(column)).sum();
        (self.leaf_bytes / (bytes / rows).max(1)).clamp(1, self.leaf_rows)
    }
}
