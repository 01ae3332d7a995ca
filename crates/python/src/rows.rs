//! Rows of a range of times: read again each time they are asked for, from one snapshot.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{
    Array, ArrayRef, FixedSizeBinaryArray, Float64Array, RecordBatch, RecordBatchIterator, new_empty_array,
};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::concat::concat;
use bedload::{Operator, Predicate, Scan, StopHandle, TableSchema};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::arrow_stream::capsule_of;
use crate::batch::Batch;
use crate::detached::Detached;
use crate::error;
use crate::interrupt;
use crate::moment::{Closed, Moment, MomentReader};
use crate::numpy_columns::columns_of;
use crate::process::Process;
use crate::python_values::{array_of_values, bytes_of, strictly};
use crate::table::Mark;

/// Batches between two looks for Ctrl-C.
const BATCHES_AT_ONCE: usize = 32;

/// Which rows are wanted.
#[pyclass(frozen, module = "bedload._native")]
pub(crate) struct Rows {
    moment: Detached<Arc<Moment>>,
    table: OfTable,
    start: Option<i64>,
    stop: Option<i64>,
    columns: Option<Vec<String>>,
    conditions: Vec<(String, Predicate)>,
    reverse: bool,
    limit: Option<u64>,
    schema: SchemaRef,
}

/// A table of a snapshot.
pub(crate) struct OfTable {
    /// Its name in the snapshot.
    pub(crate) name: String,
    /// The columns that are wanted, if not all under the names that they have in the snapshot.
    pub(crate) schema: Option<Arc<TableSchema>>,
    /// The mark before which its rows are not wanted.
    pub(crate) since: Option<bedload::Mark>,
}

/// A condition as the Python side hands it over: column, sign, constant.
pub(crate) type Where<'py> = Vec<(String, String, Bound<'py, PyAny>)>;

impl Rows {
    #[expect(
        clippy::too_many_arguments,
        reason = "the options of a range, each by itself in Python"
    )]
    pub(crate) fn new(
        moment: Arc<Moment>,
        table: OfTable,
        start: Option<i64>,
        stop: Option<i64>,
        columns: Option<Vec<String>>,
        conditions: &Where<'_>,
        reverse: bool,
        limit: Option<u64>,
    ) -> PyResult<Self> {
        let mut scan = scan_of(&moment.snapshot()?, &table, start, stop, None)?;
        let all = scan.schema().clone();
        let mut predicates = Vec::new();
        for (name, sign, constant) in conditions {
            let known = all.fields().iter().map(|field| field.name().clone()).collect();
            let field = all.field_with_name(name).map_err(|_| {
                error::of_store(bedload::Error::NoSuchColumn {
                    name: name.clone(),
                    columns: known,
                })
            })?;
            let predicate = predicate_of(sign, constant, (name, field.data_type()))?;
            scan = scan.filter(name, predicate.clone()).map_err(error::of_store)?;
            predicates.push((name.clone(), predicate));
        }
        if let Some(names) = &columns {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            scan = scan.columns(&names).map_err(error::of_store)?;
        }
        let schema = scan.schema().clone();
        Ok(Self {
            moment: Detached::new(moment),
            table,
            start,
            stop,
            columns,
            conditions: predicates,
            reverse,
            limit,
            schema,
        })
    }

    fn scan(&self) -> PyResult<Scan> {
        let snapshot = self.moment.snapshot()?;
        let columns = self.columns.as_deref();
        let mut scan = scan_of(&snapshot, &self.table, self.start, self.stop, columns)?;
        for (column, predicate) in &self.conditions {
            scan = scan.filter(column, predicate.clone()).map_err(error::of_store)?;
        }
        if self.reverse {
            scan = scan.rev();
        }
        if let Some(limit) = self.limit {
            scan = scan.limit(limit);
        }
        Ok(scan)
    }

    fn batch_reader(&self, scan: Scan) -> PyResult<BatchReader> {
        let reader = self.moment.reader(scan)?;
        Ok(BatchReader {
            process: self.moment.process().clone(),
            stop: reader.stop_handle(),
            reader: Detached::new(Arc::new(Mutex::new(reader))),
            searches: !self.conditions.is_empty(),
        })
    }
}

