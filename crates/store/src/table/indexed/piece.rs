//! Some rows of one source of a scan, and how many are taken from it at a time.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array, new_null_array};
use arrow_buffer::BooleanBuffer;
use bedload_columns::{ColumnRuns, ColumnSet, Place, Places, RunLeaf};

use crate::error::Result;
use crate::pages::PageRef;
use crate::rows::{Filter, TableSchema, project};

/// Rows that are taken out of a source at a time, at least.
const ROWS_MIN: usize = 64;

/// Rows that are taken out of a source at a time, at most, unless more are wanted.
const ROWS_MAX: usize = 8192;

/// Some rows of one source, ascending.
#[derive(Debug)]
pub(super) struct Piece {
    /// The columns that were asked for.
    pub(super) columns: ColumnSet,
    pub(super) places: Places,
    /// Those that are left.
    pub(super) rows: Range<usize>,
    /// Which rows match the filter of the scan; none if all do.
    pub(super) matching: Option<BooleanBuffer>,
    /// The least sequence number of the rows or one below it, and one above the greatest.
    pub(super) sequences: Range<u64>,
    pub(super) size: PieceSize,
    /// Whether ranks stand in for the sequence numbers of the places: the rows are compared with
    /// no others.
    pub(super) is_alone: bool,
}

/// How much memory a piece takes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PieceSize {
    /// Bytes of a row on average.
    pub(super) row_bytes: usize,
    /// Bytes that no row exceeds. For a leaf, which has few rows, the average stands in.
    pub(super) row_bytes_max: usize,
    /// Bytes that are there for this piece alone until the batch is built, however few of its rows
    /// are in it.
    pub(super) own_bytes: usize,
}

impl Piece {
    /// No rows.
    pub(super) fn none() -> Self {
        Self {
            columns: Vec::new().into(),
            places: Places::none(),
            rows: 0..0,
            matching: None,
            sequences: 0..0,
            size: PieceSize::default(),
            is_alone: false,
        }
    }

    /// The place of the next row.
    pub(super) fn next(&self, reverse: bool) -> Option<Place> {
        let row = if reverse {
            self.rows.clone().next_back()
        } else {
            self.rows.clone().next()
        };
        row.map(|row| self.places.get(row))
    }
}

/// Which columns are read.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) kind: ColumnRuns,
    pub(super) schema: Arc<TableSchema>,
    /// Positions in the schema of the table.
    pub(super) columns: Vec<usize>,
    pub(super) with_sequence: bool,
    pub(super) filter: Filter,
    pub(super) reverse: bool,
}

impl Wanted {
    /// Decodes a column of rows of a leaf; nulls if it was added to the table after the leaf was
    /// written.
    ///
    /// # Errors
    ///
    /// The leaf is damaged.
    pub(super) fn decode(
        &self,
        leaf: &RunLeaf<PageRef>,
        column: usize,
        rows: Range<usize>,
    ) -> Result<ArrayRef> {
        if leaf.has(column) {
            return Ok(leaf.decode(column, rows)?);
        }
        let kind = self.schema.arrow().field(column).data_type();
        Ok(new_null_array(kind, rows.len()))
    }

    /// Those among all columns of a table, of rows that stand at these places.
    pub(super) fn of_table(&self, columns: &ColumnSet, places: &Places) -> ColumnSet {
        self.numbered(project(columns, &self.columns), places)
    }

    /// Adds the sequence numbers, if they are asked for.
    pub(super) fn numbered(&self, columns: ColumnSet, places: &Places) -> ColumnSet {
        if !self.with_sequence {
            return columns;
        }
        let sequences: ArrayRef = Arc::new(UInt64Array::new(places.sequences().clone(), None));
        columns.iter().cloned().chain([sequences]).collect()
    }
}

/// Takes the first rows in the direction of a scan out of some.
pub(super) fn take_first(rows: &mut Range<usize>, most: usize, reverse: bool) -> Range<usize> {
    let taken = rows.len().min(most);
    if reverse {
        rows.end -= taken;
        rows.end..rows.end + taken
    } else {
        rows.start += taken;
        rows.start - taken..rows.start
    }
}

/// How many rows are taken at a time: about those that are wanted, and more and more while none of
/// them is left by filters and deletions, so that a match among many rows is found in few steps.
#[derive(Debug, Default)]
pub(super) struct Stride {
    wanted: usize,
    /// Rows without a match since the last one.
    passed: usize,
}

impl Stride {
    /// So many rows are wanted.
    pub(super) fn want(&mut self, rows: usize) {
        self.wanted = rows;
    }

    /// The rows to take next.
    pub(super) fn rows(&self) -> usize {
        self.wanted.max(self.passed.clamp(ROWS_MIN, ROWS_MAX))
    }

    /// Counts rows none of which was left.
    pub(super) fn pass(&mut self, rows: usize) {
        self.passed = self.passed.saturating_add(rows);
    }

    /// Some rows were left.
    pub(super) fn find(&mut self) {
        self.passed = 0;
    }
}

/// Some rows from the first to the last that match, and which of them do unless all do; none if no
/// row matches.
pub(super) fn narrowed(
    rows: Range<usize>,
    matching: Option<BooleanBuffer>,
) -> Option<(Range<usize>, Option<BooleanBuffer>)> {
    let Some(matching) = matching else {
        return Some((rows, None));
    };
    let (first, end) = (matching.set_indices().next()?, last_set(&matching)?);
    let rows = rows.start + first..rows.start + end;
    let matching = matching.slice(first, end - first);
    Some((
        rows,
        Some(matching).filter(|rows| rows.count_set_bits() < rows.len()),
    ))
}

/// One past the last bit that is set.
fn last_set(bits: &BooleanBuffer) -> Option<usize> {
    bits.set_slices().last().map(|(_, end)| end)
}
