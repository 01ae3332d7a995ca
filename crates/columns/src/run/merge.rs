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
use super::leaf_maker::LeafMaker;
use super::new_leaf::NewLeaf;
use super::place::{Place, Places};
use super::stretches::{ColumnSet, Stretches};
use super::writer::{ColumnRunWriter, bytes_of};

/// Bounds of a range of positions.
type Bounds = (Bound<Place>, Bound<Place>);

/// A merge of slices of runs in progress. Each row is compared with the next row of every other
/// run; where runs hardly overlap it takes less, as stretches of one run are found by search.
pub struct ColumnMerge<'t, S: PageStore + 't> {
    store: &'t S,
    kind: ColumnRuns,
    sources: Vec<Source<'t, S>>,
    /// The time of the next row of each source, side by side as each row is compared with all of
    /// them.
    next: Vec<i64>,
    maker: LeafMaker,
    writer: ColumnRunWriter<'t, S>,
    /// The rows of the next leaf.
    stretches: Stretches,
    /// About how many bytes they have.
    stretched_bytes: usize,
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
    /// The bytes of an unpacked row, on average.
    row_bytes: usize,
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
            row_bytes: 0,
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
                self.row_bytes = bytes_of(&self.columns).div_ceil(self.rows.len().max(1));
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

    fn next(&self) -> Place {
        self.places.get(self.rows.start)
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
            maker: LeafMaker::new(kind, store.payload_max()),
            writer: ColumnRunWriter::new(store, kind)?,
            store,
            kind,
            next: sources.iter().map(|source| source.next().time).collect(),
            sources,
            stretches: Stretches::new(),
            stretched_bytes: 0,
            taken: 0,
        })
    }

    /// Returns the source whose row comes first, and a position up to which no other source has
    /// rows; `None` for that if there is no other source.
    fn first(&self) -> Option<(usize, Option<Place>)> {
        if self.next.len() < 2 {
            return (!self.next.is_empty()).then_some((0, None));
        }
        let (mut first, mut second, mut number) = (i64::MAX, i64::MAX, 0);
        for (at, &next) in self.next.iter().enumerate() {
            // Selected without branches, of which half would be mispredicted.
            number = if next < first { at } else { number };
            second = second.min(first.max(next));
            first = first.min(next);
        }
        if first < second {
            let (time, sequence) = (second, 0);
            return Some((number, Some(Place { time, sequence })));
        }
        // Sequence numbers order rows of one time.
        let next = || self.sources.iter().map(Source::next).enumerate();
        let (number, _) = next().min_by_key(|&(_, place)| place)?;
        let others = next().filter(|&(other, _)| other != number);
        Some((number, others.map(|(_, place)| place).min()))
    }

    /// How many rows of a size the next leaf has room for, at least one. Wide rows fill a leaf long
    /// before they are many, and text of an array has 31 bits of room.
    fn room(&self, row_bytes: usize) -> usize {
        let bytes = self.kind.leaf_bytes.saturating_sub(self.stretched_bytes);
        let rows = self.kind.leaf_rows.saturating_sub(self.stretches.rows());
        rows.min(bytes.div_ceil(row_bytes.max(1))).max(1)
    }

    /// Makes a leaf of the merged rows, and writes leaves that were made before.
    fn end_leaf(&mut self) -> Result<()> {
        self.stretched_bytes = 0;
        self.sources.iter_mut().for_each(|source| source.set = None);
        let made = self.maker.make(std::mem::take(&mut self.stretches))?;
        self.write(&made)
    }

    /// Writes leaves of all rows so far.
    fn write_all(&mut self) -> Result<()> {
        if self.stretches.rows() > 0 {
            self.end_leaf()?;
        }
        let made = self.maker.rest()?;
        self.write(&made)
    }

    fn write(&mut self, leaves: &[NewLeaf]) -> Result<()> {
        leaves.iter().try_for_each(|leaf| self.writer.push_leaf(leaf))
    }
}

