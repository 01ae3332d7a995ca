//! Rows of several batches in one order.
//!
//! The order is a list of stretches of rows of one batch. Its cost grows with their number: one for
//! each batch whose times lie above those before it, and at worst one for each row.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use arrow_schema::ArrowError;
use bedload_columns::{ColumnSet, Places, Stretches};

use super::deletion::Stretch as DeletedStretch;
use super::sorted_rows::RowBytes;
use super::time_order::by_time;
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

/// Their average length is judged once one in this many rows is merged. Judged sooner, a few rows
/// that were held back, which alternate with the next ones, would decide for all.
const JUDGED_SHARE: usize = 16;

impl RowsInOrder {
    /// The rows of some runs, which stand in the order of their sequence numbers.
    ///
    /// O(s log(runs) + log(n)) where they take turns in s stretches that are long, else O(n), or
    /// O(n log(n)) where times and numbers of rows take over 64 bits together.
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
        let all: usize = self.runs.iter().map(|run| run.len()).sum();
        let mut frontier = Frontier::new(false);
        for (number, run) in self.runs.iter().enumerate() {
            frontier.push(run.place(0), number);
        }
        let mut merged = 0;
        while let Some((_, number)) = frontier.first() {
            let is_judged = merged >= all / JUDGED_SHARE;
            if is_judged && self.stretches.len() * STRETCH_ROWS_MIN > merged {
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
        let longest = self.runs.iter().map(|run| run.len()).max().unwrap_or(0);
        let (row_bits, run_bits) = (bits(longest), bits(self.runs.len()));
        let rest = self.runs.iter().zip(begins).zip(0_u64..);
        let rest = rest.flat_map(|((run, &begin), number)| {
            let rows = begin as u64..run.len() as u64;
            let numbers = rows.map(move |row| number << row_bits | row);
            run.places().times()[begin..].iter().copied().zip(numbers)
        });
        let part = |number: u64| usize::try_from(number).expect("as it was made above");
        for number in by_time(rest, run_bits + row_bits) {
            self.push(
                part(number >> row_bits),
                part(number & !(u64::MAX << row_bits)),
                1,
            );
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

    /// The columns of some rows, and as the last one their sequence numbers. Packed rows are
    /// unpacked for that alone: a run is in order, so those of its rows that are among some
    /// positions stand together in it. Only deleted ones may lie between them.
    ///
    /// # Errors
    ///
    /// The text of a column is more than an array can hold.
    pub(crate) fn columns(&self, positions: Range<usize>) -> Result<Vec<ArrayRef>, ArrowError> {
        let mut sequences = Vec::with_capacity(positions.len());
        let mut rows_of: Vec<Option<Range<usize>>> = vec![None; self.runs.len()];
        for (run, rows) in self.stretches(positions.clone()) {
            sequences.extend_from_slice(&self.runs[run].places().sequences()[rows.clone()]);
            rows_of[run].get_or_insert_with(|| rows.clone()).end = rows.end;
        }
        let mut stretches = Stretches::new();
        let add_set = |(run, rows): (&Arc<SortedRows>, Option<Range<usize>>)| {
            let rows = rows?;
            let begin = rows.start;
            Some((stretches.add_set(run.columns_of(rows).into()), begin))
        };
        let set_of: Vec<Option<(usize, usize)>> = self.runs.iter().zip(rows_of).map(add_set).collect();
        for (run, rows) in self.stretches(positions) {
            let (set, begin) = set_of[run].expect("each run that has rows there has a set");
            stretches.push_of(set, rows.start - begin..rows.end - begin);
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

/// How many bits numbers up to another have.
fn bits(number: usize) -> u32 {
    usize::BITS - number.leading_zeros()
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
