//! Conditions on columns that are not the time.

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, Scalar};
use arrow_ord::cmp;
use arrow_schema::ArrowError;

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison of this sign.
    pub(crate) fn of_sign(sign: &str) -> Option<Self> {
        Some(match sign {
            "=" | "==" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => return None,
        })
    }
}

/// A column compared with a constant of its type. A row without a value there does not meet it.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) column: usize,
    pub(crate) comparison: Comparison,
    /// Of length 1.
    pub(crate) constant: ArrayRef,
}

impl Condition {
    fn met_by(&self, batch: &RecordBatch) -> Result<BooleanArray, ArrowError> {
        let column = batch.column(self.column);
        let constant = Scalar::new(self.constant.clone());
        match self.comparison {
            Comparison::Equal => cmp::eq(column, &constant),
            Comparison::NotEqual => cmp::neq(column, &constant),
            Comparison::Less => cmp::lt(column, &constant),
            Comparison::LessOrEqual => cmp::lt_eq(column, &constant),
            Comparison::Greater => cmp::gt(column, &constant),
            Comparison::GreaterOrEqual => cmp::gt_eq(column, &constant),
        }
    }
}

/// The rows of a batch that meet all conditions.
pub(crate) fn filter(batch: RecordBatch, conditions: &[Condition]) -> Result<RecordBatch, ArrowError> {
    conditions.iter().try_fold(batch, |batch, condition| {
        let met = condition.met_by(&batch)?;
        arrow_select::filter::filter_record_batch(&batch, &met)
    })
}
