//! The rows of a table between two places, from runs and heads.
//!
//! A scan takes the runs of one leaf interval after another, and the heads beside them. Where one of them has the next rows
//! alone, they go out as slices of its columns; where several overlap, stretches of rows are found by search and copied
//! column by column.

use std::ops::{Bound, Range};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::ArrowError;
use arrow_select::take::take;
use bedload_columns::{ColumnSet, Place, Places, Stretches};
use bedload_trees::be_tree::LeafTarget;

use super::body::{Body, kind_of, open};
use super::run_rows::{Piece, RunRows, Wanted};
use crate::engine::{TableEntry, View};
use crate::error::{Error, Result};
use crate::pages::PageVersion;
use crate::rows::{BatchBuilder, Deletions, Head, Place as RowPlace, Projection};

/// A batch ends early once it has about so many bytes: a batch addresses text with 31 bits.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Rows that are taken out of a head or a leaf at a time, at least.
const PIECE_ROWS_MIN: usize = 64;

/// The most rows that are taken out of a head at a time: they are copied row by row.
const HEAD_ROWS_MAX: usize = 4096;

/// A scan of a table of the indexed layout under way.
#[derive(Debug)]
pub(crate) struct IndexedScan {
    tree: Body<Arc<PageVersion>>,
    view: Arc<View>,
    projection: Projection,
    /// As `projection`, with sequence numbers.
    of_heads: Projection,
    wanted: Wanted,
    bounds: (Bound<Place>, Bound<Place>),
    sources: Vec<Source>,
    /// Where the present interval ends in the direction of the scan: its rows lie before it.
    fence: Option<Place>,
    state: ScanState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanState {
    /// The next interval must be entered.
    Before,
    Within,
    Over,
}

/// Where rows come from, and the next ones of them.
#[derive(Debug)]
struct Source {
    origin: Origin,
    piece: Option<Piece>,
}

#[derive(Debug)]
enum Origin {
    Run(RunRows),
    Head(HeadPieces),
}

/// The rows of a head that were not read yet.
#[derive(Debug)]
struct HeadPieces {
    head: Arc<Head>,
    visible: u64,
    bounds: (Bound<RowPlace>, Bound<RowPlace>),
    is_over: bool,
}

impl IndexedScan {
    pub(crate) fn new(
        view: &Arc<View>,
        table: &TableEntry,
        projection: &Projection,
        heads: (&[Arc<Head>], u64),
        bounds: (Bound<RowPlace>, Bound<RowPlace>),
        reverse: bool,
    ) -> Result<Self> {
        let columns: Vec<usize> = projection.columns().collect();
        let of_head = |head: &Arc<Head>| Source {
            origin: Origin::Head(HeadPieces {
                head: head.clone(),
                visible: heads.1,
                bounds,
                is_over: false,
            }),
            piece: None,
        };
        let place = |(time, sequence): RowPlace| Place { time, sequence };
        Ok(Self {
            tree: open(view.pages.clone(), table)?,
            view: view.clone(),
            of_heads: Projection::new(table.schema.clone(), columns.clone(), true),
            wanted: Wanted {
                kind: kind_of(table.id, &table.schema),
                columns,
                with_sequence: projection.with_sequence(),
                reverse,
            },
            projection: projection.clone(),
            bounds: (bounds.0.map(place), bounds.1.map(place)),
            sources: heads.0.iter().map(of_head).collect(),
            fence: None,
            state: ScanState::Before,
        })
    }

    /// The next rows, up to so many; `None` behind the last.
    pub(crate) fn next(&mut self, most: usize, deletions: &Deletions) -> Result<Option<RecordBatch>> {
        let mut output = Vec::new();
        let (mut rows, mut bytes) = (0, 0);
        while rows < most && bytes < BATCH_BYTES_MAX && self.state != ScanState::Over {
            if self.state == ScanState::Before {
                self.enter()?;
            }
            self.fill(most - rows)?;
            let Some((number, limit)) = self.first() else {
                self.leave();
                continue;
            };
            let reverse = self.wanted.reverse;
            let Some(piece) = &mut self.sources[number].piece else {
                continue;
            };
            let stretch = stretch_of(piece, limit, most - rows, reverse);
            if reverse {
                piece.rows.end = stretch.start;
            } else {
                piece.rows.start = stretch.end;
            }
            bytes += piece.row_bytes * stretch.len();
            rows += add_left(&mut output, piece, stretch, deletions, reverse);
        }
        if rows == 0 {
            return Ok(None);
        }
        self.build(output, rows).map(Some).map_err(|error| {
            let path = self.view.pages.path();
            Error::corrupt(path, "rows of a table", error.to_string())
        })
    }