impl<S: PageStore> RunMerge for ColumnMerge<'_, S> {
    fn advance(&mut self, entries: u64) -> Result<bool> {
        let mut left = usize::try_from(entries).unwrap_or(usize::MAX);
        while left > 0
            && let Some((number, limit)) = self.first()
        {
            let most = left.min(self.room(self.sources[number].row_bytes));
            let source = &mut self.sources[number];
            let most = source.rows.start.saturating_add(most).min(source.rows.end);
            let end = limit.map_or(most, |limit| {
                let rows = source.rows.start + 1..most;
                source.places.gallop(rows, |place| place >= limit)
            });
            let stretch = source.rows.start..end;
            let set = source.set.get_or_insert_with(|| {
                let columns = source.columns.clone();
                self.stretches.add_set(columns)
            });
            self.stretches.push_of(*set, stretch.clone());
            self.stretched_bytes += stretch.len() * source.row_bytes;
            source.rows.start = end;
            left -= stretch.len();
            self.taken += stretch.len() as u64;
            if source.rows.is_empty() && !source.unpack()? {
                self.sources.swap_remove(number);
                self.next.swap_remove(number);
            } else {
                self.next[number] = source.next().time;
            }
            let is_full =
                self.stretches.rows() >= self.kind.leaf_rows || self.stretched_bytes >= self.kind.leaf_bytes;
            if is_full {
                self.end_leaf()?;
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
        let next = source.next();
        key.clear();
        key.extend_from_slice(&I64Order::key(next.time));
        Some(next.sequence)
    }

    fn cut(&mut self) -> Result<Vec<Run>> {
        self.write_all()?;
        let next = ColumnRunWriter::new(self.store, self.kind)?;
        std::mem::replace(&mut self.writer, next).finish()
    }

    fn finish(mut self) -> Result<Vec<Run>> {
        self.write_all()?;
        self.writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array, StringArray, TimestampSecondArray, UInt64Array};
    use bedload_pages::HeapPages;

    use super::super::retain::LeafFate;
    use super::*;

    /// Rows of a time each: every second one, from `first` on, with texts of so many bytes.
    fn run_of(pages: &HeapPages, kind: ColumnRuns, first: i64, text_bytes: usize) -> Run {
        let mut writer = ColumnRunWriter::new(pages, kind).expect("begins");
        for begin in (first..first + 400).step_by(40) {
            let times: Vec<i64> = (begin..begin + 40).step_by(2).collect();
            let sequences: Vec<u64> = times.iter().map(|time| time.unsigned_abs()).collect();
            let texts = times.iter().map(|time| format!("{time:0text_bytes$}"));
            let columns: Vec<ArrayRef> = vec![
                Arc::new(TimestampSecondArray::from(times.clone())),
                Arc::new(StringArray::from_iter_values(texts)),
                Arc::new(UInt64Array::from(sequences)),
            ];
            writer.push(columns).expect("writes");
        }
        writer.finish().expect("ends").pop().expect("it has rows")
    }

    #[test]
    fn a_merge_of_wide_rows_holds_about_a_leaf_of_them() {
        const TEXT_BYTES: usize = 1000;
        const LEAF_BYTES: usize = 8 * TEXT_BYTES;
        let pages = HeapPages::new(32_760);
        let kind = ColumnRuns::new(1, 2, 0).leaf_bytes(LEAF_BYTES);
        let runs = [0, 1].map(|first| run_of(&pages, kind, first, TEXT_BYTES));
        let slices = runs
            .into_iter()
            .map(|run| (run, Bound::Unbounded, Bound::Unbounded));
        let mut merge = ColumnMerge::new(&pages, kind, slices).expect("begins");
        let mut most = 0;
        while merge.advance(1).expect("goes on") {
            most = most.max(merge.stretches.rows());
        }
        assert!((4..=9).contains(&most), "{most} rows");
        let merged = merge.finish().expect("ends").pop().expect("it has rows");
        assert_eq!(merged.entries, 400);
        let index = RunIndex::read(&pages, &merged, kind.owner).expect("a sound index");
        let mut expected = 0;
        for number in 0..index.leaves().len() {
            let leaf = index.open(&pages, number).expect("a sound leaf");
            let rows = usize::try_from(index.leaves()[number].rows).expect("few");
            let texts = leaf.decode(1, 0..rows).expect("a sound leaf");
            for text in texts.as_string::<i32>().iter() {
                assert_eq!(text.map(str::parse), Some(Ok(expected)));
                expected += 1;
            }
        }
        assert_eq!(expected, 400);
    }

    /// Numbers of all rows of a run of `kind`, none where a row has none.
    fn numbers_of(pages: &HeapPages, kind: ColumnRuns, run: &Run) -> Vec<Option<i64>> {
        let index = RunIndex::read(pages, run, kind.owner).expect("a sound index");
        let mut found = Vec::new();
        for number in 0..index.leaves().len() {
            let leaf = index.open(pages, number).expect("a sound leaf");
            if leaf.has(2) {
                let numbers = leaf.decode(2, 0..leaf.rows()).expect("a sound leaf");
                found.extend(numbers.as_primitive::<Int64Type>());
            } else {
                found.resize(found.len() + leaf.rows(), None);
            }
        }
        found
    }

    #[test]
    fn rows_have_nulls_in_the_columns_that_others_got_later() {
        let pages = HeapPages::new(32_760);
        let before = ColumnRuns::new(1, 2, 0);
        for leaf_rows in [1000, 50, 7, 1] {
            let kind = ColumnRuns::new(1, 3, 0).leaf_rows(leaf_rows);
            let narrow = run_of(&pages, before, 0, 5);
            let mut writer = ColumnRunWriter::new(&pages, kind).expect("begins");
            let times: Vec<i64> = (1..400).step_by(2).collect();
            let sequences: Vec<u64> = times.iter().map(|time| time.unsigned_abs()).collect();
            let columns: Vec<ArrayRef> = vec![
                Arc::new(TimestampSecondArray::from(times.clone())),
                Arc::new(StringArray::from_iter_values(times.iter().map(i64::to_string))),
                Arc::new(Int64Array::from(times)),
                Arc::new(UInt64Array::from(sequences)),
            ];
            writer.push(columns).expect("writes");
            let wide = writer.finish().expect("ends").pop().expect("it has rows");
            let slices = [narrow, wide]
                .into_iter()
                .map(|run| (run, Bound::Unbounded, Bound::Unbounded));
            let mut merge = ColumnMerge::new(&pages, kind, slices).expect("begins");
            while merge.advance(u64::MAX).expect("goes on") {}
            let merged = merge.finish().expect("ends").pop().expect("it has rows");
            let expected = |time: i64| (time % 2 == 1).then_some(time);
            let all: Vec<Option<i64>> = (0..400).map(expected).collect();
            assert_eq!(numbers_of(&pages, kind, &merged), all, "{leaf_rows} rows a leaf");
            // The rows that are left of leaves of either width become one leaf again.
            let every_third = |place: Place| place.time % 3 > 0;
            let retained = kind
                .retain(
                    &pages,
                    (&merged, &[(None, None)]),
                    |_| LeafFate::Sifted,
                    every_third,
                )
                .expect("a sound run")
                .expect("rows were removed");
            let left = retained.run.expect("some are left");
            let all: Vec<Option<i64>> = (0..400).step_by(3).map(expected).collect();
            assert_eq!(numbers_of(&pages, kind, &left), all, "{leaf_rows} rows a leaf");
            for run in [&merged, &left] {
                let problems = super::super::check::check(&pages, run, kind, (None, None));
                assert_eq!(problems.expect("it can be read"), []);
            }
        }
    }

    #[test]
    fn a_row_that_two_runs_have_is_an_error_in_any_leaf() {
        let pages = HeapPages::new(32_760);
        // A leaf of all rows, which no thread makes, and many leaves.
        for leaf_rows in [1000, 50, 7] {
            let kind = ColumnRuns::new(1, 2, 0).leaf_rows(leaf_rows);
            // The first half of the rows is in order, as the runs take turns.
            let runs = [0, 1, 401, 401].map(|first| run_of(&pages, kind, first, 5));
            let slices = runs
                .into_iter()
                .map(|run| (run, Bound::Unbounded, Bound::Unbounded));
            let mut merge = ColumnMerge::new(&pages, kind, slices).expect("begins");
            let end = loop {
                match merge.advance(10) {
                    Ok(true) => {}
                    Ok(false) => break merge.finish().map(drop),
                    Err(error) => break Err(error),
                }
            };
            let error = end.expect_err("rows with the same place");
            let leaf_of_it = 400 - 400 % leaf_rows as u64;
            assert!(
                matches!(error, bedload_pages::Error::NotAscending { position } if position == leaf_of_it),
                "{error}"
            );
        }
    }
}
