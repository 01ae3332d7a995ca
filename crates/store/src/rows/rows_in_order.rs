//! Rows of several batches in one order.
//!
//! The order is a list of stretches of rows of one batch, so what it costs is how often batches
//! take turns: once for each batch whose times lie above those before it, and at worst once for
//! each row.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use arrow_schema::ArrowError;
use bedload_columns::{ColumnSet, Places, Stretches};

use super::deletion::Stretch as DeletedStretch;
use super::sorted_rows::RowBytes;
use super::{Deletions, Frontier, Place, SortedRows};

/// Rows in memory by time and sequence number.
#[derive(Debug)]
pub(crate) struct RowsInOrder {
    /// In the order of their sequence numbers.
    runs: Vec<Arc<SortedRows>>,
    /// In the order of their rows.
    stretches: Vec<Stretch>,
}

/// Neighbouring rows of a run that stand together in the order.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    run: u32,
    /// The first row in the run.
    begin: u32,
    /// The position in the order of the row after the last.
    end_position: u32,
}

/// Stretches are merged while they have this many rows on average; below that, sorting is faster.
const STRETCH_ROWS_MIN: usize = 8;

/// A stretch of at least this many rows has columns made for it alone.
const LONG_ROWS: usize = 1024;

/// How many stretches are merged before their average length is judged.
const STRETCHES_JUDGED: usize = 64;

impl RowsInOrder {
    /// The rows of some runs, which stand in the order of their sequence numbers.
    ///
    /// O(s log(runs) + log(n)) where they take turns in s stretches that are long, else O(n
    /// log(runs)): a stable sort, which takes runs for what they are.
    pub(crate) fn new(runs: Vec<Arc<SortedRows>>) -> Self {
        let runs: Vec<_> = runs.into_iter().filter(|run| run.len() > 0).collect();
        let mut order = Self {
            stretches: Vec::with_capacity(runs.len()),
            runs,
        };
        let mut begins = vec![0; order.runs.len()];
        order.merge_stretches(&mut begins);
        order.sort_rest(&begins);
        order
    }

    /// Adds rows from those at `begins` on, which are moved past them, until all are there or
    /// stretches are short.
    fn merge_stretches(&mut self, begins: &mut [usize]) {
        let mut frontier = Frontier::new(false);
        for (number, run) in self.runs.iter().enumerate() {
            frontier.push(run.place(0), number);
        }
        let mut merged = 0;
        while let Some((_, number)) = frontier.first() {
            if self.stretches.len() >= STRETCHES_JUDGED && self.stretches.len() * STRETCH_ROWS_MIN > merged {
                return;
            }
            let run = self.runs[number].clone();
            let begin = begins[number];
            let end = match frontier.second() {
                None => run.len(),
                Some(second) => {
                    let is_beyond = |row: bedload_columns::Place| (row.time, row.sequence) > second;
                    run.places().gallop(begin..run.len(), is_beyond).max(begin + 1)
                }
            };
            merged += end - begin;
            self.push(number, begin, end - begin);
            begins[number] = end;
            frontier.replace_first((end < run.len()).then(|| run.place(end)));
        }
    }

    /// Adds all rows at and after `begins`.
    fn sort_rest(&mut self, begins: &[usize]) {
        let rest = || self.runs.iter().zip(begins).enumerate();
        let left = rest().map(|(_, (run, &begin))| run.len() - begin).sum();
        let mut keyed: Vec<(i64, (u32, u32))> = Vec::with_capacity(left);
        for (number, (run, &begin)) in rest() {
            let rows = index(begin)..index(run.len());
            let times = run.places().times()[begin..].iter().copied();
            keyed.extend(times.zip(rows.map(|row| (index(number), row))));
        }
        keyed.sort_by_key(|&(time, _)| time);
        for (_, (run, row)) in keyed {
            self.push(run as usize, row as usize, 1);
        }
    }

    /// Adds `rows` rows of a run after all others.
    fn push(&mut self, run: usize, begin: usize, rows: usize) {
        let position = self.len();
        let end_position = index(position + rows);
        let run = index(run);
        if let Some(number) = self.stretches.len().checked_sub(1)
            && self.stretches[number].run == run
            && self.rows_of(number).end == begin
        {
            self.stretches[number].end_position = end_position;
            return;
        }
        self.stretches.push(Stretch {
            run,
            begin: index(begin),
            end_position,
        });
    }

    /// The positions of a stretch.
    fn positions_of(&self, number: usize) -> Range<usize> {
        let begin = number
            .checked_sub(1)
            .map_or(0, |before| self.stretches[before].end_position);
        begin as usize..self.stretches[number].end_position as usize
    }

    /// The rows of a stretch in its run.
    fn rows_of(&self, number: usize) -> Range<usize> {
        let begin = self.stretches[number].begin as usize;
        begin..begin + self.positions_of(number).len()
    }

    /// The stretches that have some positions: the number of the run, and rows in it.
    fn stretches(&self, positions: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let first = self
            .stretches
            .partition_point(|stretch| stretch.end_position as usize <= positions.start);
        let numbers = first..self.stretches.len();
        let meets = numbers.map_while(move |number| {
            let of_stretch = self.positions_of(number);
            let begin = of_stretch.start.max(positions.start);
            let end = of_stretch.end.min(positions.end);
            let row = self.stretches[number].begin as usize + (begin - of_stretch.start);
            let run = self.stretches[number].run as usize;
            (begin < end).then(|| (run, row..row + (end - begin)))
        });
        meets.fuse()
    }

