//! Record batches in and out through the Arrow C data and C stream interfaces, without pyarrow and
//! without copying.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{
    Array, ArrayReader, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader,
    StructArray, make_array, new_empty_array,
};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use arrow_select::concat::concat;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::rows::of_stream;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// A source of batches.
pub(crate) type Reader = Box<dyn RecordBatchReader + Send>;

/// A reader of a Python object that has `__arrow_c_stream__` or, if it is a single batch,
/// `__arrow_c_array__`. Indexes of pandas without a name are left out unless `table` has them.
pub(crate) fn reader_of(object: &Bound<'_, PyAny>, table: Option<&Schema>) -> PyResult<Reader> {
    let reader = whole_reader_of(object)?;
    let schema = reader.schema();
    Ok(match named_columns(object.py(), &schema, table) {
        None => reader,
        Some(columns) => Box::new(Chosen {
            schema: Arc::new(schema.project(&columns).map_err(refused)?),
            columns,
            reader,
        }),
    })
}

/// Some columns of the batches of a reader.
struct Chosen {
    reader: Reader,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl Iterator for Chosen {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        Some(batch.and_then(|batch| batch.project(&self.columns)))
    }
}

impl RecordBatchReader for Chosen {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// All columns but indexes of pandas without a name, which pyarrow makes columns of and lists in
/// the schema's metadata; nothing if there are none.
fn named_columns(py: Python<'_>, schema: &Schema, table: Option<&Schema>) -> Option<Vec<usize>> {
    let is_unnamed = |name: &str| {
        let level = name
            .strip_prefix("__index_level_")
            .and_then(|rest| rest.strip_suffix("__"));
        level.is_some_and(|level| level.parse::<usize>().is_ok())
            && table.is_none_or(|table| table.index_of(name).is_err())
    };
    let fields = schema.fields();
    let metadata = schema.metadata().get("pandas")?;
    if !fields.iter().any(|field| is_unnamed(field.name())) {
        return None;
    }
    let indexes = indexes_in(py, metadata).unwrap_or_default();
    let columns = 0..fields.len();
    let is_named = |&column: &usize| {
        let name = fields[column].name();
        !(is_unnamed(name) && indexes.contains(name))
    };
    Some(columns.filter(is_named).collect())
}

/// The columns that are indexes, by the metadata of pandas. An index that is no column is no text.
fn indexes_in(py: Python<'_>, metadata: &str) -> PyResult<Vec<String>> {
    let metadata = py.import("json")?.call_method1("loads", (metadata,))?;
    let indexes = metadata.get_item("index_columns")?.try_iter()?;
    Ok(indexes.filter_map(|index| index.ok()?.extract().ok()).collect())
}

fn whole_reader_of(object: &Bound<'_, PyAny>) -> PyResult<Reader> {
    if object.hasattr("__arrow_c_stream__")? {
        let capsule = object.call_method0("__arrow_c_stream__")?;
        let stream = take_stream(capsule.cast::<PyCapsule>()?)?;
        return Ok(Box::new(Structs::try_new(stream)?));
    }
    if object.hasattr("__arrow_c_array__")? {
        let pair = object.call_method0("__arrow_c_array__")?;
        let batch = take_batch(pair.cast::<PyTuple>()?)?;
        let schema = batch.schema();
        return Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    }
    Err(PyTypeError::new_err(format!(
        "{} is no source of Arrow data: it has neither __arrow_c_stream__ nor __arrow_c_array__",
        object.get_type().name()?
    )))
}

/// The schema of a Python object that has `__arrow_c_schema__`, or of the batches it can give,
/// without the columns that [`reader_of`] leaves out.
pub(crate) fn schema_of(object: &Bound<'_, PyAny>, table: Option<&Schema>) -> PyResult<SchemaRef> {
    if object.hasattr("__arrow_c_schema__")? {
        let capsule = object.call_method0("__arrow_c_schema__")?;
        let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(Some(SCHEMA))?;
        let pointer = pointer.cast::<FFI_ArrowSchema>();
        // SAFETY: a capsule of this name points to an `ArrowSchema`, which it keeps alive; it is
        // only read.
        #[expect(unsafe_code, reason = "the Arrow C interface is made of pointers")]
        let schema = unsafe { pointer.as_ref() };
        let schema = Schema::try_from(schema).map_err(refused)?;
        let named = named_columns(object.py(), &schema, table);
        let schema = named.map_or(Ok(schema.clone()), |columns| schema.project(&columns));
        return Ok(Arc::new(schema.map_err(refused)?));
    }
    Ok(reader_of(object, table)?.schema())
}

#[expect(unsafe_code, reason = "the Arrow C interface is made of pointers")]
fn take_stream(capsule: &Bound<'_, PyCapsule>) -> PyResult<FFI_ArrowArrayStream> {
    let pointer = capsule
        .pointer_checked(Some(STREAM))?
        .cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name points to an `ArrowArrayStream`, which the caller may move
    // out; what is left behind is marked as released, as the interface asks.
    Ok(unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) })
}

