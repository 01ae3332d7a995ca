//! The rows of one run, piece by piece.

use std::ops::{Bound, Range};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_buffer::BooleanBuffer;
use bedload_columns::{ColumnRuns, ColumnSet, Place, Places, RunIndexPage, RunLeaf};
use bedload_trees::run::Run;

use crate::error::{Error, Result};
use crate::pages::{PageRef, PageVersion};
use crate::rows::{Deletions, Filter, Place as RowPlace, SortedRows, project};

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
    /// Bytes of a row: of a leaf, which has few rows, the average; else the maximum.
    pub(super) row_bytes: usize,
    /// Whether ranks stand in for the sequence numbers of the places: the rows are compared with
    /// no others.
    pub(super) is_alone: bool,
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
    run: Run,
    bounds: (Bound<Place>, Bound<Place>),
    /// None before the first rows are read.
    leaves: Option<Leaves>,
    /// The leaf that was opened last, and its rows that are left.
    leaf: Option<(RunLeaf<PageRef>, Range<usize>)>,
}

/// Leaves of a run.
#[derive(Debug)]
struct Leaves {
    index: RunIndexPage<PageRef>,
    /// Those that were not opened yet.
    left: Range<usize>,
}

impl RunRows {
    /// Reads nothing.
    pub(super) fn new(pages: &Arc<PageVersion>, run: &Run, bounds: (Bound<Place>, Bound<Place>)) -> Self {
        Self {
            pages: pages.clone(),
            run: *run,
            bounds,
            leaves: None,
            leaf: None,
        }
    }

    /// A place that no row precedes in the direction of the scan.
    pub(super) fn edge(&self, reverse: bool) -> Place {
        let (first, last) = (Place::of_edge(self.run.first), Place::of_edge(self.run.last));
        match (reverse, self.bounds) {
            (false, (Bound::Included(from) | Bound::Excluded(from), _)) => first.max(from),
            (false, _) => first,
            (true, (_, Bound::Included(to) | Bound::Excluded(to))) => last.min(to),
            (true, _) => last,
        }
    }

    /// The next rows in the direction of the scan, at most `most`; `None` after the last.
    /// `is_alone` says that they are compared with no others. Leaves whose rows are all deleted, or
    /// all older than wanted, are not read.
    pub(super) fn next(
        &mut self,
        wanted: &Wanted,
        deletions: &Deletions,
        (most, is_alone): (usize, bool),
    ) -> Result<Option<Piece>> {
        loop {
            if wanted.filter.is_stopped() {
                return Ok(None);
            }
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
                if let Some(piece) = read(leaf, wanted, piece, (self.pages.path(), is_alone))? {
                    return Ok(Some(piece));
                }
                continue;
            }
            let leaves = match &mut self.leaves {
                Some(leaves) => leaves,
                none => {
                    let index = RunIndexPage::read(&*self.pages, &self.run, wanted.kind.owner())?;
                    let left = index.between(self.bounds.0, self.bounds.1)?;
                    none.insert(Leaves { index, left })
                }
            };
            let number = if wanted.reverse {
                leaves.left.next_back()
            } else {
                leaves.left.next()
            };
            let Some(number) = number else {
                return Ok(None);
            };
            let entry = leaves.index.entry(number)?;
            let times = entry.first.time..=entry.last.time;
            let sequences = entry.min_sequence..=entry.max_sequence;
            if !wanted.filter.may_want(sequences.clone()) || deletions.cover_all(times, sequences) {
                continue;
            }
            let leaf = leaves.index.open(&*self.pages, number)?;
            let rows = rows_of(&leaf, wanted, self.bounds)?;
            self.leaf = Some((leaf, rows));
        }
    }
}

/// The rows of a leaf between two places; none if the leaf has none that match.
fn rows_of(
    leaf: &RunLeaf<PageRef>,
    wanted: &Wanted,
    bounds: (Bound<Place>, Bound<Place>),
) -> Result<Range<usize>> {
    for (column, predicate) in wanted.filter.conditions() {
        if !leaf.may_match(*column, predicate)? {
            return Ok(0..0);
        }
    }
    Ok(leaf.between(wanted.kind.time(), bounds)?)
}

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

    /// The next rows in the direction of the scan: about `most` if they are packed, else all.
    /// `None` after the last.
    pub(super) fn next(&mut self, wanted: &Wanted, most: usize) -> Option<Piece> {
        if self.rows.is_empty() {
            return None;
        }
        let most = most.min(FEW_BYTES_MAX / self.run.row_bytes_max().max(1)).max(1);
        let taken = self.rows.len().min(most);
        let few = if wanted.reverse {
            self.rows.end - taken..self.rows.end
        } else {
            self.rows.start..self.rows.start + taken
        };
        let (columns, places, rows) = match self.run.columns_of_few(few.clone(), &wanted.columns) {
            Some(columns) => {
                if wanted.reverse {
                    self.rows.end = few.start;
                } else {
                    self.rows.start = few.end;
                }
                (columns, self.run.places_of(few), 0..taken)
            }
            None => (
                project(self.run.columns(), &wanted.columns),
                self.run.places().clone(),
                std::mem::take(&mut self.rows),
            ),
        };
        Some(Piece {
            columns: wanted.numbered(columns, &places),
            places,
            rows,
            row_bytes: self.run.row_bytes_max(),
            ..Piece::none()
        })
    }
}

impl Wanted {
    /// Those among all columns of a table, of rows that stand at these places.
    pub(super) fn of_table(&self, columns: &ColumnSet, places: &Places) -> ColumnSet {
        self.numbered(project(columns, &self.columns), places)
    }

    /// Adds the sequence numbers, if they are asked for.
    fn numbered(&self, columns: ColumnSet, places: &Places) -> ColumnSet {
        if !self.with_sequence {
            return columns;
        }
        let sequences: ArrayRef = Arc::new(UInt64Array::new(places.sequences().clone(), None));
        columns.iter().cloned().chain([sequences]).collect()
    }
}

/// Reads rows of a leaf: those from the first to the last that match; none if none does.
fn read(
    leaf: &RunLeaf<PageRef>,
    wanted: &Wanted,
    mut rows: Range<usize>,
    (path, is_alone): (&std::path::Path, bool),
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
    let sequences: ArrayRef = if is_alone && !wanted.with_sequence {
        Arc::new(UInt64Array::from_iter_values(0..rows.len() as u64))
    } else {
        leaf.decode(last, rows.clone())?
    };
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
    let bytes: usize = columns.iter().map(|column| column.get_buffer_memory_size()).sum();
    Ok(Some(Piece {
        columns: columns.into(),
        row_bytes: bytes / rows.len().max(1),
        rows: 0..rows.len(),
        places,
        matching,
        is_alone,
    }))
}

/// One past the last bit that is set.
fn last_set(bits: &BooleanBuffer) -> Option<usize> {
    bits.set_slices().last().map(|(_, end)| end)
}
