//! Zone maps: a column's statistics in a directory, and the predicates that they exclude.

use std::cmp::Ordering;

use arrow_array::{Array, ArrayRef, BooleanArray, Scalar};
use arrow_buffer::BooleanBuffer;
use arrow_ord::cmp;
use arrow_ord::ord::make_comparator;
use arrow_ord::sort::sort;
use arrow_schema::{DataType, SortOptions};

use crate::bounds::{Bound, Bounds};
use crate::column;
use crate::error::{Error, Result};
use crate::float_filter;
use crate::types;

/// A list of at most this many literals is compared literal by literal with all rows at once; in a
/// longer one each row's value is searched.
pub(crate) const COMPARED_MAX: usize = 16;

/// How a predicate compares a column with its literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Equal.
    Eq,
    /// Not equal.
    NotEq,
    /// Less than.
    Lt,
    /// Less than or equal.
    LtEq,
    /// Greater than.
    Gt,
    /// Greater than or equal.
    GtEq,
}

/// A condition on one column, prepared for checking many leaves' directories.
///
/// Values compare as Arrow's kernels compare them, text and bytes byte by byte; but of floating
/// point numbers all NaNs are one value, which equals itself and is above infinity, and −0.0 equals
/// 0.0. Comparison with null matches nothing.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array};
/// use bedload_columns::{EncodeOptions, Operator, Predicate, encode};
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![10, 20, 30]));
/// let directory = encode(&[column], &EncodeOptions::default())?.directory;
/// let above = |literal| Predicate::compare(Operator::Gt, &Int64Array::from(vec![literal]));
/// assert!(directory.may_match(0, &above(29)?)?);
/// assert!(!directory.may_match(0, &above(30)?)?);
/// # Ok::<(), bedload_columns::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predicate {
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    /// Equal to one of several values, or another relation to a single one.
    Compare {
        operator: Operator,
        /// The values that are not null, ascending.
        literals: Vec<Bound>,
        /// The original values; if there are more than [`COMPARED_MAX`], ascending and without
        /// nulls.
        values: ArrayRef,
        data_type: DataType,
    },
    IsNull,
    IsNotNull,
}

impl Predicate {
    /// Compares the column with the first value of `literal`, which has the column's type.
    ///
    /// # Errors
    ///
    /// [`Error::UnsupportedType`] for an unsupported type, [`Error::OutOfRange`] if `literal` is
    /// empty.
    pub fn compare(operator: Operator, literal: &dyn Array) -> Result<Self> {
        if literal.is_empty() {
            return Err(Error::OutOfRange {
                what: "row",
                index: 0,
                count: 0,
            });
        }
        Self::of(operator, literal.slice(0, 1).as_ref())
    }

