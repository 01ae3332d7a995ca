//! How far arrays are from sorted.

use bedload_sortedness::{Sortedness, arrivals_in_sorted_order};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// A float in its total order, of which the numbers' is a part.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct Ordered(u64);

impl Ordered {
    fn of(value: f64) -> Self {
        // Zero has two signs and one place in the order.
        let bits = (value + 0.0).to_bits();
        Self(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 })
    }
}

type Measured<'py> = (u64, u64, u64, u64, u64, Bound<'py, PyArray1<i64>>);

fn measured<'py, T: Ord + Send + Sync>(py: Python<'py>, keys: &[T]) -> Measured<'py> {
    let (found, displaced) = py.detach(|| {
        let mut displaced = vec![0_i64; keys.len()];
        for (rank, arrival) in arrivals_in_sorted_order(keys).into_iter().enumerate() {
            displaced[arrival] = rank.cast_signed().wrapping_sub(arrival.cast_signed()) as i64;
        }
        (Sortedness::of_keys(keys), displaced)
    });
    let displaced = displaced.into_pyarray(py);
    (
        found.rows,
        found.k,
        found.l,
        found.below_running_max,
        found.adjacent_inversions,
        displaced,
    )
}

/// Rows, K, L, rows below the running maximum, inverted neighbours, and how far each row is from
/// its sorted place.
#[pyfunction]
pub(crate) fn measure<'py>(py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Measured<'py>> {
    if let Ok(keys) = keys.extract::<PyReadonlyArray1<'_, i64>>() {
        return Ok(measured(py, &keys.as_array().to_vec()));
    }
    if let Ok(keys) = keys.extract::<PyReadonlyArray1<'_, u64>>() {
        return Ok(measured(py, &keys.as_array().to_vec()));
    }
    if let Ok(keys) = keys.extract::<PyReadonlyArray1<'_, f64>>() {
        let keys: Vec<Ordered> = keys.as_array().iter().map(|&key| Ordered::of(key)).collect();
        return Ok(measured(py, &keys));
    }
    Err(PyTypeError::new_err(
        "sortedness is measured of an array of integers, floats or times",
    ))
}
