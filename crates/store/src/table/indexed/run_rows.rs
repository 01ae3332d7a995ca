//! The rows of one run, piece by piece.

use std::ops::{Bound, Range};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt64Array};
use bedload_columns::{Place, Places, RunIndexPage, RunLeaf};
use bedload_trees::run::Run;

use super::piece::{Piece, PieceSize, Stride, Wanted, narrowed, take_first};
use crate::error::{Error, Result};
use crate::pages::{PageRef, PageVersion};
use crate::rows::Deletions;

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

    /// The next rows in the direction of the scan, at most as many as the stride says; `None` after
    /// the last. `is_alone` says that they are compared with no others. Leaves whose rows are all
    /// deleted, or all older than wanted, are not read.
    pub(super) fn next(
        &mut self,
        wanted: &Wanted,
        deletions: &Deletions,
        (stride, is_alone): (&mut Stride, bool),
    ) -> Result<Option<Piece>> {
        loop {
            if wanted.filter.is_stopped() {
                return Ok(None);
            }
            if let Some((leaf, rows)) = &mut self.leaf
                && rows.start < rows.end
            {
                let rows = take_first(rows, stride.rows(), wanted.reverse);
                let piece = read(leaf, wanted, rows.clone(), (self.pages.path(), is_alone))?;
                if piece.is_some() {
                    return Ok(piece);
                }
                stride.pass(rows.len());
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

/// Reads rows of a leaf: those from the first to the last that match; none if none does.
fn read(
    leaf: &RunLeaf<PageRef>,
    wanted: &Wanted,
    rows: Range<usize>,
    (path, is_alone): (&std::path::Path, bool),
) -> Result<Option<Piece>> {
    let damaged = |reason: &str| Error::corrupt(path, format!("page {}", leaf.page()), reason);
    let matching = wanted
        .filter
        .select(|column| wanted.decode(leaf, column, rows.clone()))?;
    let Some((rows, matching)) = narrowed(rows.clone(), matching) else {
        return Ok(None);
    };
    let times = leaf.decode(wanted.kind.time(), rows.clone())?;
    let sequences: ArrayRef = if is_alone && !wanted.with_sequence {
        Arc::new(UInt64Array::from_iter_values(0..rows.len() as u64))
    } else {
        leaf.decode(leaf.columns() - 1, rows.clone())?
    };
    let decode = |&column: &usize| match column == wanted.kind.time() {
        true => Ok(times.clone()),
        false => wanted.decode(leaf, column, rows.clone()),
    };
    let mut columns = wanted.columns.iter().map(decode).collect::<Result<Vec<_>>>()?;
    if wanted.with_sequence {
        columns.push(sequences.clone());
    }
    let places = Places::of_columns(&times, &sequences).filter(Places::ascend);
    let places = places.ok_or_else(|| damaged("its leaf has rows out of order, or without a place"))?;
    let bytes: usize = columns.iter().map(|column| column.get_buffer_memory_size()).sum();
    let row_bytes = bytes / rows.len().max(1);
    let header = leaf.header();
    Ok(Some(Piece {
        columns: columns.into(),
        sequences: header.min_sequence..header.max_sequence.saturating_add(1),
        size: PieceSize {
            row_bytes,
            row_bytes_max: row_bytes,
            own_bytes: bytes,
        },
        rows: 0..rows.len(),
        places,
        matching,
        is_alone,
    }))
}
