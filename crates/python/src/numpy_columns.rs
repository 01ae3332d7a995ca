//! NumPy arrays in and out. Arrays of numbers are copied once, as a whole; text becomes objects of
//! Python.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch};
use arrow_cast::CastOptions;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use numpy::{Element, IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::arrow_stream::column_of;
use crate::error;
use crate::python_values::array_of_values;

/// A column on its way in: name, values, which of them are missing, and the unit of an array that
/// counts time, or the Arrow type of a list.
pub(crate) type Given<'py> = (
    String,
    Bound<'py, PyAny>,
    Option<PyReadonlyArray1<'py, bool>>,
    Option<String>,
);

/// Rows of columns: arrays of numbers or booleans, lists of values, or columns of Arrow data.
pub(crate) fn record_batch(columns: Vec<Given<'_>>) -> PyResult<RecordBatch> {
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for (name, values, missing, unit) in columns {
        let missing = missing.map(|missing| missing.as_array().to_vec());
        let array = match (values.cast::<PyList>(), unit) {
            (Ok(values), kind) => listed(&name, values, kind.as_deref().unwrap_or("Utf8"))?,
            (Err(_), Some(unit)) => as_times(&name, &array_of(&name, &values, missing)?, &unit)?,
            (Err(_), None) => array_of(&name, &values, missing)?,
        };
        if let Some(first) = arrays.first().filter(|first| first.len() != array.len()) {
            return Err(error::schema(format!(
                "column {name:?} has {} rows, and the first column has {}",
                array.len(),
                first.len()
            )));
        }
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    if arrays.is_empty() {
        return Err(error::schema("the rows have no columns"));
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
    batch.map_err(|error| error::schema(error.to_string()))
}

/// A list of values of an Arrow type, which is named as the type is displayed.
fn listed(name: &str, values: &Bound<'_, PyList>, kind: &str) -> PyResult<ArrayRef> {
    let to = kind
        .parse::<DataType>()
        .map_err(|error| error::schema(error.to_string()))?;
    let values: Vec<Option<Bound<'_, PyAny>>> = values.extract()?;
    array_of_values(&values, &to, |row| {
        let value = values[row].as_ref().map(|value| format!("{value:?}"));
        let value = value.unwrap_or_default();
        error::schema(format!("row {row} of column {name:?}: {value} is no {to}"))
    })
}

fn array_of(name: &str, values: &Bound<'_, PyAny>, missing: Option<Vec<bool>>) -> PyResult<ArrayRef> {
    if let Some(column) = column_of(values)? {
        return Ok(column);
    }
    if let Ok(values) = values.extract::<PyReadonlyArray1<'_, bool>>() {
        let values = values.as_array().to_vec();
        return Ok(match missing {
            None => Arc::new(BooleanArray::from(values)),
            Some(missing) => Arc::new(BooleanArray::new(values.into(), Some(present(&missing)))),
        });
    }
    let numbers = [
        numbers::<Int8Type>,
        numbers::<Int16Type>,
        numbers::<Int32Type>,
        numbers::<Int64Type>,
        numbers::<UInt8Type>,
        numbers::<UInt16Type>,
        numbers::<UInt32Type>,
        numbers::<UInt64Type>,
        numbers::<Float32Type>,
        numbers::<Float64Type>,
    ];
    numbers
        .iter()
        .find_map(|read| read(values, missing.as_deref()))
        .ok_or_else(|| {
            error::schema(format!(
                "column {name:?} is not an array of one dimension of a type that a table keeps"
            ))
        })
}

fn present(missing: &[bool]) -> arrow_buffer::NullBuffer {
    missing.iter().map(|missing| !missing).collect()
}

/// The numbers of an array of this very type.
fn numbers<T: ArrowPrimitiveType<Native: Element>>(
    values: &Bound<'_, PyAny>,
    missing: Option<&[bool]>,
) -> Option<ArrayRef> {
    let values = values.extract::<PyReadonlyArray1<'_, T::Native>>().ok()?;
    let values = match values.as_slice() {
        Ok(values) => values.to_vec(),
        // Strides over every other value, or backwards.
        Err(_) => values.as_array().iter().cloned().collect(),
    };
    Some(Arc::new(PrimitiveArray::<T>::new(
        values.into(),
        missing.map(present),
    )))
}

fn as_times(name: &str, ticks: &ArrayRef, unit: &str) -> PyResult<ArrayRef> {
    let to = match unit {
        "s" => DataType::Timestamp(TimeUnit::Second, None),
        "ms" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "us" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "ns" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        "D" => {
            // A day that 32 bits do not count would otherwise become a null.
            let strict = CastOptions {
                safe: false,
                ..CastOptions::default()
            };
            let days = arrow_cast::cast_with_options(ticks, &DataType::Int32, &strict).map_err(|_| {
                error::schema(format!(
                    "column {name:?} has days beyond those that a table keeps"
                ))
            })?;
            return arrow_cast::cast(&days, &DataType::Date32)
                .map_err(|error| error::schema(error.to_string()));
        }
        other => {
            return Err(error::schema(format!(
                "times that count {other:?} are not kept: use datetime64 of s, ms, us, ns or D"
            )));
        }
    };
    arrow_cast::cast(ticks, &to).map_err(|error| error::schema(error.to_string()))
}

/// For each column of batches its values, which of them are missing (or nothing, if none is), and
/// the unit of times. A column that has no type in NumPy is refused, or shown as text.
pub(crate) fn columns_of<'py>(
    py: Python<'py>,
    schema: &Schema,
    batches: &[RecordBatch],
    shown: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    for (position, field) in schema.fields().iter().enumerate() {
        let parts: Vec<ArrayRef> = batches
            .iter()
            .map(|batch| batch.column(position).clone())
            .collect();
        let (values, unit) = values_of(py, field.data_type(), &parts, shown)?;
        let missing = parts.iter().any(|part| part.null_count() > 0).then(|| {
            let missing = parts
                .iter()
                .flat_map(|part| (0..part.len()).map(|row| part.is_null(row)));
            missing.collect::<Vec<bool>>().into_pyarray(py)
        });
        told.set_item(field.name(), (values, missing, unit))?;
    }
    Ok(told)
}

