//! Rows of several batches in one order.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use arrow_schema::ArrowError;
use bedload_columns::{ColumnSet, Places, Stretches};

use super::deletion::Stretch;
use super::sorted_rows::RowBytes;
use super::{Deletions, Place, SortedRows};

/// Rows in memory by time and sequence number.
#[derive(Debug)]
pub(crate) struct RowsInOrder {
    /// In the order of their sequence numbers.
    runs: Vec<Arc<SortedRows>>,
    /// Number of the run, and row in it.
    order: Vec<(u32, u32)>,
}

impl RowsInOrder {
    /// The rows of some runs, which stand in the order of their sequence numbers.
    ///
    /// Linear where times of a run lie above those of the runs before it. Otherwise a stable sort, which takes runs
    /// for what they are: O(n log(runs)).
    pub(crate) fn new(runs: Vec<Arc<SortedRows>>) -> Self {
        let runs: Vec<_> = runs.into_iter().filter(|run| run.len() > 0).collect();
        let number = |n: usize| u32::try_from(n).expect("a head is sealed long before it has 2^32 rows");
        let rows = || {
            let of_run =
                |(n, run): (usize, &Arc<SortedRows>)| (0..number(run.len())).map(move |row| (number(n), row));
            runs.iter().enumerate().flat_map(of_run)
        };
        let follow = |pair: &[Arc<SortedRows>]| pair[0].place(pair[0].len() - 1) < pair[1].place(0);
        let order = if runs.windows(2).all(follow) {
            rows().collect()
        } else {
            let times = runs.iter().flat_map(|run| run.places().times());
            let mut keyed: Vec<(i64, (u32, u32))> = times.copied().zip(rows()).collect();
            keyed.sort_by_key(|&(time, _)| time);
            keyed.into_iter().map(|(_, row)| row).collect()
        };
        Self { runs, order }
    }

    /// The run and the row in it at a position.
    pub(crate) fn get(&self, position: usize) -> (&SortedRows, usize) {
        let (run, row) = self.order[position];
        (&self.runs[run as usize], row as usize)
    }

    /// As [`get`](Self::get), with the number of the run instead of it.
    pub(crate) fn position(&self, position: usize) -> (usize, usize) {
        let (run, row) = self.order[position];
        (run as usize, row as usize)
    }

    /// The runs, in the order of their sequence numbers.
    pub(crate) fn runs(&self) -> &[Arc<SortedRows>] {
        &self.runs
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn place(&self, position: usize) -> Place {
        let (run, row) = self.get(position);
        run.place(row)
    }

    /// The first row for whose place `is_before` does not hold; it holds for none after that.
    pub(crate) fn partition_point(&self, is_before: impl Fn(Place) -> bool) -> usize {
        self.order
            .partition_point(|&(run, row)| is_before(self.runs[run as usize].place(row as usize)))
    }

    /// The rows that deletions leave.
    pub(crate) fn without(mut self, deletions: &Deletions) -> Self {
        if deletions.is_empty() {
            return self;
        }
        let mut order = std::mem::take(&mut self.order);
        let mut stretch: Option<Stretch> = None;
        order.retain(|&(run, row)| {
            let (time, sequence) = self.runs[run as usize].place(row as usize);
            // Rows of one stretch stand together.
            let known = stretch.filter(|stretch| stretch.contains(time));
            let of_time = known.unwrap_or_else(|| deletions.stretch(time));
            stretch = Some(of_time);
            !deletions.covers_in(of_time, time, sequence)
        });
        self.order = order;
        self
    }

    /// Above the sequence number of each row.
    pub(crate) fn end_sequence(&self) -> u64 {
        (0..self.len())
            .map(|position| self.place(position).1 + 1)
            .max()
            .unwrap_or(0)
    }

    /// The columns of some rows, and as the last one their sequence numbers.
    ///
    /// # Errors
    ///
    /// The text of a column is more than an array can hold.
    pub(crate) fn columns(&self, rows: Range<usize>) -> Result<Vec<ArrayRef>, ArrowError> {
        let sequences = UInt64Array::from_iter_values(rows.clone().map(|row| self.place(row).1));
        let (mut sets, mut number_of) = (Vec::new(), vec![None; self.runs.len()]);
        let mut order = Vec::with_capacity(rows.len());
        for &(run, row) in &self.order[rows] {
            let number = number_of[run as usize].get_or_insert_with(|| {
                sets.push(self.runs[run as usize].columns().clone());
                sets.len() - 1
            });
            order.push((*number, row as usize));
        }
        let mut stretches = Stretches::of_sets(sets);
        order
            .iter()
            .for_each(|&(set, row)| stretches.push_of(set, row..row + 1));
        let mut columns = stretches.build()?;
        columns.push(Arc::new(sequences));
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
        let (times, sequences): (Vec<i64>, Vec<u64>) = (0..self.len()).map(|row| self.place(row)).unzip();
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

/// The columns of a run that are asked for, by their positions in the schema.
pub(crate) fn project(columns: &ColumnSet, wanted: &[usize]) -> ColumnSet {
    if wanted.iter().copied().eq(0..columns.len()) {
        return columns.clone();
    }
    wanted.iter().map(|&column| columns[column].clone()).collect()
}
