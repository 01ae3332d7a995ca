//! NumPy arrays in and out. Arrays of numbers are copied once, as a whole; text becomes objects of
//! Python.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use numpy::{Element, IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::arrow_stream::column_of;
use crate::error;
use crate::python_values::{array_of_values, strictly};

/// A column on its way in: name, values, which of them are missing, and the Arrow type of a list or
/// of an array that counts time.
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
    for (name, values, missing, kind) in columns {
        let missing = missing.map(|missing| missing.as_array().to_vec());
        let array = match (values.cast::<PyList>(), kind) {
            (Ok(values), kind) => listed(&name, values, kind.as_deref().unwrap_or("Utf8"))?,
            (Err(_), Some(kind)) => as_times(&name, &array_of(&name, &values, missing)?, &kind)?,
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
    let to = parsed(kind)?;
    let values: Vec<Option<Bound<'_, PyAny>>> = values.extract()?;
    array_of_values(&values, &to, |row| {
        let value = values[row].as_ref().map(|value| format!("{value:?}"));
        let value = value.unwrap_or_default();
        error::schema(format!("row {row} of column {name:?}: {value} is no {to}"))
    })
}

fn parsed(kind: &str) -> PyResult<DataType> {
    kind.parse::<DataType>()
        .map_err(|error| error::schema(error.to_string()))
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
        numbers::<Float16Type>,
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

/// Ticks as times, lengths of time or days of this type.
fn as_times(name: &str, ticks: &ArrayRef, kind: &str) -> PyResult<ArrayRef> {
    let to = parsed(kind)?;
    if to != DataType::Date32 {
        return arrow_cast::cast(ticks, &to).map_err(|error| error::schema(error.to_string()));
    }
    // A day that 32 bits do not count would otherwise become a null.
    let days = strictly(ticks, &DataType::Int32).map_err(|_| {
        error::schema(format!(
            "column {name:?} has days beyond those that a table keeps"
        ))
    })?;
    strictly(&days, &to)
}

/// For each column of batches its values, which of them are missing (or nothing, if none is), and
/// the NumPy type of times and lengths of time. A column that has no type in NumPy is refused, or
/// shown as text.
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
        let (values, dtype) = values_of(py, field.data_type(), &parts, shown)?;
        let missing = parts.iter().any(|part| part.null_count() > 0).then(|| {
            let missing = parts
                .iter()
                .flat_map(|part| (0..part.len()).map(|row| part.is_null(row)));
            missing.collect::<Vec<bool>>().into_pyarray(py)
        });
        told.set_item(field.name(), (values, missing, dtype))?;
    }
    Ok(told)
}

fn values_of<'py>(
    py: Python<'py>,
    kind: &DataType,
    parts: &[ArrayRef],
    shown: bool,
) -> PyResult<(Bound<'py, PyAny>, Option<String>)> {
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
        DataType::Float16 => plain(copied::<Float16Type>(py, parts)),
        DataType::Float32 => plain(copied::<Float32Type>(py, parts)),
        DataType::Float64 => plain(copied::<Float64Type>(py, parts)),
        DataType::Date32 => Ok((copied::<Date32Type>(py, parts), Some("datetime64[D]".to_owned()))),
        DataType::Timestamp(unit, _) => ticks_of(py, parts, "datetime64", *unit),
        DataType::Duration(unit) if !shown => ticks_of(py, parts, "timedelta64", *unit),
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

/// Ticks, and the NumPy type of which they are.
fn ticks_of<'py>(
    py: Python<'py>,
    parts: &[ArrayRef],
    kind: &str,
    unit: TimeUnit,
) -> PyResult<(Bound<'py, PyAny>, Option<String>)> {
    let ticks: Vec<ArrayRef> = parts
        .iter()
        .map(|part| strictly(part, &DataType::Int64))
        .collect::<PyResult<_>>()?;
    let unit = match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    Ok((copied::<Int64Type>(py, &ticks), Some(format!("{kind}[{unit}]"))))
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
