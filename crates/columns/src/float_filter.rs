//! Floats in filters: all NaNs are one value, above infinity, and both zeros are one.
//!
//! Bounds and literals are integers in the total order of IEEE 754, which has NaNs at both ends and
//! −0.0 as −1. A canonical integer stands for all that a filter takes for equal: the least NaN
//! whose sign bit is clear, and 0.0. Rows are compared as they are, by the processor's comparisons.

use std::borrow::Cow;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::DataType;
use half::f16;

use crate::bounds::{Bound, Bounds};
use crate::floats::Real;
use crate::native::Narrow;
use crate::zone::{COMPARED_MAX, Operator};

/// The integer of infinity, if the type is one of floats; that of −∞ is its complement.
fn infinity(data_type: &DataType) -> Option<i64> {
    match data_type {
        DataType::Float16 => Some(f16::INFINITY.ordered()),
        DataType::Float32 => Some(f32::INFINITY.ordered()),
        DataType::Float64 => Some(f64::INFINITY.ordered()),
        _ => None,
    }
}

/// Returns the integer that stands for all floats that a filter takes for equal to this one.
fn canonical(infinity: i64, ordered: i64) -> i64 {
    match ordered {
        -1 => 0,
        _ if ordered > infinity || ordered < !infinity => infinity + 1,
        _ => ordered,
    }
}

/// Returns literals of a type in the order of filters, each value once.
pub(crate) fn literals(data_type: &DataType, mut literals: Vec<Bound>) -> Vec<Bound> {
    if let Some(infinity) = infinity(data_type) {
        for literal in &mut literals {
            if let Bound::Int(ordered) = literal {
                *ordered = canonical(infinity, *ordered);
            }
        }
    }
    literals.sort_unstable();
    literals.dedup();
    literals
}

/// Returns the bounds of a column in the order of filters.
pub(crate) fn bounds<'a>(data_type: &DataType, bounds: &'a Bounds) -> Cow<'a, Bounds> {
    let Some(infinity) = infinity(data_type) else {
        return Cow::Borrowed(bounds);
    };
    let (Bound::Int(min), Some(Bound::Int(max))) = (&bounds.min, &bounds.max) else {
        return Cow::Borrowed(bounds);
    };
    // A NaN with the sign bit set precedes all numbers in the total order, so that the least and
    // the greatest of them are not known.
    let hides_numbers = *min < !infinity && *max >= !infinity;
    let (min, max) = match hides_numbers {
        true => (!infinity, infinity + 1),
        false => (canonical(infinity, *min), canonical(infinity, *max)),
    };
    Cow::Owned(Bounds {
        min: Bound::Int(min),
        max: Some(Bound::Int(max)),
        exact: bounds.exact && !hides_numbers,
    })
}

/// Selects the rows of a column of floats for which the operator holds with one of some canonical
/// literals of its type; `None` if the column is of another type.
pub(crate) fn select(operator: Operator, literals: &[Bound], column: &ArrayRef) -> Option<BooleanBuffer> {
    let comparison = Comparison {
        operator,
        literals: literals.iter().filter_map(ordered_of).collect(),
        infinity: infinity(column.data_type())?,
    };
    let selected = match column.data_type() {
        DataType::Float16 => {
            let values = column.as_primitive::<Float16Type>().values();
            comparison.select(values, Narrow::ordered, Narrow::from_ordered)
        }
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>().values();
            comparison.select(values, Real::ordered, Real::from_ordered)
        }
        _ => {
            let values = column.as_primitive_opt::<Float64Type>()?.values();
            comparison.select(values, Real::ordered, Real::from_ordered)
        }
    };
    Some(match column.nulls() {
        Some(nulls) => &selected & nulls.inner(),
        None => selected,
    })
}

fn ordered_of(bound: &Bound) -> Option<i64> {
    match bound {
        Bound::Int(ordered) => Some(*ordered),
        Bound::Bytes(_) => None,
    }
}

/// A comparison of rows with canonical literals, which ascend.
struct Comparison {
    operator: Operator,
    literals: Vec<i64>,
    infinity: i64,
}

impl Comparison {
    /// Selects the values for which the operator holds with a literal.
    fn select<F: Copy + PartialOrd>(
        &self,
        values: &[F],
        ordered: impl Fn(F) -> i64,
        from_ordered: impl Fn(i64) -> Option<F>,
    ) -> BooleanBuffer {
        if self.literals.len() > COMPARED_MAX {
            return bits(values, |value| {
                let value = canonical(self.infinity, ordered(value));
                self.literals.binary_search(&value).is_ok()
            });
        }
        let related = self.literals.iter().filter_map(|&literal| {
            let is_nan = literal > self.infinity;
            let number = from_ordered(if is_nan { self.infinity } else { literal })?;
            Some(match self.operator {
                Operator::Eq => equal(values, number, is_nan),
                Operator::NotEq => !&equal(values, number, is_nan),
                Operator::Lt => less(values, number, is_nan),
                Operator::GtEq => !&less(values, number, is_nan),
                Operator::LtEq => less_or_equal(values, number, is_nan),
                Operator::Gt => !&less_or_equal(values, number, is_nan),
            })
        });
        let either = related.reduce(|selected, matching| &selected | &matching);
        either.unwrap_or_else(|| BooleanBuffer::new_unset(values.len()))
    }
}

// If the literal is NaN, `number` is infinity, and every value but NaN is at most that. The
// processor's comparisons are false for NaN, but for `!=`, so the relations that hold for it are
// the complements of others.

fn equal<F: Copy + PartialOrd>(values: &[F], number: F, is_nan: bool) -> BooleanBuffer {
    match is_nan {
        true => !&bits(values, |value| value <= number),
        false => bits(values, |value| value == number),
    }
}

fn less<F: Copy + PartialOrd>(values: &[F], number: F, is_nan: bool) -> BooleanBuffer {
    match is_nan {
        true => bits(values, |value| value <= number),
        false => bits(values, |value| value < number),
    }
}

fn less_or_equal<F: Copy + PartialOrd>(values: &[F], number: F, is_nan: bool) -> BooleanBuffer {
    match is_nan {
        true => BooleanBuffer::new_set(values.len()),
        false => bits(values, |value| value <= number),
    }
}

/// Returns a bit for each value.
fn bits<F: Copy>(values: &[F], is_set: impl Fn(F) -> bool) -> BooleanBuffer {
    let word = |values: &[F]| {
        let bits = values.iter().enumerate();
        bits.fold(0, |word, (bit, value)| word | u64::from(is_set(*value)) << bit)
    };
    let words: Vec<u64> = values.chunks(64).map(|values| word(values).to_le()).collect();
    BooleanBuffer::new(Buffer::from_vec(words), 0, values.len())
}
