//! Rows of heads, merged in the direction of the scan.

use std::ops::{Bound, Range};
use std::sync::Arc;

use arrow_buffer::{BooleanBufferBuilder, MutableBuffer};

use super::builder::Cells;
use crate::rows::{FixedColumn, Frontier, Head, Place, RowSource, SortedRows, TableSchema};

/// A row of a head.
#[derive(Debug, Clone)]
pub(crate) struct HeadRow {
    pub(crate) time: i64,
    pub(crate) sequence: u64,
    cells: Arc<Cells>,
    row: usize,
}

impl HeadRow {
    pub(super) fn bit(&self, bit: usize) -> bool {
        self.cells.bit(bit, self.row)
    }

    /// A fixed column of the row, whose values have `width` bytes.
    pub(super) fn fixed(&self, column: usize, width: usize) -> &[u8] {
        self.cells.fixed(column, width, self.row..self.row + 1)
    }

    pub(super) fn variable(&self, column: usize) -> &[u8] {
        self.cells.variable(column, self.row)
    }
}

/// The rows of some heads between two places.
pub(crate) struct HeadRows {
    runs: Vec<Ahead>,
    frontier: Frontier,
    visible: u64,
    reverse: bool,
}

/// The rows of a run that were not given yet.
struct Ahead {
    run: Arc<SortedRows>,
    cells: Arc<Cells>,
    rows: Range<usize>,
}

impl HeadRows {
    pub(crate) fn new(
        (heads, schema): (&[Arc<Head>], &TableSchema),
        bounds: (Bound<Place>, Bound<Place>),
        visible: u64,
        reverse: bool,
    ) -> Self {
        let mut rows = Self {
            runs: Vec::new(),
            frontier: Frontier::new(reverse),
            visible,
            reverse,
        };
        for run in heads.iter().flat_map(|head| head.runs(visible)) {
            let of_run = run.between(bounds);
            if of_run.is_empty() {
                continue;
            }
            rows.runs.push(Ahead {
                cells: Arc::new(Cells::new(schema, run.columns())),
                rows: of_run,
                run,
            });
            let number = rows.runs.len() - 1;
            if let Some(next) = rows.next_of(number) {
                rows.frontier.push(next, number);
            }
        }
        rows
    }

    /// The place of the next row.
    pub(crate) fn peek(&self) -> Option<Place> {
        self.frontier.first().map(|(place, _)| place)
    }

    /// The next row.
    pub(crate) fn pop(&mut self) -> Option<HeadRow> {
        let ((time, sequence), number) = self.frontier.first()?;
        let ahead = &mut self.runs[number];
        let row = if self.reverse {
            ahead.rows.next_back()?
        } else {
            ahead.rows.next()?
        };
        let cells = ahead.cells.clone();
        let next = self.next_of(number);
        self.frontier.replace_first(next);
        Some(HeadRow {
            time,
            sequence,
            cells,
            row,
        })
    }

    /// The next visible row of a run.
    fn next_of(&mut self, number: usize) -> Option<Place> {
        let ahead = &mut self.runs[number];
        loop {
            let row = if self.reverse {
                ahead.rows.clone().next_back()
            } else {
                ahead.rows.clone().next()
            };
            let place = ahead.run.place(row?);
            if place.1 < self.visible {
                return Some(place);
            }
            if self.reverse {
                ahead.rows.end -= 1;
            } else {
                ahead.rows.start += 1;
            }
        }
    }
}

impl RowSource for HeadRow {
    fn place(&self, _row: usize) -> Place {
        (self.time, self.sequence)
    }

    fn bits(&self, _flags: FixedColumn, bit: usize, rows: Range<usize>, out: &mut BooleanBufferBuilder) {
        rows.for_each(|_| out.append(self.bit(bit)));
    }

    fn fixed(&self, column: FixedColumn, rows: Range<usize>, out: &mut MutableBuffer) {
        rows.for_each(|_| out.extend_from_slice(self.fixed(column.column, column.width)));
    }

    fn variable(&self, column: usize, _row: usize) -> &[u8] {
        self.variable(column)
    }
}
