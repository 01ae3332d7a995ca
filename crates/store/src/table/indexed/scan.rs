//! The rows of a table between two places, from runs and heads.
//!
//! A scan takes the runs of one leaf interval after another, and the heads beside them. Where one
//! of them has the next rows alone, they go out as slices of its columns; where several overlap,
//! stretches of rows are found by search and copied column by column.

use std::ops::{Bound, Range};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::ArrowError;
use arrow_select::take::take;
use bedload_columns::{Place, Stretches};
use bedload_trees::be_tree::LeafTarget;

use super::body::{Body, kind_of, open};
use super::head_rows::HeadRows;
use super::output::Output;
use super::piece::{Piece, PieceSize, Stride, Wanted};
use super::run_rows::RunRows;
use crate::error::{Error, Result};
use crate::pages::PageVersion;
use crate::rows::{Deletions, Filter, Frontier, Head, Place as RowPlace, Projection, SortedRows, TableEntry};

/// A batch ends early once it has about so many bytes.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// A batch has no more bytes than this however its rows differ: it addresses text with 31 bits.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// A scan of a table of the indexed layout under way.
#[derive(Debug)]
pub(crate) struct IndexedScan {
    tree: Body<Arc<PageVersion>>,
    pages: Arc<PageVersion>,
    projection: Projection,
    wanted: Wanted,
    bounds: (Bound<Place>, Bound<Place>),
    /// Runs of the tree and of heads.
    sources: Vec<Source>,
    /// Sources that have no more rows: others take their places.
    over: Vec<usize>,
    /// The next row of each source that has one at hand, and a place before the rows of each run
    /// of which nothing was read.
    frontier: Frontier,
    /// Sources that are not on the frontier: their next rows are to be read.
    unread: Vec<usize>,
    stride: Stride,
    /// How many batches were begun.
    batches: u64,
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

/// Rows of a source that were not read yet. They are read once their place comes next: a scan that
/// ends before opens no page of theirs and unpacks none.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most sources are runs of the tree, and all are few"
)]
enum Unread {
    Tree(RunRows),
    Head(HeadRows),
    None,
}

/// Where rows come from, and the next ones of them.
#[derive(Debug)]
struct Source {
    unread: Unread,
    piece: Piece,
    /// The batch that last had rows of the piece, and its number among the sets of columns there.
    listed: (u64, usize),
}

impl IndexedScan {
    pub(crate) fn new(
        pages: &Arc<PageVersion>,
        table: &TableEntry,
        (projection, filter): (&Projection, &Filter),
        heads: (impl Iterator<Item = Arc<Head>>, u64),
        bounds: (Bound<RowPlace>, Bound<RowPlace>),
        reverse: bool,
    ) -> Result<Self> {
        let place = |(time, sequence): RowPlace| Place { time, sequence };
        let mut scan = Self {
            tree: open(pages.clone(), table)?,
            pages: pages.clone(),
            wanted: Wanted {
                kind: kind_of(table.id, &table.schema),
                schema: table.schema.clone(),
                columns: projection.columns().collect(),
                with_sequence: projection.with_sequence(),
                filter: filter.clone(),
                reverse,
            },
            projection: projection.clone(),
            bounds: (bounds.0.map(place), bounds.1.map(place)),
            sources: Vec::new(),
            over: Vec::new(),
            frontier: Frontier::new(reverse),
            unread: Vec::new(),
            stride: Stride::default(),
            batches: 0,
            fence: None,
            state: ScanState::Before,
        };
        let (heads, visible) = heads;
        for run in heads.flat_map(|head| head.runs(visible)) {
            scan.add_head_run(&run, visible, bounds)?;
        }
        Ok(scan)
    }

    /// Adds what a run of a head has between two places.
    fn add_head_run(
        &mut self,
        run: &Arc<SortedRows>,
        visible: u64,
        bounds: (Bound<RowPlace>, Bound<RowPlace>),
    ) -> Result<()> {
        let rows = run.between(bounds);
        let sequences = run.sequences();
        if rows.is_empty() || !self.wanted.filter.may_want(sequences.start..=sequences.end - 1) {
            return Ok(());
        }
        if run.sequences().end <= visible {
            self.add(Unread::Head(HeadRows::new(run.clone(), rows)), Piece::none());
            return Ok(());
        }
        let kept = run.before(visible, rows);
        let (columns, places) = kept.map_err(|error| Error::schema(error.to_string()))?;
        let matching = self.wanted.filter.select(|column| Ok(columns[column].clone()))?;
        let piece = Piece {
            columns: self.wanted.of_table(&columns, &places),
            rows: 0..places.len(),
            places,
            matching,
            sequences: run.sequences(),
            size: PieceSize {
                row_bytes: run.bytes() / run.len().max(1),
                row_bytes_max: run.row_bytes_max(),
                own_bytes: 0,
            },
            is_alone: false,
        };
        self.add(Unread::None, piece);
        Ok(())
    }