/// What a sign and a constant demand of a column.
fn predicate_of(
    sign: &str,
    constant: &Bound<'_, PyAny>,
    (name, to): (&str, &DataType),
) -> PyResult<Predicate> {
    let refused = |error: ArrowError| error::schema(error.to_string());
    if sign == "in" {
        let constants: Vec<ArrayRef> = constant
            .try_iter()?
            .map(|one| constant_of(&one?, to, name))
            .collect::<PyResult<_>>()?;
        let constants: Vec<&dyn Array> = constants.iter().map(AsRef::as_ref).collect();
        let list = match constants[..] {
            [] => new_empty_array(to),
            _ => concat(&constants).map_err(refused)?,
        };
        return Predicate::is_in(&list).map_err(|error| error::schema(error.to_string()));
    }
    let operator = operator_of(sign).ok_or_else(|| {
        error::schema(format!(
            "{sign:?} is no comparison: use =, !=, <, <=, >, >= or in"
        ))
    })?;
    match operator {
        Operator::Eq if constant.is_none() => Ok(Predicate::is_null()),
        Operator::NotEq if constant.is_none() => Ok(Predicate::is_not_null()),
        _ if constant.is_none() => Err(error::schema(format!(
            "column {name:?} cannot be {sign} None: use = or !="
        ))),
        _ => {
            let constant = constant_of(constant, to, name)?;
            Predicate::compare(operator, &constant).map_err(|error| error::schema(error.to_string()))
        }
    }
}

/// The comparison of a sign.
fn operator_of(sign: &str) -> Option<Operator> {
    Some(match sign {
        "=" | "==" => Operator::Eq,
        "!=" => Operator::NotEq,
        "<" => Operator::Lt,
        "<=" => Operator::LtEq,
        ">" => Operator::Gt,
        ">=" => Operator::GtEq,
        _ => return None,
    })
}

fn scan_of(
    snapshot: &bedload::Snapshot,
    table: &OfTable,
    start: Option<i64>,
    stop: Option<i64>,
    columns: Option<&[String]>,
) -> PyResult<Scan> {
    let scan = match (start, stop) {
        (None, None) if let Some(mark) = table.since => snapshot.since(&table.name, mark),
        (Some(start), Some(stop)) => snapshot.range(&table.name, start..stop),
        (Some(start), None) => snapshot.range(&table.name, start..),
        (None, Some(stop)) => snapshot.range(&table.name, ..stop),
        (None, None) => snapshot.range(&table.name, ..),
    };
    let scan = scan.and_then(|scan| match &table.schema {
        Some(schema) => scan.with_schema(schema),
        None => Ok(scan),
    });
    let scan = scan.map_err(error::of_store)?;
    match columns {
        None => Ok(scan),
        Some(names) => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            scan.columns(&names).map_err(error::of_store)
        }
    }
}

/// A constant of a column's type. It must be exact, but a number with a fraction is taken as the
/// nearest float.
fn constant_of(value: &Bound<'_, PyAny>, to: &DataType, name: &str) -> PyResult<ArrayRef> {
    let misfit = || error::schema(format!("{value:?} is no value of column {name:?}, which is {to}"));
    match to {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => float_of(value, to)?.ok_or_else(misfit),
        DataType::FixedSizeBinary(width) => {
            let bytes = bytes_of(value).ok_or_else(misfit)?;
            let array = FixedSizeBinaryArray::try_from_iter([bytes].into_iter());
            let array = array.ok().filter(|array| array.value_length() == *width);
            Ok(Arc::new(array.ok_or_else(misfit)?))
        }
        _ => array_of_values(&[Some(value.clone())], to, |_| misfit()),
    }
}

/// A float of a column's type; nothing if `value` is no number, an integer that would be rounded,
/// or beyond the type.
fn float_of(value: &Bound<'_, PyAny>, to: &DataType) -> PyResult<Option<ArrayRef>> {
    let Ok(given) = value.extract::<f64>() else {
        return Ok(None);
    };
    let given_array: ArrayRef = Arc::new(Float64Array::from(vec![given]));
    let there = strictly(&given_array, to)?;
    let back = strictly(&there, &DataType::Float64)?;
    let back = back.as_primitive::<Float64Type>().value(0);
    let fits = match value.call_method0("__index__") {
        // Python compares an integer with a float exactly.
        Ok(integer) => integer.eq(back)?,
        Err(_) => back.is_finite() || !given.is_finite(),
    };
    Ok(fits.then_some(there))
}

