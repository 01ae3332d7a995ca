//! Positions of rows in the order of their table.

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

use crate::processor::by_processor;

/// A row's position in its table: its time, then its sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Ticks of the time column's unit.
    pub time: i64,
    /// The row's number in the order of arrival.
    pub sequence: u64,
}

impl Place {
    /// Returns the next position; `None` after the last.
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

    /// Converts to a run edge.
    #[must_use]
    pub fn edge(self) -> RunEdge {
        RunEdge {
            prefix: I64Order::prefix_of(self.time),
            tie: self.sequence,
        }
    }

    /// Converts from a run edge.
    #[must_use]
    pub fn of_edge(edge: RunEdge) -> Self {
        Self {
            time: I64Order::value_of(edge.prefix),
            sequence: edge.tie,
        }
    }
}

/// The positions of some rows.
#[derive(Debug, Clone)]
pub struct Places {
    times: ScalarBuffer<i64>,
    sequences: ScalarBuffer<u64>,
}

impl Places {
    /// Creates an empty set.
    #[must_use]
    pub fn none() -> Self {
        Self {
            times: Vec::new().into(),
            sequences: Vec::new().into(),
        }
    }

    /// Creates positions from times and sequence numbers; `None` if their lengths differ.
    #[must_use]
    pub fn new(times: ScalarBuffer<i64>, sequences: ScalarBuffer<u64>) -> Option<Self> {
        (times.len() == sequences.len()).then_some(Self { times, sequences })
    }

    /// Reads positions from columns of timestamps and sequence numbers; `None` if a column has
    /// another type or nulls.
    #[must_use]
    pub fn of_columns(time: &ArrayRef, sequence: &ArrayRef) -> Option<Self> {
        let sequences = sequence.as_primitive_opt::<UInt64Type>()?.values().clone();
        let has_nulls = time.null_count() + sequence.null_count() > 0;
        Self::new(times(time)?, sequences).filter(|_| !has_nulls)
    }

    /// Returns the times.
    #[must_use]
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// Returns the shared buffer of the times.
    #[must_use]
    pub fn times_buffer(&self) -> &ScalarBuffer<i64> {
        &self.times
    }

    /// Returns the sequence numbers.
    #[must_use]
    pub fn sequences(&self) -> &ScalarBuffer<u64> {
        &self.sequences
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the position of a row.
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

    /// Like [`search`](Self::search), in time logarithmic in the distance of the row.
    #[must_use]
    pub fn gallop(&self, rows: Range<usize>, is_beyond: impl Fn(Place) -> bool) -> usize {
        let (mut low, mut step) = (rows.start, 1);
        while low + step <= rows.end && !is_beyond(self.get(low + step - 1)) {
            low += step;
            step *= 2;
        }
        self.search(low..rows.end.min(low + step), is_beyond)
    }

    /// Returns whether the positions ascend strictly.
    #[must_use]
    pub fn ascend(&self) -> bool {
        ascend(&self.times, &self.sequences)
    }

    /// Returns the first of some ascending rows for which `is_beyond` holds, or their end.
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

    /// Returns the least and greatest sequence numbers; `None` without rows.
    #[must_use]
    pub fn sequence_bounds(&self) -> Option<(u64, u64)> {
        let numbers = || self.sequences.iter().copied();
        numbers().min().zip(numbers().max())
    }
}

by_processor! {
    fn ascend(times: &[i64], sequences: &[u64]) -> bool {
        let times = times.iter().zip(times.iter().skip(1));
        let sequences = sequences.iter().zip(sequences.iter().skip(1));
        // Branch-free, so that the loop vectorises.
        times.zip(sequences).fold(true, |all, ((time, next_time), (sequence, next_sequence))| {
            all & ((time < next_time) | ((time == next_time) & (sequence < next_sequence)))
        })
    }
}

/// Returns the ticks of a timestamp column of any unit; `None` for another type.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_ascend_by_time_and_then_by_sequence_number() {
        let ascend = |places: &[(i64, u64)]| {
            let (times, sequences): (Vec<i64>, Vec<u64>) = places.iter().copied().unzip();
            Places::new(times.into(), sequences.into()).is_some_and(|places| places.ascend())
        };
        assert!(ascend(&[]) && ascend(&[(5, 5)]));
        for len in 2..40_i64 {
            let places: Vec<(i64, u64)> = (0..len).map(|row| (row / 3 - 4, row.unsigned_abs())).collect();
            assert!(ascend(&places));
            for row in 1..places.len() {
                let mut changed = places.clone();
                changed[row] = places[row - 1];
                assert!(!ascend(&changed), "the same place twice");
                changed[row] = (places[row - 1].0, places[row - 1].1 - u64::from(row > 1));
                assert!(!ascend(&changed), "a lesser sequence number");
                changed[row] = (places[row - 1].0 - 1, u64::MAX);
                assert!(!ascend(&changed), "an earlier time");
            }
        }
    }
}
