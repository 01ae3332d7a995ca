//! Values of Python as arrays. Times, days, times of day and lengths of time come as ticks, and
//! decimals as text.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, NullArray, StringArray, UInt64Array,
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use pyo3::prelude::*;

use crate::error;

/// A value, or a null.
pub(crate) type Given<'py> = Option<Bound<'py, PyAny>>;

/// Values as an array of this type. `misfit` makes the exception of the value that is none of it.
pub(crate) fn array_of_values(
    values: &[Given<'_>],
    to: &DataType,
    misfit: impl Fn(usize) -> PyErr,
) -> PyResult<ArrayRef> {
    let plain: ArrayRef = match to {
        DataType::Null => return Ok(Arc::new(NullArray::new(values.len()))),
        DataType::Boolean => Arc::new(BooleanArray::from(extracted(values, misfit)?)),
        DataType::Utf8 => Arc::new(StringArray::from(extracted::<String>(values, misfit)?)),
        DataType::Float64 => Arc::new(Float64Array::from(extracted(values, misfit)?)),
        // By its digits: a float would round it.
        other if other.is_decimal() => {
            let digits = |value: &Bound<'_, PyAny>| Ok(value.str()?.to_string());
            let digits = values.iter().map(|value| value.as_ref().map(digits).transpose());
            Arc::new(StringArray::from(digits.collect::<PyResult<Vec<_>>>()?))
        }
        DataType::UInt64 => Arc::new(UInt64Array::from(extracted(values, misfit)?)),
        DataType::Binary => {
            let bytes = values.iter().enumerate().map(|(row, value)| match value {
                None => Ok(None),
                Some(value) => bytes_of(value).map(Some).ok_or_else(|| misfit(row)),
            });
            let bytes = bytes.collect::<PyResult<Vec<_>>>()?;
            Arc::new(BinaryArray::from_iter(bytes))
        }
        other
            if other.is_integer()
                || matches!(
                    other,
                    DataType::Timestamp(..)
                        | DataType::Date32
                        | DataType::Time32(_)
                        | DataType::Time64(_)
                        | DataType::Duration(_)
                ) =>
        {
            Arc::new(Int64Array::from(extracted(values, misfit)?))
        }
        other => return Err(error::schema(format!("no value of Python is {other}"))),
    };
    let plain = match to {
        DataType::Date32 | DataType::Time32(_) => strictly(&plain, &DataType::Int32)?,
        _ => plain,
    };
    strictly(&plain, to)
}

fn extracted<T>(values: &[Given<'_>], misfit: impl Fn(usize) -> PyErr) -> PyResult<Vec<Option<T>>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py>,
{
    let value = |(row, value): (usize, &Given<'_>)| match value {
        None => Ok(None),
        Some(value) => value.extract::<T>().map(Some).map_err(|_| misfit(row)),
    };
    values.iter().enumerate().map(value).collect()
}

/// The bytes of a `bytes` or a `bytearray`.
pub(crate) fn bytes_of<'v>(value: &'v Bound<'_, PyAny>) -> Option<Cow<'v, [u8]>> {
    value.extract().ok()
}

/// The array in another type; fails where a value has none there.
pub(crate) fn strictly(array: &ArrayRef, to: &DataType) -> PyResult<ArrayRef> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, to, &strict).map_err(|error| error::schema(error.to_string()))
}