    /// Each row in order: the number of its run, and the row in it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        let all = self.stretches(0..self.len());
        all.flat_map(|(run, rows)| rows.map(move |row| (run, row)))
    }

    /// The runs, in the order of their sequence numbers.
    pub(crate) fn runs(&self) -> &[Arc<SortedRows>] {
        &self.runs
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.stretches.last().map_or(0, |last| last.end_position as usize)
    }

    /// The place of the last row.
    pub(crate) fn last(&self) -> Option<Place> {
        let number = self.stretches.len().checked_sub(1)?;
        Some(self.runs[self.stretches[number].run as usize].place(self.rows_of(number).end - 1))
    }

    /// The first position for whose place `is_before` does not hold; it holds for none after that.
    pub(crate) fn partition_point(&self, is_before: impl Fn(Place) -> bool) -> usize {
        let run = |number: usize| &self.runs[self.stretches[number].run as usize];
        let numbers: Range<usize> = 0..self.stretches.len();
        let (mut low, mut high) = (numbers.start, numbers.end);
        // The first stretch whose last row lies beyond.
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_before(run(middle).place(self.rows_of(middle).end - 1)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low == numbers.end {
            return self.len();
        }
        let rows = self.rows_of(low);
        let is_beyond = |row: bedload_columns::Place| !is_before((row.time, row.sequence));
        let row = run(low).places().search(rows.clone(), is_beyond);
        self.positions_of(low).start + (row - rows.start)
    }

    /// The rows that deletions leave.
    pub(crate) fn without(self, deletions: &Deletions) -> Self {
        if deletions.is_empty() {
            return self;
        }
        let mut left = Self {
            runs: self.runs.clone(),
            stretches: Vec::new(),
        };
        let mut known: Option<DeletedStretch> = None;
        for (run, row) in self.iter() {
            let place = self.runs[run].place(row);
            // Rows of one stretch stand together.
            let stretch = known
                .filter(|stretch| stretch.contains(place))
                .unwrap_or_else(|| deletions.stretch(place));
            known = Some(stretch);
            if !deletions.covers_in(stretch, place) {
                left.push(run, row, 1);
            }
        }
        left
    }

    /// Above the sequence number of each row.
    pub(crate) fn end_sequence(&self) -> u64 {
        let ends = self.runs.iter().map(|run| run.sequences().end);
        ends.max().unwrap_or(0)
    }

    /// The columns of some rows, and as the last one their sequence numbers.
    ///
    /// # Errors
    ///
    /// The text of a column is more than an array can hold.
    pub(crate) fn columns(&self, positions: Range<usize>) -> Result<Vec<ArrayRef>, ArrowError> {
        let mut sequences = Vec::with_capacity(positions.len());
        let (mut sets, mut number_of) = (Vec::new(), vec![None; self.runs.len()]);
        let mut picked = Vec::new();
        for (run, rows) in self.stretches(positions) {
            sequences.extend_from_slice(&self.runs[run].places().sequences()[rows.clone()]);
            if rows.len() >= LONG_ROWS {
                sets.push(self.runs[run].columns_of(rows.clone()).into());
                picked.push((sets.len() - 1, 0..rows.len()));
                continue;
            }
            let number = number_of[run].get_or_insert_with(|| {
                sets.push(self.runs[run].columns().clone());
                sets.len() - 1
            });
            picked.push((*number, rows));
        }
        let mut stretches = Stretches::of_sets(sets);
        for (set, rows) in picked {
            stretches.push_of(set, rows);
        }
        let mut columns = stretches.build()?;
        columns.push(Arc::new(UInt64Array::from(sequences)));
        Ok(columns)
    }

    /// The rows as one run.
    ///
    /// # Errors
    ///
    /// As for [`columns`](Self::columns).
    pub(super) fn into_run(self) -> Result<SortedRows, ArrowError> {
        let mut columns = self.columns(0..self.len())?;
        columns.pop();
        let (mut times, mut sequences) = (Vec::with_capacity(self.len()), Vec::with_capacity(self.len()));
        for (run, rows) in self.stretches(0..self.len()) {
            let places = self.runs[run].places();
            times.extend_from_slice(&places.times()[rows.clone()]);
            sequences.extend_from_slice(&places.sequences()[rows]);
        }
        let arrivals = self.runs.iter().flat_map(|run| run.arrivals());
        let arrivals: Vec<i64> = arrivals.copied().collect();
        let arrivals = (arrivals != times).then(|| arrivals.into());
        let places = Places::new(times.into(), sequences.into()).expect("as many of each");
        let sizes = self.runs.iter().map(|run| run.size());
        let size = sizes.fold(RowBytes::default(), |sum, size| RowBytes {
            all: sum.all + size.all,
            longest: sum.longest.max(size.longest),
        });
        Ok(SortedRows::new(columns, places, arrivals, size))
    }

    /// Bytes that no row exceeds.
    pub(crate) fn row_bytes_max(&self) -> usize {
        let bytes = self.runs.iter().map(|run| run.row_bytes_max());
        bytes.max().unwrap_or(0)
    }
}

/// The number of a row or of a run.
fn index(number: usize) -> u32 {
    u32::try_from(number).expect("a head is sealed long before it has 2^32 rows")
}

/// The columns of a run that are asked for, by their positions in the schema.
pub(crate) fn project(columns: &ColumnSet, wanted: &[usize]) -> ColumnSet {
    if wanted.iter().copied().eq(0..columns.len()) {
        return columns.clone();
    }
    wanted.iter().map(|&column| columns[column].clone()).collect()
}