fn values_of<'py>(
    py: Python<'py>,
    kind: &DataType,
    parts: &[ArrayRef],
    shown: bool,
) -> PyResult<(Bound<'py, PyAny>, Option<&'static str>)> {
    let plain = |values: Bound<'py, PyAny>| Ok((values, None));
    match kind {
        DataType::Boolean => {
            let values = parts.iter().flat_map(|part| part.as_boolean().values().iter());
            plain(values.collect::<Vec<bool>>().into_pyarray(py).into_any())
        }
        DataType::Int8 => plain(copied::<Int8Type>(py, parts)),
        DataType::Int16 => plain(copied::<Int16Type>(py, parts)),
        DataType::Int32 => plain(copied::<Int32Type>(py, parts)),
        DataType::Int64 => plain(copied::<Int64Type>(py, parts)),
        DataType::UInt8 => plain(copied::<UInt8Type>(py, parts)),
        DataType::UInt16 => plain(copied::<UInt16Type>(py, parts)),
        DataType::UInt32 => plain(copied::<UInt32Type>(py, parts)),
        DataType::UInt64 => plain(copied::<UInt64Type>(py, parts)),
        DataType::Float32 => plain(copied::<Float32Type>(py, parts)),
        DataType::Float64 => plain(copied::<Float64Type>(py, parts)),
        DataType::Date32 => Ok((copied::<Date32Type>(py, parts), Some("D"))),
        DataType::Timestamp(unit, _) => {
            let ticks = |part: &ArrayRef| arrow_cast::cast(part, &DataType::Int64);
            let ticks: Vec<ArrayRef> = parts
                .iter()
                .map(ticks)
                .collect::<Result<_, _>>()
                .map_err(|error| error::schema(error.to_string()))?;
            let unit = match unit {
                TimeUnit::Second => "s",
                TimeUnit::Millisecond => "ms",
                TimeUnit::Microsecond => "us",
                TimeUnit::Nanosecond => "ns",
            };
            Ok((copied::<Int64Type>(py, &ticks), Some(unit)))
        }
        DataType::Utf8 => {
            let texts = parts.iter().flat_map(|part| part.as_string::<i32>().iter());
            plain(PyList::new(py, texts.collect::<Vec<_>>())?.into_any())
        }
        DataType::FixedSizeBinary(_) => {
            let values = parts.iter().flat_map(|part| part.as_fixed_size_binary().iter());
            plain(list_of_bytes(py, values)?)
        }
        DataType::Binary => {
            let values = parts.iter().flat_map(|part| part.as_binary::<i32>().iter());
            plain(list_of_bytes(py, values)?)
        }
        _ if shown => {
            let mut texts: Vec<Option<String>> = Vec::new();
            for part in parts {
                let format = FormatOptions::default();
                let format = ArrayFormatter::try_new(part, &format)
                    .map_err(|error| error::schema(error.to_string()))?;
                let text = |row| part.is_valid(row).then(|| format.value(row).to_string());
                texts.extend((0..part.len()).map(text));
            }
            plain(PyList::new(py, texts)?.into_any())
        }
        other => Err(error::schema(format!("{other} has no NumPy type"))),
    }
}

fn list_of_bytes<'py, 'v>(
    py: Python<'py>,
    values: impl Iterator<Item = Option<&'v [u8]>>,
) -> PyResult<Bound<'py, PyAny>> {
    let values = values.map(|value| value.map(|value| PyBytes::new(py, value)));
    Ok(PyList::new(py, values.collect::<Vec<_>>())?.into_any())
}

fn copied<'py, T: ArrowPrimitiveType<Native: Element>>(
    py: Python<'py>,
    parts: &[ArrayRef],
) -> Bound<'py, PyAny> {
    let values = py.detach(|| {
        let mut values = Vec::with_capacity(parts.iter().map(Array::len).sum());
        for part in parts {
            values.extend_from_slice(part.as_primitive::<T>().values());
        }
        values
    });
    values.into_pyarray(py).into_any()
}
