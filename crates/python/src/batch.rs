//! Rows as an object of Python, which is an Arrow stream and gives NumPy arrays.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use bedload::Value;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::arrow_stream::capsule_of;
use crate::numpy_columns::{Given, columns_of, record_batch};
use crate::values::object_of;

/// A few thousand rows in columns.
#[pyclass(frozen, module = "bedload._native")]
pub(crate) struct Batch {
    pub(crate) batch: RecordBatch,
}

#[pymethods]
impl Batch {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface makes honouring it optional.
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        capsule_of(py, Box::new(batches))
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn column_names(&self) -> Vec<String> {
        let schema = self.batch.schema();
        schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    #[pyo3(signature = (shown=false))]
    fn numpy<'py>(&self, py: Python<'py>, shown: bool) -> PyResult<Bound<'py, PyDict>> {
        columns_of(py, &self.batch.schema(), std::slice::from_ref(&self.batch), shown)
    }

    /// The values of a row, in the order of the columns.
    fn row<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let columns = self.batch.columns().iter();
        let object = |column: &'_ ArrayRef| {
            let value = Value::at(column, row);
            value
                .map(|value| object_of(py, value, column.data_type()))
                .transpose()
        };
        columns.map(object).collect()
    }

    fn __repr__(&self) -> String {
        format!(
            "<bedload batch of {} rows: {}>",
            self.batch.num_rows(),
            self.column_names().join(", ")
        )
    }
}

/// Rows of columns: arrays of numbers or booleans, lists of text, or columns of Arrow data.
#[pyfunction]
pub(crate) fn batch_of_columns(columns: Vec<Given<'_>>) -> PyResult<Batch> {
    Ok(Batch {
        batch: record_batch(columns)?,
    })
}
