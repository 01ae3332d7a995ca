//! Conditions on rows: their columns, and when they were appended.

use std::ops::RangeInclusive;

use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use bedload_columns::Predicate;

use super::{StopHandle, TableSchema};
use crate::error::{Error, Result};
use crate::mark::Unseen;

/// Conditions, all of which a row must meet, and a handle that ends the scan: where few rows meet
/// them, much is read to find the next one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// Positions of columns in the schema, and what is asked of them.
    conditions: Vec<(usize, Predicate)>,
    /// Only rows that were not seen at some moment. Leaves without such rows are not read; the scan
    /// leaves out the others of a leaf.
    since: Option<Unseen>,
    stop: Option<StopHandle>,
}

impl Filter {
    /// The same with one condition more.
    ///
    /// # Errors
    ///
    /// There is no such column, or the condition compares it with a value of another type.
    pub(crate) fn and(&self, schema: &TableSchema, column: &str, predicate: Predicate) -> Result<Self> {
        let position = schema.position(column)?;
        let kind = schema.arrow().field(position).data_type();
        if let Some(literal) = predicate.literal_type().filter(|&literal| literal != kind) {
            return Err(Error::schema(format!(
                "column {column:?} is {kind}; it cannot be compared with a value of type {literal}"
            )));
        }
        let conditions = self.conditions.iter().cloned().chain([(position, predicate)]);
        Ok(Self {
            conditions: conditions.collect(),
            since: self.since,
            stop: self.stop.clone(),
        })
    }

    /// A handle that ends this filter's scan. Copies of the filter that were made before the first
    /// call do not share it.
    pub(crate) fn stop_handle(&mut self) -> StopHandle {
        self.stop.get_or_insert_default().clone()
    }

    /// Whether no row is wanted any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(StopHandle::is_stopped)
    }

    /// The rows that were not seen at some moment, if no others are wanted.
    pub(crate) fn since(&self) -> Option<Unseen> {
        self.since
    }

    /// Restricts the rows to those that were not seen at some moment.
    pub(crate) fn set_since(&mut self, since: Unseen) {
        self.since = Some(since);
    }

    /// Whether a row with one of these sequence numbers may be wanted.
    pub(crate) fn may_want(&self, sequences: RangeInclusive<u64>) -> bool {
        self.since.is_none_or(|since| since.may_have(sequences))
    }

    /// Whether every row meets it.
    pub(crate) fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// The conditions, with the positions of their columns in the schema.
    pub(crate) fn conditions(&self) -> &[(usize, Predicate)] {
        &self.conditions
    }

    /// Which of some rows meet it, given their columns by position in the schema; none if there are
    /// no conditions.
    ///
    /// # Errors
    ///
    /// Those of `column`.
    pub(crate) fn select(
        &self,
        mut column: impl FnMut(usize) -> Result<ArrayRef>,
    ) -> Result<Option<BooleanBuffer>> {
        let mut selected: Option<BooleanBuffer> = None;
        for (position, predicate) in &self.conditions {
            // Later conditions cannot bring a row back.
            if selected.as_ref().is_some_and(|rows| rows.count_set_bits() == 0) {
                break;
            }
            let matching = predicate
                .select(&column(*position)?)
                .map_err(|error| Error::schema(error.to_string()))?;
            selected = Some(match selected {
                Some(selected) => &selected & &matching,
                None => matching,
            });
        }
        Ok(selected)
    }
}
