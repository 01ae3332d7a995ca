//! Rows of heads, merged in the direction of the scan.

use std::collections::VecDeque;
use std::ops::{Bound, Range};
use std::sync::Arc;

use arrow_buffer::{BooleanBufferBuilder, MutableBuffer};

use crate::rows::{FixedColumn, Head, HeadRow, Place, RowSource};

/// Rows taken out of a head at a time: a few at first, as most scans need no more, then twice as many each time.
const FIRST_ROWS: usize = 64;
const MOST_ROWS: usize = 4096;

/// The rows of some heads between two places.
pub(crate) struct HeadRows {
    heads: Vec<Ahead>,
    visible: u64,
    reverse: bool,
}

struct Ahead {
    head: Arc<Head>,
    rows: VecDeque<HeadRow>,
    bounds: (Bound<Place>, Bound<Place>),
    take: usize,
    /// Nothing is left in the head behind `rows`.
    is_last: bool,
}

impl HeadRows {
    pub(crate) fn new(
        heads: Vec<Arc<Head>>,
        bounds: (Bound<Place>, Bound<Place>),
        visible: u64,
        reverse: bool,
    ) -> Self {
        let ahead = |head| Ahead {
            head,
            rows: VecDeque::new(),
            bounds,
            take: FIRST_ROWS,
            is_last: false,
        };
        Self {
            heads: heads.into_iter().map(ahead).collect(),
            visible,
            reverse,
        }
    }

    /// The place of the next row.
    pub(crate) fn peek(&mut self) -> Option<Place> {
        self.next_head().and_then(|at| self.heads[at].first())
    }

    /// The next row.
    pub(crate) fn pop(&mut self) -> Option<HeadRow> {
        self.next_head().and_then(|at| self.heads[at].rows.pop_front())
    }

    /// The head whose first row comes first. Stores have few heads, so there is no heap.
    fn next_head(&mut self) -> Option<usize> {
        for head in &mut self.heads {
            head.fill(self.visible, self.reverse);
        }
        let firsts = self
            .heads
            .iter()
            .enumerate()
            .filter_map(|(at, head)| Some((head.first()?, at)));
        let next = if self.reverse { firsts.max() } else { firsts.min() };
        next.map(|(_, at)| at)
    }
}

impl Ahead {
    fn first(&self) -> Option<Place> {
        self.rows.front().map(HeadRow::place)
    }

    fn fill(&mut self, visible: u64, reverse: bool) {
        if !self.rows.is_empty() || self.is_last {
            return;
        }
        self.rows = self.head.rows(self.bounds, visible, reverse, self.take).into();
        self.is_last = self.rows.len() < self.take;
        self.take = (self.take * 2).min(MOST_ROWS);
        if let Some(last) = self.rows.back() {
            let passed = Bound::Excluded(last.place());
            if reverse {
                self.bounds.1 = passed
            } else {
                self.bounds.0 = passed
            }
        }
    }
}

/// One row of a head, as a source of rows.
impl RowSource for HeadRow {
    fn place(&self, _row: usize) -> Place {
        HeadRow::place(self)
    }

    fn bits(&self, _flags: FixedColumn, bit: usize, _rows: Range<usize>, out: &mut BooleanBufferBuilder) {
        out.append(self.block.fixed(self.row)[bit / 8] >> (bit % 8) & 1 == 1);
    }

    fn fixed(&self, column: FixedColumn, _rows: Range<usize>, out: &mut MutableBuffer) {
        out.extend_from_slice(&self.block.fixed(self.row)[column.offset..column.offset + column.width]);
    }

    fn variable(&self, column: usize, _row: usize) -> &[u8] {
        self.block.variable(self.row, column)
    }
}