/// Whether Ctrl-C ended a generator that pyarrow was reading: only the text of its exception, or of
/// its traceback, comes through the stream.
fn is_interrupt(text: &str) -> bool {
    const NAME: &str = "KeyboardInterrupt";
    let Some((_, exception)) = text.split_once("Python exception: ") else {
        return false;
    };
    exception.starts_with(NAME) || exception.lines().any(|line| line.starts_with(NAME))
}

/// The exception of an error that came through a stream.
pub(crate) fn of_stream(error: ArrowError) -> PyErr {
    match error {
        ArrowError::ExternalError(source) if source.is::<Closed>() => Closed.into(),
        ArrowError::ExternalError(source) => match source.downcast::<bedload::Error>() {
            Ok(own) => error::of_store(*own),
            Err(other) => error::raise("Error", other.to_string()),
        },
        ArrowError::CDataInterface(text) if is_interrupt(&text) => PyKeyboardInterrupt::new_err(()),
        other => error::raise("Error", other.to_string()),
    }
}

#[pymethods]
impl Rows {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface makes honouring it optional.
        drop(requested_schema);
        capsule_of(py, Box::new(self.moment.reader(self.scan()?)?))
    }

    fn __iter__(&self) -> PyResult<BatchIterator> {
        Ok(BatchIterator {
            reader: self.batch_reader(self.scan()?)?,
        })
    }

    fn column_names(&self) -> Vec<String> {
        self.schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    /// The moment of these rows.
    fn mark(&self) -> PyResult<Mark> {
        Ok(Mark::new(self.scan()?.mark()))
    }

    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let scan = self.scan()?.columns(&[]).map_err(error::of_store)?;
        if let Some(rows) = py.detach(|| scan.known_count()).map_err(error::of_store)? {
            return Ok(rows);
        }
        let reader = self.batch_reader(scan)?;
        let mut rows = 0;
        loop {
            let some = reader.next(py, BATCHES_AT_ONCE)?;
            rows += some.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
            if some.len() < BATCHES_AT_ONCE {
                return Ok(rows);
            }
        }
    }

    /// Reads everything into memory.
    #[pyo3(signature = (progress=None))]
    fn read(&self, py: Python<'_>, progress: Option<Bound<'_, PyAny>>) -> PyResult<Batches> {
        let reader = self.batch_reader(self.scan()?)?;
        let mut batches = Vec::new();
        loop {
            let mut some = reader.next(py, BATCHES_AT_ONCE)?;
            if let Some(progress) = &progress {
                progress.call_method1("update", (some.iter().map(RecordBatch::num_rows).sum::<usize>(),))?;
            }
            let is_last = some.len() < BATCHES_AT_ONCE;
            batches.append(&mut some);
            if is_last {
                return Ok(Batches {
                    schema: self.schema.clone(),
                    batches,
                });
            }
        }
    }
}

/// Reads batches, and ends at Ctrl-C.
struct BatchReader {
    process: Process,
    reader: Detached<Arc<Mutex<MomentReader>>>,
    stop: StopHandle,
    /// Whether many rows may be passed over for one that is wanted.
    searches: bool,
}

impl BatchReader {
    /// The next batches: fewer than `most` are the last ones.
    fn next(&self, py: Python<'_>, most: usize) -> PyResult<Vec<RecordBatch>> {
        self.process.check().map_err(error::of_store)?;
        let reader = self.reader.clone();
        let read = move || -> Result<Vec<RecordBatch>, ArrowError> {
            let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
            reader.by_ref().take(most).collect()
        };
        let batches = if self.searches {
            interrupt::wait_or_stop(py, &self.stop, read)?
        } else {
            let batches = py.detach(read);
            py.check_signals()?;
            batches
        };
        batches.map_err(of_stream)
    }
}

/// Batches one after the other.
#[pyclass(frozen, module = "bedload._native")]
pub(crate) struct BatchIterator {
    reader: BatchReader,
}

#[pymethods]
impl BatchIterator {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let next = self.reader.next(py, 1)?.pop();
        Ok(next.map(|batch| Batch { batch }))
    }
}

/// Rows that were read into memory.
#[pyclass(frozen, module = "bedload._native")]
pub(crate) struct Batches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

#[pymethods]
impl Batches {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface makes honouring it optional.
        drop(requested_schema);
        let batches: Vec<_> = self.batches.iter().cloned().map(Ok).collect();
        capsule_of(
            py,
            Box::new(RecordBatchIterator::new(batches, self.schema.clone())),
        )
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns_of(py, &self.schema, &self.batches, false)
    }
}