    /// Adds a source. Its rows come where the piece or what was not read begins.
    fn add(&mut self, unread: Unread, piece: Piece) {
        let reverse = self.wanted.reverse;
        let begins = match &unread {
            Unread::Tree(rows) => Some(row_place(rows.edge(reverse))),
            Unread::Head(rows) => rows.edge(reverse),
            Unread::None => None,
        };
        let source = Source {
            unread,
            piece,
            listed: (0, 0),
        };
        let number = if let Some(number) = self.over.pop() {
            self.sources[number] = source;
            number
        } else {
            self.sources.push(source);
            self.sources.len() - 1
        };
        match begins {
            Some(begins) => self.frontier.push(begins, number),
            None => self.unread.push(number),
        }
    }

    /// The next rows, at most `most`; `None` after the last.
    pub(crate) fn next(&mut self, most: usize, deletions: &Deletions) -> Result<Option<RecordBatch>> {
        self.batches += 1;
        let mut output = Output::default();
        let (mut rows, mut bytes, mut text_bytes) = (0, 0, 0);
        // A batch without rows would be taken for the end.
        while rows < most && (bytes < BATCH_BYTES_MAX || rows == 0) && self.state != ScanState::Over {
            if self.state == ScanState::Before {
                self.enter()?;
            }
            self.stride.want(most - rows);
            self.read_on(deletions)?;
            if self.wanted.filter.is_stopped() {
                return Ok(None);
            }
            let Some((number, limit)) = self.first() else {
                self.leave();
                continue;
            };
            let reverse = self.wanted.reverse;
            let Source { piece, listed, .. } = &mut self.sources[number];
            let is_listed = listed.0 == self.batches;
            let set = if is_listed { listed.1 } else { output.sets.len() };
            let PieceSize {
                row_bytes,
                row_bytes_max,
                own_bytes,
            } = piece.size;
            let fit = TEXT_BYTES_MAX.saturating_sub(text_bytes) / row_bytes_max.max(1);
            if fit == 0 && rows > 0 {
                break;
            }
            let fit = fit.min(BATCH_BYTES_MAX / row_bytes.max(1)).max(1);
            let stretch = stretch_of(piece, limit, reverse);
            let looked_at = stretch.len();
            let is_filtered = piece.matching.is_some();
            let (left, rest) = output.add((piece, set), stretch, fit.min(most - rows), (deletions, reverse));
            if reverse {
                piece.rows.end = rest.end;
            } else {
                piece.rows.start = rest.start;
            }
            rows += left;
            bytes += row_bytes * left;
            text_bytes += row_bytes_max * left;
            if left == 0 {
                self.stride.pass(looked_at);
            } else {
                self.stride.find();
                if !is_listed {
                    *listed = (self.batches, set);
                    output.sets.push(piece.columns.clone());
                    // The whole piece stays in memory until the batch is built.
                    if is_filtered || left < looked_at - rest.len() {
                        bytes += own_bytes;
                    }
                }
            }
            let next = self.next_of(number);
            self.frontier.replace_first(next);
            if next.is_none() {
                self.unread.push(number);
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        self.build(output, rows).map(Some).map_err(|error| {
            let path = self.pages.path();
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
        // Ends the scan whatever the pages hold.
        let leads_on = match (self.wanted.reverse, from, to) {
            (false, Bound::Included(from) | Bound::Excluded(from), _) => high.is_none_or(|high| high > from),
            (true, _, Bound::Included(to)) => low.is_none_or(|low| low <= to),
            (true, _, Bound::Excluded(to)) => low.is_none_or(|low| low < to),
            _ => true,
        };
        if !leads_on {
            let place = format!("page {}", self.tree.meta());
            let reason = "the pivots of its tree do not ascend";
            return Err(Error::corrupt(self.pages.path(), place, reason));
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
                let rows = RunRows::new(&self.pages, run, bounds);
                self.add(Unread::Tree(rows), Piece::none());
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

    /// Moves on after the last row of an interval, to the next one if there is one.
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

    /// The next row that a source has at hand.
    fn next_of(&self, number: usize) -> Option<RowPlace> {
        self.sources[number]
            .piece
            .next(self.wanted.reverse)
            .map(row_place)
    }

    /// Whether no other source has rows in the interval. Heads whose next row lies beyond it do not
    /// count, unless that row may have a time of the interval: ranks stand in for sequence numbers.
    fn is_alone(&self, number: usize) -> bool {
        let reverse = self.wanted.reverse;
        let is_beyond = |(time, _): RowPlace| match self.fence {
            Some(fence) if reverse => time < fence.time,
            Some(fence) => time > fence.time,
            None => false,
        };
        let others = self
            .sources
            .iter()
            .enumerate()
            .filter(|&(other, _)| other != number);
        others
            .map(|(_, source)| source)
            .all(|source| match &source.unread {
                Unread::Tree(_) => false,
                Unread::Head(rows) if source.piece.rows.is_empty() => {
                    rows.edge(reverse).is_none_or(is_beyond)
                }
                _ => source.piece.next(reverse).map(row_place).is_none_or(is_beyond),
            })
    }

    /// How many sources the scan holds, and of how many it reads rows that it compares with no
    /// others.
    #[cfg(test)]
    pub(crate) fn sources(&self) -> (usize, usize) {
        let alone = self.sources.iter().filter(|source| source.piece.is_alone);
        (self.sources.len(), alone.count())
    }

    /// Reads the next rows of runs that have none at hand, if they may come next.
    fn read_on(&mut self, deletions: &Deletions) -> Result<()> {
        loop {
            while let Some(number) = self.unread.pop() {
                let is_alone = deletions.is_empty() && self.is_alone(number);
                let source = &mut self.sources[number];
                if source.piece.rows.is_empty() {
                    let stride = &mut self.stride;
                    let piece = match &mut source.unread {
                        Unread::Tree(rows) => rows.next(&self.wanted, deletions, (stride, is_alone))?,
                        Unread::Head(rows) => rows.next(&self.wanted, deletions, stride)?,
                        Unread::None => None,
                    };
                    match piece {
                        Some(piece) => (source.piece, source.listed) = (piece, (0, 0)),
                        // Its pages are not needed any more.
                        None => {
                            (source.unread, source.piece) = (Unread::None, Piece::none());
                            self.over.push(number);
                        }
                    }
                }
                if let Some(next) = self.next_of(number) {
                    self.frontier.push(next, number);
                }
            }
            match self.frontier.first() {
                // Where a run begins, of which nothing was read.
                Some((_, number)) if self.sources[number].piece.rows.is_empty() => {
                    self.frontier.replace_first(None);
                    self.unread.push(number);
                }
                _ => return Ok(()),
            }
        }
    }

    /// The source whose row comes next in the interval, and the row up to which it may go on.
    fn first(&self) -> Option<(usize, Option<Place>)> {
        let reverse = self.wanted.reverse;
        let place = |(time, sequence): RowPlace| Place { time, sequence };
        let (next, number) = self.frontier.first()?;
        if self.sources[number].piece.is_alone {
            return Some((number, None));
        }
        let next = place(next);
        // In reverse the fence is the first row of the interval, else the first after it. Only
        // heads reach beyond it.
        let is_within = |fence: Place| if reverse { next >= fence } else { next < fence };
        if !self.fence.is_none_or(is_within) {
            return None;
        }
        let second = self.frontier.second().map(place);
        let Some(fence) = self.fence else {
            return Some((number, second));
        };
        let comes_before = |a: Place, b: Place| if reverse { a > b } else { a < b };
        let limit = match second {
            Some(second) if comes_before(second, fence) => Some(second),
            _ if reverse => before(fence),
            _ => Some(fence),
        };
        Some((number, limit))
    }

    /// The batch of some stretches, which stand in the direction of the scan.
    fn build(&self, mut output: Output, rows: usize) -> Result<RecordBatch, ArrowError> {
        if self.wanted.reverse {
            output.stretches.reverse();
        }
        let mut stretches = Stretches::of_sets(output.sets);
        for (set, rows) in output.stretches {
            stretches.push_of(set, rows);
        }
        let mut columns: Vec<ArrayRef> = stretches.build()?;
        if self.wanted.reverse && rows > 1 {
            let backwards = UInt64Array::from_iter_values((0..rows as u64).rev());
            for column in &mut columns {
                *column = take(column, &backwards, None)?;
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.projection.arrow().clone(), columns, &options)
    }
}

fn row_place(place: Place) -> RowPlace {
    (place.time, place.sequence)
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

/// The next rows of a piece, up to another source's.
fn stretch_of(piece: &Piece, limit: Option<Place>, reverse: bool) -> Range<usize> {
    let rows = piece.rows.clone();
    let Some(limit) = limit else {
        return rows;
    };
    if reverse {
        let begin = piece.places.search(rows.clone(), |place| place > limit);
        begin.min(rows.end - 1)..rows.end
    } else {
        let end = piece.places.gallop(rows.clone(), |place| place >= limit);
        rows.start..end.max(rows.start + 1)
    }
}