/// The values of an object that is one column of Arrow data; nothing if it is none. Chunks are
/// joined.
pub(crate) fn column_of(object: &Bound<'_, PyAny>) -> PyResult<Option<ArrayRef>> {
    if object.hasattr("__arrow_c_stream__")? {
        let capsule = object.call_method0("__arrow_c_stream__")?;
        let stream = take_stream(capsule.cast::<PyCapsule>()?)?;
        let chunks = ArrayStreamReader::try_new(stream).map_err(refused)?;
        let data_type = chunks.field().data_type().clone();
        let chunks = chunks.collect::<Result<Vec<_>, _>>().map_err(of_stream)?;
        let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
        return match chunks[..] {
            [] => Ok(Some(new_empty_array(&data_type))),
            _ => concat(&chunks).map(Some).map_err(refused),
        };
    }
    if object.hasattr("__arrow_c_array__")? {
        let pair = object.call_method0("__arrow_c_array__")?;
        return take_array(pair.cast::<PyTuple>()?).map(Some);
    }
    Ok(None)
}

fn take_batch(pair: &Bound<'_, PyTuple>) -> PyResult<RecordBatch> {
    let array = take_array(pair)?;
    let Some(rows) = array.as_struct_opt() else {
        return Err(no_columns(array.data_type()));
    };
    let schema = Arc::new(Schema::new(rows.fields().clone()));
    batch_of(rows, schema).map_err(of_stream)
}

#[expect(unsafe_code, reason = "the Arrow C interface is made of pointers")]
fn take_array(pair: &Bound<'_, PyTuple>) -> PyResult<ArrayRef> {
    let schema = pair.get_item(0)?;
    let schema = schema.cast::<PyCapsule>()?.pointer_checked(Some(SCHEMA))?;
    let array = pair.get_item(1)?;
    let array = array.cast::<PyCapsule>()?.pointer_checked(Some(ARRAY))?;
    // SAFETY: a capsule of this name points to an `ArrowSchema`, which it keeps alive; it is only
    // read.
    let schema = unsafe { schema.cast::<FFI_ArrowSchema>().as_ref() };
    // SAFETY: a capsule of this name points to an `ArrowArray`, which the caller may move out; what
    // is left behind is marked as released.
    let array = unsafe { FFI_ArrowArray::from_raw(array.cast().as_ptr()) };
    // SAFETY: the two come from one call of `__arrow_c_array__`, so the schema describes the array.
    let mut data = unsafe { from_ffi(array, schema) }.map_err(refused)?;
    data.align_buffers();
    Ok(make_array(data))
}

fn no_columns(data_type: &DataType) -> PyErr {
    PyTypeError::new_err(format!(
        "an array of {data_type} has no columns: an array of rows is of structs"
    ))
}

fn batch_of(rows: &StructArray, schema: SchemaRef) -> Result<RecordBatch, ArrowError> {
    if rows.null_count() > 0 {
        let reason = "an array of rows must have no null rows".into();
        return Err(ArrowError::from_external_error(Box::new(
            bedload::Error::Schema { reason },
        )));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema, rows.columns().to_vec(), &options)
}

/// The arrays of a stream as batches. `RecordBatchStreamReader` drops the validity of the structs,
/// and so reads null rows as rows.
struct Structs {
    arrays: ArrayStreamReader,
    schema: SchemaRef,
}

impl Structs {
    fn try_new(stream: FFI_ArrowArrayStream) -> PyResult<Self> {
        let arrays = ArrayStreamReader::try_new(stream).map_err(refused)?;
        let field = arrays.field();
        let DataType::Struct(fields) = field.data_type() else {
            return Err(no_columns(field.data_type()));
        };
        let schema = Schema::new(fields.clone()).with_metadata(field.metadata().clone());
        Ok(Self {
            schema: Arc::new(schema),
            arrays,
        })
    }
}

impl Iterator for Structs {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rows = self.arrays.next()?;
        Some(rows.and_then(|rows| batch_of(rows.as_struct(), self.schema.clone())))
    }
}

impl RecordBatchReader for Structs {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A capsule through which batches leave.
pub(crate) fn capsule_of(py: Python<'_>, reader: Reader) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

fn refused(error: ArrowError) -> PyErr {
    PyTypeError::new_err(format!("the Arrow data cannot be read: {error}"))
}
