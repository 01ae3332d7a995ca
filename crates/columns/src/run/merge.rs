//! Merging runs of columns.

use std::ops::{Bound, Range};
use std::sync::Arc;

use bedload_pages::{PageStore, Result};
use bedload_trees::I64Order;
use bedload_trees::be_tree::RunMerge;
use bedload_trees::run::Run;

use super::corrupt;
use super::index::RunIndex;
use super::kind::ColumnRuns;
use super::leaf::RunLeaf;
use super::place::{Place, Places};
use super::stretches::{ColumnSet, Stretches};
use super::writer::ColumnRunWriter;

/// Bounds of a range of positions.
type Bounds = (Bound<Place>, Bound<Place>);

/// A merge of slices of runs in progress. Each row is compared with the next row of every other
/// run; where runs hardly overlap it takes less, as stretches of one run are found by search.
pub struct ColumnMerge<'t, S: PageStore + 't> {
    store: &'t S,
    kind: ColumnRuns,
    sources: Vec<Source<'t, S>>,
    /// The rank of the next row of each source, side by side as each row is compared with all of
    /// them.
    next: Vec<u128>,
    writer: ColumnRunWriter<'t, S>,
    stretches: Stretches,
    taken: u64,
}

/// Rows of a source unpacked at a time, to bound the memory of a merge of many runs.
const PIECE_ROWS: usize = 2048;

/// The rows of a slice of a run that are not merged yet.
struct Source<'t, S: PageStore + 't> {
    store: &'t S,
    kind: ColumnRuns,
    index: RunIndex,
    /// Leaves not opened yet.
    leaves: Range<usize>,
    bounds: Bounds,
    /// The current leaf, and its rows not unpacked yet.
    leaf: Option<(RunLeaf<S::Pin<'t>>, Range<usize>)>,
    columns: ColumnSet,
    /// Their number among the sets of the stretches, once rows of them are there.
    set: Option<usize>,
    places: Places,
    /// Unpacked rows that are left; at least one.
    rows: Range<usize>,
}

impl<'t, S: PageStore> Source<'t, S> {
    /// Returns `None` if the slice has no rows.
    fn new(store: &'t S, kind: ColumnRuns, run: &Run, bounds: Bounds) -> Result<Option<Self>> {
        let index = RunIndex::read(store, run, kind.owner)?;
        let leaves = index.between(bounds.0, bounds.1);
        let mut source = Self {
            store,
            kind,
            index,
            leaves,
            bounds,
            leaf: None,
            columns: Arc::new([]),
            set: None,
            places: Places::none(),
            rows: 0..0,
        };
        Ok(source.unpack()?.then_some(source))
    }

    /// Unpacks the next rows of the slice; returns `false` if there are none.
    fn unpack(&mut self) -> Result<bool> {
        loop {
            if let Some((leaf, left)) = &mut self.leaf
                && left.start < left.end
            {
                let piece = left.start..left.end.min(left.start + PIECE_ROWS);
                left.start = piece.end;
                let columns = (0..leaf.columns()).map(|column| leaf.decode(column, piece.clone()));
                self.columns = columns.collect::<Result<_>>()?;
                self.set = None;
                let places = self.kind.places(&self.columns).filter(Places::ascend);
                let damaged = || {
                    corrupt(
                        leaf.page(),
                        "it has other columns than its table, or rows out of order",
                    )
                };
                self.places = places.ok_or_else(damaged)?;
                self.rows = 0..self.places.len();
                return Ok(true);
            }
            let Some(number) = self.leaves.next() else {
                return Ok(false);
            };
            let ahead = self.index.leaves()[number..].iter().take(2);
            self.store
                .read_ahead(&ahead.map(|leaf| leaf.page).collect::<Vec<_>>());
            let leaf = self.index.pin(self.store, number)?;
            let rows = leaf.between(self.kind.time, self.bounds)?;
            self.leaf = Some((leaf, rows));
        }
    }

    fn next(&self) -> u128 {
        self.places.get(self.rows.start).rank()
    }
}

impl<'t, S: PageStore> ColumnMerge<'t, S> {
    pub(super) fn new(
        store: &'t S,
        kind: ColumnRuns,
        slices: impl Iterator<Item = (Run, Bound<Place>, Bound<Place>)>,
    ) -> Result<Self> {
        let mut sources = Vec::new();
        for (run, from, to) in slices {
            sources.extend(Source::new(store, kind, &run, (from, to))?);
        }
        Ok(Self {
            writer: ColumnRunWriter::new(store, kind)?,
            store,
            kind,
            next: sources.iter().map(Source::next).collect(),
            sources,
            stretches: Stretches::new(),
            taken: 0,
        })
    }

    /// Returns the source whose row comes first, and the rank of the first row of the others, or
    /// the greatest.
    fn first(&self) -> Option<(usize, u128)> {
        let (mut first, mut second, mut number) = (u128::MAX, u128::MAX, 0);
        for (at, &next) in self.next.iter().enumerate() {
            // Selected without branches, of which half would be mispredicted.
            number = if next < first { at } else { number };
            second = second.min(first.max(next));
            first = first.min(next);
        }
        (!self.next.is_empty()).then_some((number, second))
    }

    /// Passes the merged rows so far to the writer.
    fn write(&mut self) -> Result<()> {
        let columns = self.stretches.build().map_err(bedload_pages::Error::store)?;
        self.sources.iter_mut().for_each(|source| source.set = None);
        self.writer.push(columns)
    }
}

impl<S: PageStore> RunMerge for ColumnMerge<'_, S> {
    fn advance(&mut self, entries: u64) -> Result<bool> {
        let mut left = usize::try_from(entries).unwrap_or(usize::MAX);
        while left > 0
            && let Some((number, limit)) = self.first()
        {
            let source = &mut self.sources[number];
            let most = source.rows.start.saturating_add(left).min(source.rows.end);
            let end = source
                .places
                .gallop(source.rows.start + 1..most, |place| place.rank() > limit);
            let stretch = source.rows.start..end;
            let set = source.set.get_or_insert_with(|| {
                let columns = source.columns.clone();
                self.stretches.add_set(columns)
            });
            self.stretches.push_of(*set, stretch.clone());
            source.rows.start = end;
            left -= stretch.len();
            self.taken += stretch.len() as u64;
            if source.rows.is_empty() && !source.unpack()? {
                self.sources.swap_remove(number);
                self.next.swap_remove(number);
            } else {
                self.next[number] = source.next();
            }
            if self.stretches.rows() >= self.kind.leaf_rows {
                self.write()?;
            }
        }
        Ok(!self.sources.is_empty())
    }

    fn taken(&self) -> u64 {
        self.taken
    }

    fn next_position(&self, key: &mut Vec<u8>) -> Option<u64> {
        let (number, _) = self.first()?;
        let source = &self.sources[number];
        let next = source.places.get(source.rows.start);
        key.clear();
        key.extend_from_slice(&I64Order::key(next.time));
        Some(next.sequence)
    }

    fn cut(&mut self) -> Result<Option<Run>> {
        self.write()?;
        let next = ColumnRunWriter::new(self.store, self.kind)?;
        std::mem::replace(&mut self.writer, next).finish()
    }

    fn finish(mut self) -> Result<Option<Run>> {
        self.write()?;
        self.writer.finish()
    }
}
