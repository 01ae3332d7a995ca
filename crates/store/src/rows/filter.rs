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
    /// Adds a condition on the column at a position of the schema, which users know by a name.
    ///
    /// # Errors
    ///
    /// The condition compares the column with a value of another type.
    pub(crate) fn add(
        &mut self,
        schema: &TableSchema,
        (position, column): (usize, &str),
        predicate: Predicate,
    ) -> Result<()> {
        let kind = schema.arrow().field(position).data_type();
        if let Some(literal) = predicate.literal_type().filter(|&literal| literal != kind) {
            return Err(Error::schema(format!(
                "column {column:?} is {kind}; it cannot be compared with a value of type {literal}"
            )));
        }
        self.conditions.push((position, predicate));
        Ok(())
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
    /// no conditions. Asks for each column once at most.
    ///
    /// # Errors
    ///
    /// Those of `column`.
    pub(crate) fn select(
        &self,
        mut column: impl FnMut(usize) -> Result<ArrayRef>,
    ) -> Result<Option<BooleanBuffer>> {
        let mut selected: Option<BooleanBuffer> = None;
        // Columns that a later condition compares again.
        let mut kept: Vec<(usize, ArrayRef)> = Vec::new();
        for (number, (position, predicate)) in self.conditions.iter().enumerate() {
            // Later conditions cannot bring a row back.
            if selected.as_ref().is_some_and(|rows| rows.count_set_bits() == 0) {
                break;
            }
            let found = kept.iter().find(|(of, _)| of == position);
            let values = match found {
                Some((_, values)) => values.clone(),
                None => column(*position)?,
            };
            let is_last = !self.conditions[number + 1..].iter().any(|(of, _)| of == position);
            if found.is_none() && !is_last {
                kept.push((*position, values.clone()));
            }
            let matching = predicate
                .select(&values)
                .map_err(|error| Error::schema(error.to_string()))?;
            selected = Some(match selected {
                Some(selected) => &selected & &matching,
                None => matching,
            });
        }
        Ok(selected)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use arrow_schema::{DataType, Field, Schema, TimeUnit};
    use bedload_columns::Operator;

    use super::*;

    #[test]
    fn each_column_is_asked_for_once() {
        let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
        let number = |name| Field::new(name, DataType::Int64, true);
        let arrow = Schema::new(vec![at, number("a"), number("b")]);
        let schema = TableSchema::new(Arc::new(arrow), "at").unwrap();
        let columns = [
            Int64Array::from(vec![1, 2, 3, 4, 5]),
            Int64Array::from(vec![5, 4, 3, 2, 1]),
        ];
        let mut filter = Filter::default();
        for (column, unwanted) in [(1, 1), (2, 1), (1, 2), (1, 4), (2, 4)] {
            let differs = Predicate::compare(Operator::NotEq, &Int64Array::from(vec![unwanted]));
            filter.add(&schema, (column, "it"), differs.unwrap()).unwrap();
        }
        let asked = RefCell::new(Vec::new());
        let selected = filter.select(|position| {
            asked.borrow_mut().push(position);
            Ok(Arc::new(columns[position - 1].clone()))
        });
        let selected = selected.unwrap().unwrap();
        assert_eq!(selected.set_indices().collect::<Vec<_>>(), [2]);
        assert_eq!(asked.into_inner(), [1, 2]);
    }
}
