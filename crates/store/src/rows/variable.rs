//! Columns of text and of bytes, whose values are of different lengths.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, GenericStringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;

/// A column of text or of bytes: both are read as bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variable<'a> {
    ends: &'a OffsetBuffer<i32>,
    values: &'a Buffer,
    nulls: Option<&'a NullBuffer>,
}

impl<'a> Variable<'a> {
    /// The array as one; `None` if it is of another type.
    pub(crate) fn of(array: &'a dyn Array) -> Option<Self> {
        let (ends, values) = if let Some(text) = array.as_string_opt::<i32>() {
            (text.offsets(), text.values())
        } else {
            let bytes = array.as_binary_opt::<i32>()?;
            (bytes.offsets(), bytes.values())
        };
        Some(Self {
            ends,
            values,
            nulls: array.nulls().filter(|nulls| nulls.null_count() > 0),
        })
    }

    /// The variable columns among `columns`.
    pub(crate) fn all(columns: &'a [ArrayRef]) -> impl Iterator<Item = Self> {
        columns.iter().filter_map(|array| Self::of(&**array))
    }

    /// Offsets in [`values`](Self::values), ascending: where the first value begins, then where
    /// each ends.
    pub(crate) fn ends(&self) -> &'a [i32] {
        self.ends
    }

    /// All bytes between the first and the last of the ends, those of rows without a value
    /// included.
    pub(crate) fn values(&self) -> &'a [u8] {
        &self.values[offset(self.ends[0])..offset(self.ends[self.ends.len() - 1])]
    }

    /// Whether every row has a value.
    pub(crate) fn has_all(&self) -> bool {
        self.nulls.is_none()
    }

    /// The value of a row; none where it has none.
    pub(crate) fn get(&self, row: usize) -> Option<&'a [u8]> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(&self.values[offset(self.ends[row])..offset(self.ends[row + 1])])
    }

    /// Bytes of all values.
    pub(crate) fn bytes(&self) -> usize {
        if self.has_all() {
            return self.values().len();
        }
        let rows = 0..self.ends.len() - 1;
        rows.filter_map(|row| self.get(row)).map(<[u8]>::len).sum()
    }

    /// Bytes of the longest value.
    pub(crate) fn longest(&self) -> usize {
        let lens = self.ends.windows(2).map(|ends| ends[1].abs_diff(ends[0]));
        lens.max().unwrap_or(0) as usize
    }
}

/// A column of text or of bytes that keeps the memory of its array.
#[derive(Debug)]
pub(crate) struct KeptVariable {
    ends: OffsetBuffer<i32>,
    values: Buffer,
    nulls: Option<NullBuffer>,
}

impl KeptVariable {
    /// The array as one; `None` if it is of another type.
    pub(crate) fn of(array: &dyn Array) -> Option<Self> {
        let column = Variable::of(array)?;
        Some(Self {
            ends: column.ends.clone(),
            values: column.values.clone(),
            nulls: column.nulls.cloned(),
        })
    }

    pub(crate) fn column(&self) -> Variable<'_> {
        Variable {
            ends: &self.ends,
            values: &self.values,
            nulls: self.nulls.as_ref(),
        }
    }
}

fn offset(end: i32) -> usize {
    usize::try_from(end).expect("offsets of arrays are not negative")
}

/// An array of this type, one of text or of bytes.
///
/// # Errors
///
/// Text is not UTF-8.
pub(crate) fn variable_array(
    data_type: &DataType,
    ends: OffsetBuffer<i32>,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    Ok(match data_type {
        DataType::Binary => Arc::new(BinaryArray::try_new(ends, values, nulls)?),
        _ => Arc::new(GenericStringArray::try_new(ends, values, nulls)?),
    })
}