    /// Begins to read the next interval.
    fn enter(&mut self) -> Result<()> {
        let target = match (self.wanted.reverse, self.bounds) {
            (false, (Bound::Unbounded, _)) => LeafTarget::First,
            (false, (Bound::Included(from) | Bound::Excluded(from), _)) => LeafTarget::At(from.edge()),
            (true, (_, Bound::Unbounded)) => LeafTarget::Last,
            (true, (_, Bound::Included(to))) => LeafTarget::At(to.edge()),
            (true, (_, Bound::Excluded(to))) => LeafTarget::Before(to.edge()),
        };
        let interval = self.tree.leaf_interval(target)?;
        let (low, high) = (
            interval.low.map(Place::of_edge),
            interval.high.map(Place::of_edge),
        );
        let (from, to) = self.bounds;
        // So that a scan comes to an end whatever the pages hold.
        let leads_on = match (self.wanted.reverse, from, to) {
            (false, Bound::Included(from) | Bound::Excluded(from), _) => high.is_none_or(|high| high > from),
            (true, _, Bound::Included(to)) => low.is_none_or(|low| low <= to),
            (true, _, Bound::Excluded(to)) => low.is_none_or(|low| low < to),
            _ => true,
        };
        if !leads_on {
            let place = format!("page {}", self.tree.meta());
            let reason = "the pivots of its tree do not ascend";
            return Err(Error::corrupt(self.view.pages.path(), place, reason));
        }
        let begins_later = |low: Place| match from {
            Bound::Unbounded => true,
            Bound::Included(from) | Bound::Excluded(from) => low > from,
        };
        let ends_earlier = |high: Place| match to {
            Bound::Unbounded => true,
            Bound::Included(to) => high <= to,
            Bound::Excluded(to) => high < to,
        };
        let bounds = (
            low.filter(|&low| begins_later(low)).map_or(from, Bound::Included),
            high.filter(|&high| ends_earlier(high))
                .map_or(to, Bound::Excluded),
        );
        for run in &interval.runs {
            if meets(Place::of_edge(run.first), Place::of_edge(run.last), bounds) {
                let rows = RunRows::new(&self.view.pages, self.wanted.kind, run, bounds)?;
                self.sources.push(Source {
                    origin: Origin::Run(rows),
                    piece: None,
                });
            }
        }
        self.fence = if self.wanted.reverse {
            low.filter(|&low| begins_later(low))
        } else {
            high.filter(|&high| ends_earlier(high))
        };
        self.state = ScanState::Within;
        Ok(())
    }

    /// Behind the last row of an interval: on to the next one, if there is one.
    fn leave(&mut self) {
        let Some(fence) = self.fence else {
            self.state = ScanState::Over;
            return;
        };
        if self.wanted.reverse {
            self.bounds.1 = Bound::Excluded(fence);
        } else {
            self.bounds.0 = Bound::Included(fence);
        }
        self.state = ScanState::Before;
    }

    /// Sees to it that each source has rows at hand; those that have none left are forgotten.
    fn fill(&mut self, wanted: usize) -> Result<()> {
        let most = wanted.max(PIECE_ROWS_MIN);
        let mut at = 0;
        while let Some(source) = self.sources.get_mut(at) {
            if source.piece.as_ref().is_none_or(|piece| piece.rows.is_empty()) {
                source.piece = match &mut source.origin {
                    Origin::Run(rows) => rows.next(&self.wanted, most)?,
                    Origin::Head(head) => {
                        let projection = (&self.of_heads, &*self.view);
                        head.next(projection, most.min(HEAD_ROWS_MAX), &self.wanted)?
                    }
                };
            }
            if source.piece.is_some() {
                at += 1;
            } else {
                self.sources.swap_remove(at);
            }
        }
        Ok(())
    }

    /// The source whose row comes next in the interval, and the row up to which it may go on.
    fn first(&self) -> Option<(usize, Option<Place>)> {
        let reverse = self.wanted.reverse;
        let comes_before = |a: Place, b: Place| if reverse { a > b } else { a < b };
        let mut first: Option<(usize, Place)> = None;
        let mut second: Option<Place> = None;
        for (number, source) in self.sources.iter().enumerate() {
            let Some(next) = source.piece.as_ref().and_then(|piece| piece.next(reverse)) else {
                continue;
            };
            match first {
                Some((_, least)) if !comes_before(next, least) => {
                    second = Some(
                        second
                            .filter(|&second| comes_before(second, next))
                            .unwrap_or(next),
                    );
                }
                _ => {
                    second = first.map(|(_, least)| least);
                    first = Some((number, next));
                }
            }
        }
        let (number, next) = first?;
        let Some(fence) = self.fence else {
            return Some((number, second));
        };
        // In reverse the fence is the first row of the interval, else the first behind it. Only heads reach beyond it.
        let is_within = if reverse { next >= fence } else { next < fence };
        let limit = match second {
            Some(second) if comes_before(second, fence) => Some(second),
            _ if reverse => before(fence),
            _ => Some(fence),
        };
        is_within.then_some((number, limit))
    }

