//! The rows of one run, piece by piece.

use std::ops::{Bound, Range};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBuffer;
use bedload_columns::{ColumnRuns, ColumnSet, Place, Places, RunIndexPage, RunLeaf};
use bedload_trees::run::Run;

use crate::error::{Error, Result};
use crate::pages::{PageRef, PageVersion};
use crate::rows::Filter;

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
    /// How many bytes a row has: of a leaf, which has few, on average; else at most.
    pub(super) row_bytes: usize,
}

impl Piece {
    /// No rows.
    pub(super) fn none() -> Self {
        Self {
            columns: Vec::new().into(),
            places: Places::none(),
            rows: 0..0,
            matching: None,
            row_bytes: 0,
        }
    }

    pub(super) fn new(columns: Vec<ArrayRef>, places: Places, matching: Option<BooleanBuffer>) -> Self {
        let rows = places.len();
        let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
        Self {
            row_bytes: columns.iter().map(bytes).sum::<usize>() / rows.max(1),
            columns: columns.into(),
            places,
            rows: 0..rows,
            matching,
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
    /// Positions in the schema of the table.
    pub(super) columns: Vec<usize>,
    pub(super) with_sequence: bool,
    pub(super) filter: Filter,
    pub(super) reverse: bool,
}

/// The rows of a run between two places that were not read yet.
#[derive(Debug)]
pub(super) struct RunRows {
    pages: Arc<PageVersion>,
    index: RunIndexPage<PageRef>,
    bounds: (Bound<Place>, Bound<Place>),
    /// Leaves that were not opened yet.
    leaves: Range<usize>,
    /// The one that was opened last, and its rows that are left.
    leaf: Option<(RunLeaf<PageRef>, Range<usize>)>,
}

impl RunRows {
    pub(super) fn new(
        pages: &Arc<PageVersion>,
        kind: ColumnRuns,
        run: &Run,
        bounds: (Bound<Place>, Bound<Place>),
    ) -> Result<Self> {
        let index = RunIndexPage::read(&**pages, run, kind.owner())?;
        Ok(Self {
            pages: pages.clone(),
            leaves: index.between(bounds.0, bounds.1)?,
            index,
            bounds,
            leaf: None,
        })
    }

    /// The next rows in the direction of the scan, at most so many; `None` behind the last.
    pub(super) fn next(&mut self, wanted: &Wanted, most: usize) -> Result<Option<Piece>> {
        loop {
            if let Some((leaf, rows)) = &mut self.leaf
                && rows.start < rows.end
            {
                let taken = rows.len().min(most);
                let piece = if wanted.reverse {
                    rows.end -= taken;
                    rows.end..rows.end + taken
                } else {
                    rows.start += taken;
                    rows.start - taken..rows.start
                };
                if let Some(piece) = read(leaf, wanted, piece, self.pages.path())? {
                    return Ok(Some(piece));
                }
                continue;
            }
            let number = if wanted.reverse {
                self.leaves.next_back()
            } else {
                self.leaves.next()
            };
            let Some(number) = number else {
                return Ok(None);
            };
            self.leaf = Some(self.open(number, wanted)?);
        }
    }

    fn open(&self, number: usize, wanted: &Wanted) -> Result<(RunLeaf<PageRef>, Range<usize>)> {
        let leaf = self.index.open(&*self.pages, number)?;
        for (column, predicate) in wanted.filter.conditions() {
            if !leaf.may_match(*column, predicate)? {
                return Ok((leaf, 0..0));
            }
        }
        let rows = leaf.between(wanted.kind.time(), self.bounds)?;
        Ok((leaf, rows))
    }
}

/// Reads rows of a leaf: those from the first to the last that match; none if none does.
fn read(
    leaf: &RunLeaf<PageRef>,
    wanted: &Wanted,
    mut rows: Range<usize>,
    path: &std::path::Path,
) -> Result<Option<Piece>> {
    let damaged = |reason: &str| Error::corrupt(path, format!("page {}", leaf.page()), reason);
    let last = leaf.columns() - 1;
    let matching = wanted.filter.select(|column| {
        if column < last {
            Ok(leaf.decode(column, rows.clone())?)
        } else {
            Err(damaged("its leaf has not the columns of its table"))
        }
    })?;
    let matching = match matching {
        None => None,
        Some(matching) => {
            let (Some(first), Some(end)) = (matching.set_indices().next(), last_set(&matching)) else {
                return Ok(None);
            };
            rows = rows.start + first..rows.start + end;
            Some(matching.slice(first, end - first)).filter(|rows| rows.count_set_bits() < rows.len())
        }
    };
    let times = leaf.decode(wanted.kind.time(), rows.clone())?;
    let sequences = leaf.decode(last, rows.clone())?;
    let decode = |&column: &usize| {
        if column == wanted.kind.time() {
            Ok(times.clone())
        } else if column < last {
            Ok(leaf.decode(column, rows.clone())?)
        } else {
            Err(damaged("its leaf has not the columns of its table"))
        }
    };
    let mut columns = wanted.columns.iter().map(decode).collect::<Result<Vec<_>>>()?;
    if wanted.with_sequence {
        columns.push(sequences.clone());
    }
    let places = Places::of_columns(&times, &sequences).filter(Places::ascend);
    let places = places.ok_or_else(|| damaged("its leaf has rows out of order, or without a place"))?;
    Ok(Some(Piece::new(columns, places, matching)))
}

/// One past the last bit that is set.
fn last_set(bits: &BooleanBuffer) -> Option<usize> {
    bits.set_slices().last().map(|(_, end)| end)
}
