//! The rows of one run of a head, piece by piece.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use bedload_columns::ColumnSet;

use super::piece::{Piece, PieceSize, Stride, Wanted, narrowed, take_first};
use crate::error::Result;
use crate::rows::{Deletions, Place as RowPlace, SortedRows, project};

/// Bytes of rows that are unpacked for one piece.
const FEW_BYTES_MAX: usize = 16 << 20;

/// The rows of a run of a head that are all visible, and were not read yet.
#[derive(Debug)]
pub(super) struct HeadRows {
    run: Arc<SortedRows>,
    /// Those that are left.
    rows: Range<usize>,
}

impl HeadRows {
    /// Reads nothing.
    pub(super) fn new(run: Arc<SortedRows>, rows: Range<usize>) -> Self {
        Self { run, rows }
    }

    /// The place of the next row; `None` after the last.
    pub(super) fn edge(&self, reverse: bool) -> Option<RowPlace> {
        let mut rows = self.rows.clone();
        let row = if reverse { rows.next_back() } else { rows.next() };
        row.map(|row| self.run.place(row))
    }

    /// The next rows in the direction of the scan, those from the first to the last that match:
    /// about as many as the stride says if they are packed or filtered, else all. `None` after the
    /// last.
    ///
    /// # Errors
    ///
    /// A predicate does not fit its column.
    pub(super) fn next(
        &mut self,
        wanted: &Wanted,
        deletions: &Deletions,
        stride: &mut Stride,
    ) -> Result<Option<Piece>> {
        loop {
            self.skip_deleted(deletions, wanted.reverse);
            if self.rows.is_empty() || wanted.filter.is_stopped() {
                return Ok(None);
            }
            if wanted.filter.is_empty() && !self.run.are_packed() {
                return Ok(Some(self.rest(wanted)));
            }
            let most = stride.rows().min(FEW_BYTES_MAX / self.row_bytes()).max(1);
            let mut left = self.rows.clone();
            let few = take_first(&mut left, most, wanted.reverse);
            let unpacked = self.run.few(few.len());
            if wanted.filter.is_empty() && unpacked.is_none() {
                return Ok(Some(self.rest(wanted)));
            }
            self.rows = left;
            let columns = |rows: Range<usize>, columns: &[usize]| -> ColumnSet {
                if let Some(unpacked) = &unpacked {
                    return unpacked.columns(rows, columns);
                }
                let all = project(self.run.columns(), columns);
                let slice = |column: &ArrayRef| column.slice(rows.start, rows.len());
                all.iter().map(slice).collect()
            };
            let filter_column = |column| Ok(columns(few.clone(), &[column])[0].clone());
            let matching = wanted.filter.select(filter_column)?;
            let Some((rows, matching)) = narrowed(few.clone(), matching) else {
                stride.pass(few.len());
                continue;
            };
            let places = self.run.places_of(rows.clone());
            let own_bytes = unpacked.as_ref().map_or(0, |_| self.row_bytes() * rows.len());
            return Ok(Some(Piece {
                columns: wanted.numbered(columns(rows.clone(), &wanted.columns), &places),
                places,
                rows: 0..rows.len(),
                matching,
                sequences: self.run.sequences(),
                size: PieceSize {
                    row_bytes: self.row_bytes(),
                    row_bytes_max: self.run.row_bytes_max(),
                    own_bytes,
                },
                ..Piece::none()
            }));
        }
    }

    /// All rows that are left, whose columns are arrays or become them.
    fn rest(&mut self, wanted: &Wanted) -> Piece {
        let places = self.run.places().clone();
        Piece {
            columns: wanted.of_table(self.run.columns(), &places),
            places,
            rows: std::mem::take(&mut self.rows),
            sequences: self.run.sequences(),
            size: PieceSize {
                row_bytes: self.row_bytes(),
                row_bytes_max: self.run.row_bytes_max(),
                own_bytes: 0,
            },
            ..Piece::none()
        }
    }

    /// Passes over rows of times of which none is left: they need not be unpacked.
    fn skip_deleted(&mut self, deletions: &Deletions, reverse: bool) {
        while let Some((time, _)) = self.edge(reverse)
            && let Some(gone) = deletions.gone_times(time, self.run.sequences())
        {
            let places = self.run.places();
            if reverse {
                self.rows.end = places.search(self.rows.clone(), |place| place.time >= *gone.start());
            } else {
                self.rows.start = places.gallop(self.rows.clone(), |place| place.time > *gone.end());
            }
        }
    }

    /// Bytes of a row on average, which is at least one.
    fn row_bytes(&self) -> usize {
        (self.run.bytes() / self.run.len().max(1)).max(1)
    }
}