    /// Matches values equal to one of `literals`, which has the column's type. Nulls in it match
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`Error::UnsupportedType`] for an unsupported type.
    pub fn is_in(literals: &dyn Array) -> Result<Self> {
        Self::of(Operator::Eq, literals)
    }

    /// Matches nulls.
    pub fn is_null() -> Self {
        Self { test: Test::IsNull }
    }

    /// Matches values that are not null.
    pub fn is_not_null() -> Self {
        Self {
            test: Test::IsNotNull,
        }
    }

    fn of(operator: Operator, literals: &dyn Array) -> Result<Self> {
        let data_type = types::kept(literals.data_type()).clone();
        let bounds = float_filter::literals(&data_type, column::bounds_of_each(literals)?);
        let values = if literals.len() > COMPARED_MAX {
            ascending(literals)?
        } else {
            literals.slice(0, literals.len())
        };
        Ok(Self {
            test: Test::Compare {
                operator,
                literals: bounds,
                values,
                data_type,
            },
        })
    }

    /// Returns the type that a column must have to be compared; `None` if any will do.
    #[must_use]
    pub fn literal_type(&self) -> Option<&DataType> {
        match &self.test {
            Test::Compare { data_type, .. } => Some(data_type),
            Test::IsNull | Test::IsNotNull => None,
        }
    }

    /// Selects the matching rows of a column. Takes time linear in the rows; a list of more than 16
    /// literals adds a binary search for each row.
    ///
    /// ```
    /// use arrow_array::Int64Array;
    /// use bedload_columns::{Operator, Predicate};
    ///
    /// let column = Int64Array::from(vec![Some(10), None, Some(30)]);
    /// let above = Predicate::compare(Operator::Gt, &Int64Array::from(vec![15]))?;
    /// assert_eq!(above.select(&column)?.set_indices().collect::<Vec<_>>(), [2]);
    /// # Ok::<(), bedload_columns::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::LiteralType`] if the predicate's literal is of another type.
    pub fn select(&self, column: &dyn Array) -> Result<BooleanBuffer> {
        let rows = column.len();
        let valid = || match column.logical_nulls() {
            Some(nulls) => nulls.into_inner(),
            None => BooleanBuffer::new_set(rows),
        };
        let (operator, literals, values, data_type) = match &self.test {
            Test::IsNull => return Ok(!&valid()),
            Test::IsNotNull => return Ok(valid()),
            Test::Compare {
                operator,
                literals,
                values,
                data_type,
            } => (operator, literals, values, data_type),
        };
        let other_type = || Error::LiteralType {
            literal: values.data_type().clone(),
            column: column.data_type().clone(),
        };
        if data_type.is_floating() && data_type == types::kept(column.data_type()) {
            let column = column::unpacked(column, 0)?;
            return float_filter::select(*operator, literals, &column).ok_or_else(other_type);
        }
        if values.len() > COMPARED_MAX && column.data_type() == values.data_type() {
            return among(column, &valid(), values).ok_or_else(other_type);
        }
        let compare = match operator {
            Operator::Eq => cmp::eq,
            Operator::NotEq => cmp::neq,
            Operator::Lt => cmp::lt,
            Operator::LtEq => cmp::lt_eq,
            Operator::Gt => cmp::gt,
            Operator::GtEq => cmp::gt_eq,
        };
        let mut selected: Option<BooleanBuffer> = None;
        for literal in 0..values.len() {
            let literal = Scalar::new(values.slice(literal, 1));
            let matching = compare(&column, &literal).map_err(|_| other_type())?;
            let matching = without_nulls(matching);
            selected = Some(match selected {
                Some(selected) => &selected | &matching,
                None => matching,
            });
        }
        Ok(selected.unwrap_or_else(|| BooleanBuffer::new_unset(rows)))
    }

    /// Whether a row without a value matches.
    pub(crate) fn matches_null(&self) -> bool {
        matches!(self.test, Test::IsNull)
    }

    /// Returns false only if none of `rows` rows with these `bounds` and `nulls` can match.
    pub(crate) fn may_match(
        &self,
        data_type: &DataType,
        bounds: Option<&Bounds>,
        nulls: usize,
        rows: usize,
    ) -> Result<bool> {
        let (operator, literals) = match &self.test {
            Test::IsNull => return Ok(nulls > 0),
            Test::IsNotNull => return Ok(nulls < rows),
            Test::Compare {
                data_type: literal, ..
            } if literal != data_type => {
                return Err(Error::LiteralType {
                    literal: literal.clone(),
                    column: data_type.clone(),
                });
            }
            Test::Compare {
                operator, literals, ..
            } => (operator, literals),
        };
        let (Some(literal), true) = (literals.first(), nulls < rows) else {
            return Ok(false);
        };
        let Some(bounds) = bounds else {
            return Ok(true);
        };
        let bounds = float_filter::bounds(data_type, bounds);
        let Bounds { min, max, exact } = bounds.as_ref();
        let max = max.as_ref();
        Ok(match operator {
            Operator::Eq => {
                let first = literals.partition_point(|literal| literal < min);
                literals
                    .get(first)
                    .is_some_and(|literal| max.is_none_or(|max| literal <= max))
            }
            Operator::NotEq => !(*exact && min == literal && max == Some(literal)),
            Operator::Lt => min < literal,
            Operator::LtEq => min <= literal,
            Operator::Gt => max.is_none_or(|max| max > literal),
            Operator::GtEq => max.is_none_or(|max| max >= literal),
        })
    }
}

/// Returns the values that are not null in the order in which Arrow's kernels compare them.
fn ascending(literals: &dyn Array) -> Result<ArrayRef> {
    let literals = column::unpacked(literals, 0)?;
    let unsupported = |_| Error::UnsupportedType {
        column: 0,
        data_type: literals.data_type().clone(),
    };
    // Nulls come first.
    let sorted = sort(&literals, None).map_err(unsupported)?;
    let nulls = sorted.null_count();
    Ok(sorted.slice(nulls, sorted.len() - nulls))
}

/// Selects the valid rows whose value is one of some ascending ones; `None` if the types differ.
fn among(column: &dyn Array, valid: &BooleanBuffer, ascending: &dyn Array) -> Option<BooleanBuffer> {
    let compare = make_comparator(column, ascending, SortOptions::default()).ok()?;
    let is_among = |row: usize| {
        let (mut low, mut high) = (0, ascending.len());
        while low < high {
            let middle = low.midpoint(high);
            match compare(row, middle) {
                Ordering::Less => high = middle,
                Ordering::Greater => low = middle + 1,
                Ordering::Equal => return true,
            }
        }
        false
    };
    Some(BooleanBuffer::collect_bool(column.len(), |row| {
        valid.value(row) && is_among(row)
    }))
}

/// Returns where a comparison is true; null is false.
fn without_nulls(compared: BooleanArray) -> BooleanBuffer {
    let (values, nulls) = compared.into_parts();
    match nulls {
        Some(nulls) => &values & nulls.inner(),
        None => values,
    }
}