    /// The batch of some stretches, which stand in the direction of the scan.
    fn build(
        &self,
        mut output: Vec<(ColumnSet, Range<usize>)>,
        rows: usize,
    ) -> Result<RecordBatch, ArrowError> {
        if self.wanted.reverse {
            output.reverse();
        }
        let mut stretches = Stretches::new();
        for (columns, rows) in output {
            stretches.push(&columns, rows);
        }
        let mut columns: Vec<ArrayRef> = stretches.build()?;
        if self.wanted.reverse {
            let backwards = UInt64Array::from_iter_values((0..rows as u64).rev());
            for column in &mut columns {
                *column = take(column, &backwards, None)?;
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.projection.arrow().clone(), columns, &options)
    }
}

/// The place just before another; `None` if there is none.
fn before(place: Place) -> Option<Place> {
    Some(match place.sequence.checked_sub(1) {
        Some(sequence) => Place { sequence, ..place },
        None => Place {
            time: place.time.checked_sub(1)?,
            sequence: u64::MAX,
        },
    })
}

/// Whether rows from `first` to `last` may lie between two places.
fn meets(first: Place, last: Place, (from, to): (Bound<Place>, Bound<Place>)) -> bool {
    let ends_behind = match from {
        Bound::Unbounded => true,
        Bound::Included(from) => last >= from,
        Bound::Excluded(from) => last > from,
    };
    let begins_before = match to {
        Bound::Unbounded => true,
        Bound::Included(to) => first <= to,
        Bound::Excluded(to) => first < to,
    };
    ends_behind && begins_before
}

/// The next rows of a piece, up to another source's, and at most so many.
fn stretch_of(piece: &Piece, limit: Option<Place>, most: usize, reverse: bool) -> Range<usize> {
    let rows = piece.rows.clone();
    let Some(limit) = limit else {
        return if reverse {
            rows.end - rows.len().min(most)..rows.end
        } else {
            rows.start..rows.start + rows.len().min(most)
        };
    };
    if reverse {
        let begin = piece.places.search(rows.clone(), |place| place > limit);
        begin.max(rows.end.saturating_sub(most)).min(rows.end - 1)..rows.end
    } else {
        let end = piece.places.gallop(rows.clone(), |place| place >= limit);
        rows.start..end.min(rows.start + most).max(rows.start + 1)
    }
}

/// Adds the rows of a stretch that deletions leave, in the direction of the scan; returns how many they are.
fn add_left(
    output: &mut Vec<(ColumnSet, Range<usize>)>,
    piece: &Piece,
    stretch: Range<usize>,
    deletions: &Deletions,
    reverse: bool,
) -> usize {
    let times = piece.places.get(stretch.start).time..=piece.places.get(stretch.end - 1).time;
    if deletions.is_empty() || !deletions.may_cover(times, 0..=u64::MAX) {
        let rows = stretch.len();
        output.push((piece.columns.clone(), stretch));
        return rows;
    }
    let begun = output.len();
    let mut left = 0;
    let mut known = None;
    for row in stretch {
        let Place { time, sequence } = piece.places.get(row);
        let of_time = match known.filter(|known: &crate::rows::Stretch| known.contains(time)) {
            Some(of_time) => of_time,
            None => deletions.stretch(time),
        };
        known = Some(of_time);
        if deletions.covers_in(of_time, time, sequence) {
            continue;
        }
        left += 1;
        match output[begun..].last_mut().filter(|(_, rows)| rows.end == row) {
            Some((_, rows)) => rows.end += 1,
            None => output.push((piece.columns.clone(), row..row + 1)),
        }
    }
    if reverse {
        output[begun..].reverse();
    }
    left
}

impl HeadPieces {
    /// The next rows in the direction of the scan, up to so many.
    fn next(
        &mut self,
        (projection, view): (&Projection, &View),
        most: usize,
        wanted: &Wanted,
    ) -> Result<Option<Piece>> {
        if self.is_over {
            return Ok(None);
        }
        let mut rows = self.head.rows(self.bounds, self.visible, wanted.reverse, most);
        self.is_over = rows.len() < most;
        let Some(last) = rows.last() else {
            return Ok(None);
        };
        if wanted.reverse {
            self.bounds.1 = Bound::Excluded(last.place());
            rows.reverse();
        } else {
            self.bounds.0 = Bound::Excluded(last.place());
        }
        let mut builder = BatchBuilder::new(projection, rows.len(), &view.memory);
        for row in &rows {
            builder.append(row, 0..1)?;
        }
        let batch = builder
            .finish()
            .map_err(|error| Error::schema(error.to_string()))?;
        let mut columns = batch.columns().to_vec();
        if !wanted.with_sequence {
            columns.pop();
        }
        let times = rows.iter().map(|row| row.time).collect();
        let sequences = rows.iter().map(|row| row.sequence).collect();
        Ok(Places::of_rows(times, sequences).map(|places| Piece::new(columns, places)))
    }
}
