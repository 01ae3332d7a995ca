//! Single values as objects of Python.

use arrow_schema::{DataType, TimeUnit};
use bedload::Value;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;

const MICROS: i64 = 1_000_000;

/// The object of a value in a column of this type. Ticks of a timestamp stay a number, which the
/// Python side reads by the column's zone.
pub(crate) fn object_of<'py>(
    py: Python<'py>,
    value: Value<'_>,
    kind: &DataType,
) -> PyResult<Bound<'py, PyAny>> {
    let decimal = |digits: String, scale: i8| {
        let text = format!("{digits}E{}", -i16::from(scale));
        py.import("decimal")?.getattr("Decimal")?.call1((text,))
    };
    Ok(match (value, kind) {
        (Value::Bool(value), _) => value.into_pyobject(py)?.to_owned().into_any(),
        (Value::Int(value), DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale)) => {
            decimal(value.to_string(), *scale)?
        }
        (Value::Decimal(value), DataType::Decimal128(_, scale)) => decimal(value.to_string(), *scale)?,
        (Value::Decimal256(value), DataType::Decimal256(_, scale)) => decimal(value.to_string(), *scale)?,
        (Value::Int(days), DataType::Date32) => {
            let day = py.import("numpy")?.call_method1("datetime64", (days, "D"))?;
            day.call_method0("item")?
        }
        (Value::Int(ticks), DataType::Time32(unit) | DataType::Time64(unit)) => time_of(py, ticks, *unit)?,
        (Value::Int(ticks), DataType::Duration(unit)) => duration_of(py, ticks, *unit)?,
        (Value::Int(value), _) => value.into_pyobject(py)?.into_any(),
        (Value::UInt(value), _) => value.into_pyobject(py)?.into_any(),
        (Value::Float(value), _) => value.into_pyobject(py)?.into_any(),
        (Value::Text(value), _) => value.into_pyobject(py)?.into_any(),
        (Value::Bytes(value), _) => PyBytes::new(py, value).into_any(),
        (other, kind) => {
            return Err(error::raise(
                "Error",
                format!("{other:?} of {kind} has no Python type"),
            ));
        }
    })
}

/// A `datetime.time`, which has microseconds.
fn time_of(py: Python<'_>, ticks: i64, unit: TimeUnit) -> PyResult<Bound<'_, PyAny>> {
    let micros = match unit {
        TimeUnit::Second => ticks * MICROS,
        TimeUnit::Millisecond => ticks * 1_000,
        TimeUnit::Microsecond => ticks,
        TimeUnit::Nanosecond if ticks % 1_000 == 0 => ticks / 1_000,
        TimeUnit::Nanosecond => {
            return Err(error::schema(format!(
                "a time of day of {ticks} ns has nanoseconds, which datetime.time has not: read it with to_pyarrow()"
            )));
        }
    };
    let seconds = micros / MICROS;
    let parts = (seconds / 3600, seconds / 60 % 60, seconds % 60, micros % MICROS);
    py.import("datetime")?.call_method1("time", parts)
}

/// A `datetime.timedelta`; of nanoseconds, or beyond its range, a `numpy.timedelta64`.
fn duration_of(py: Python<'_>, ticks: i64, unit: TimeUnit) -> PyResult<Bound<'_, PyAny>> {
    let (name, unit) = match unit {
        TimeUnit::Second => ("seconds", "s"),
        TimeUnit::Millisecond => ("milliseconds", "ms"),
        TimeUnit::Microsecond => ("microseconds", "us"),
        TimeUnit::Nanosecond => ("", "ns"),
    };
    if !name.is_empty() {
        let parts = pyo3::types::PyDict::new(py);
        parts.set_item(name, ticks)?;
        let duration = py
            .import("datetime")?
            .getattr("timedelta")?
            .call((), Some(&parts));
        if let Ok(duration) = duration {
            return Ok(duration);
        }
    }
    py.import("numpy")?.call_method1("timedelta64", (ticks, unit))
}
