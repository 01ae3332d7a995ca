//! Where a row stands in the order of its table.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, TimeUnit};
use bedload_trees::I64Order;
use bedload_trees::run::RunEdge;

/// A row's place in the order of its table: its time, then its sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Ticks of the time column's unit.
    pub time: i64,
    /// The row's number in the order of arrival.
    pub sequence: u64,
}

impl Place {
    /// The place just after it; `None` after the last of all.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Some(match self.sequence.checked_add(1) {
            Some(sequence) => Self { sequence, ..self },
            None => Self {
                time: self.time.checked_add(1)?,
                sequence: 0,
            },
        })
    }

    /// As a tree describes it.
    #[must_use]
    pub fn edge(self) -> RunEdge {
        RunEdge {
            prefix: I64Order::prefix_of(self.time),
            tie: self.sequence,
        }
    }

    /// The place that a tree describes so.
    #[must_use]
    pub fn of_edge(edge: RunEdge) -> Self {
        Self {
            time: I64Order::value_of(edge.prefix),
            sequence: edge.tie,
        }
    }
}

/// The places of some rows.
#[derive(Debug, Clone)]
pub struct Places {
    times: ScalarBuffer<i64>,
    sequences: ScalarBuffer<u64>,
}

impl Places {
    /// No rows.
    #[must_use]
    pub fn none() -> Self {
        Self {
            times: Vec::new().into(),
            sequences: Vec::new().into(),
        }
    }

    /// The places of rows with these times and sequence numbers; `None` unless they are as many.
    #[must_use]
    pub fn new(times: ScalarBuffer<i64>, sequences: ScalarBuffer<u64>) -> Option<Self> {
        (times.len() == sequences.len()).then_some(Self { times, sequences })
    }

    /// The places in columns of timestamps and of sequence numbers; `None` if a column is something else or has nulls.
    #[must_use]
    pub fn of_columns(time: &ArrayRef, sequence: &ArrayRef) -> Option<Self> {
        let sequences = sequence.as_primitive_opt::<UInt64Type>()?.values().clone();
        let has_nulls = time.null_count() + sequence.null_count() > 0;
        Self::new(times(time)?, sequences).filter(|_| !has_nulls)
    }

    /// The times of the rows.
    #[must_use]
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// The times of the rows, as they are shared.
    #[must_use]
    pub fn times_buffer(&self) -> &ScalarBuffer<i64> {
        &self.times
    }

    /// The sequence numbers of the rows.
    #[must_use]
    pub fn sequences(&self) -> &ScalarBuffer<u64> {
        &self.sequences
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of a row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[must_use]
    pub fn get(&self, row: usize) -> Place {
        Place {
            time: self.times[row],
            sequence: self.sequences[row],
        }
    }

    /// As [`search`](Self::search), in time that grows with the logarithm of how far off the row is.
    #[must_use]
    pub fn gallop(&self, rows: Range<usize>, is_beyond: impl Fn(Place) -> bool) -> usize {
        let (mut low, mut step) = (rows.start, 1);
        while low + step <= rows.end && !is_beyond(self.get(low + step - 1)) {
            low += step;
            step *= 2;
        }
        self.search(low..rows.end.min(low + step), is_beyond)
    }

    /// Whether each row lies above the one before it.
    #[must_use]
    pub fn ascend(&self) -> bool {
        (1..self.len()).all(|row| self.get(row - 1) < self.get(row))
    }

    /// The first of some ascending rows for which `is_beyond` holds, or their end.
    #[must_use]
    pub fn search(&self, rows: Range<usize>, is_beyond: impl Fn(Place) -> bool) -> usize {
        let (mut low, mut high) = (rows.start, rows.end);
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_beyond(self.get(middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The least and the greatest sequence number; `None` without rows.
    #[must_use]
    pub fn sequence_bounds(&self) -> Option<(u64, u64)> {
        let numbers = || self.sequences.iter().copied();
        numbers().min().zip(numbers().max())
    }
}

/// The ticks of a column of timestamps, whatever their unit; `None` if it is of another type.
#[must_use]
pub fn times(column: &ArrayRef) -> Option<ScalarBuffer<i64>> {
    let DataType::Timestamp(unit, _) = column.data_type() else {
        return None;
    };
    Some(match unit {
        TimeUnit::Second => column.as_primitive::<TimestampSecondType>().values().clone(),
        TimeUnit::Millisecond => column.as_primitive::<TimestampMillisecondType>().values().clone(),
        TimeUnit::Microsecond => column.as_primitive::<TimestampMicrosecondType>().values().clone(),
        TimeUnit::Nanosecond => column.as_primitive::<TimestampNanosecondType>().values().clone(),
    })
}
