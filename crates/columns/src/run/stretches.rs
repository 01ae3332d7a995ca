//! Assembles rows of several sets of columns in a given order.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_schema::ArrowError;
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;

/// Average stretch length at or above which stretches are copied one by one; shorter ones are
/// picked row by row.
const LONG_ROWS: usize = 16;

/// Columns of equal length.
pub type ColumnSet = Arc<[ArrayRef]>;

/// Stretches of rows of several sets of columns, in output order.
///
/// Memory: 24 bytes per stretch, and the sets, until the output is built. A single stretch is
/// returned as a slice, without a copy.
#[derive(Debug, Default)]
pub struct Stretches {
    sets: Vec<ColumnSet>,
    /// Number of the set, and its rows.
    stretches: Vec<(usize, Range<usize>)>,
    rows: usize,
}

impl Stretches {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty list over sets known by number.
    #[must_use]
    pub fn of_sets(sets: Vec<ColumnSet>) -> Self {
        Self {
            sets,
            ..Self::default()
        }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends rows of a set. O(sets); [`push_of`](Self::push_of) does not search.
    pub fn push(&mut self, set: &ColumnSet, rows: Range<usize>) {
        // The last set is the likeliest.
        let known = self.sets.iter().rposition(|known| Arc::ptr_eq(known, set));
        let number = known.unwrap_or_else(|| self.add_set(set.clone()));
        self.push_of(number, rows);
    }

    /// Adds a set, and returns its number until [`build`](Self::build).
    pub fn add_set(&mut self, set: ColumnSet) -> usize {
        self.sets.push(set);
        self.sets.len() - 1
    }

    /// Appends rows of the set with this number.
    ///
    /// # Panics
    ///
    /// [`build`](Self::build) does if there is no such set.
    pub fn push_of(&mut self, set: usize, rows: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        self.rows += rows.len();
        if let Some((last, range)) = self.stretches.last_mut()
            && *last == set
            && range.end == rows.start
        {
            range.end = rows.end;
            return;
        }
        self.stretches.push((set, rows));
    }

    /// Gives all sets as many columns as the widest has: columns of nulls before the last one,
    /// which has the sequence numbers.
    pub(super) fn fill_up(&mut self) {
        let Some(widest) = self.sets.iter().max_by_key(|set| set.len()).cloned() else {
            return;
        };
        for set in &mut self.sets {
            if let Some((sequences, columns)) = set.split_last()
                && set.len() < widest.len()
            {
                let lacking = &widest[columns.len()..widest.len() - 1];
                let nulls = lacking
                    .iter()
                    .map(|column| new_null_array(column.data_type(), sequences.len()));
                let columns = columns.iter().cloned().chain(nulls);
                *set = columns.chain([sequences.clone()]).collect();
            }
        }
    }

    /// Builds the columns and empties the list. All sets must have the same types; without rows
    /// there are no columns.
    ///
    /// # Errors
    ///
    /// The text or bytes of a column exceed one array's capacity.
    pub fn build(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        let (sets, rows) = (std::mem::take(&mut self.sets), std::mem::take(&mut self.rows));
        // Its memory is kept for the next ones.
        let mut stretches = std::mem::take(&mut self.stretches);
        let is_long = stretches.len() * LONG_ROWS <= rows;
        let picks: Vec<(usize, usize)> = if is_long {
            Vec::new()
        } else {
            let rows_of = |(number, rows): &(usize, Range<usize>)| {
                let number = *number;
                rows.clone().map(move |row| (number, row))
            };
            stretches.iter().flat_map(rows_of).collect()
        };
        let column = |column: usize| -> Result<ArrayRef, ArrowError> {
            let slice =
                |(number, rows): &(usize, Range<usize>)| sets[*number][column].slice(rows.start, rows.len());
            if let [only] = &stretches[..] {
                return Ok(slice(only));
            }
            if is_long {
                let slices: Vec<ArrayRef> = stretches.iter().map(slice).collect();
                let slices: Vec<&dyn Array> = slices.iter().map(|slice| &**slice).collect();
                return concat(&slices);
            }
            let arrays: Vec<&dyn Array> = sets.iter().map(|set| &*set[column]).collect();
            interleave(&arrays, &picks)
        };
        let built: Result<_, _> = (0..sets.first().map_or(0, |set| set.len())).map(column).collect();
        stretches.clear();
        self.stretches = stretches;
        built
    }
}
