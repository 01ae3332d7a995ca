//! A table of an open store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::{Appended, Snap, TableSchema};
use bedload_times::Zone;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrow_stream::reader_of;
use crate::conform::conform;
use crate::detached::Detached;
use crate::error;
use crate::handle::Handle;
use crate::moment::Moment;
use crate::rows::{OfTable, Rows, Where, of_stream};
use crate::slices::{long_bytes, slices};
use crate::values::object_of;

/// Short batches of a stream are joined until they have so many rows: a commit each would be a sync
/// each.
const ROWS_PER_COMMIT: usize = 1 << 18;

/// Joined batches have at most so many bytes of text and binary values: a column holds less than
/// 2 GiB.
const BYTES_PER_COMMIT: usize = 256 << 20;

/// A batch with more bytes of text and binary values is cut: a record of the log holds 1 GiB, and
/// a column of a table less than 2 GiB.
const BYTES_PER_BATCH: usize = 1 << 30;

/// A column in words: name, type, unit and zone of times, whether it may be null.
pub(crate) type Described = (String, String, Option<String>, Option<String>, bool);

pub(crate) fn describe(field: &Field) -> Described {
    let (unit, zone) = match field.data_type() {
        DataType::Timestamp(unit, zone) => (
            Some(unit_name(*unit).to_owned()),
            zone.as_ref().map(ToString::to_string),
        ),
        _ => (None, None),
    };
    (
        field.name().clone(),
        field.data_type().to_string(),
        unit,
        zone,
        field.is_nullable(),
    )
}

/// The columns of a table, and the position of the time.
pub(crate) fn describe_all(schema: &TableSchema) -> (Vec<Described>, usize) {
    let fields = schema.arrow().fields().iter();
    (
        fields.map(|field| describe(field)).collect(),
        schema.time_column(),
    )
}

const fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// A moment in the life of a table, between earlier and later appends.
///
/// `str(mark)` is one word, and `bedload.Mark(text)` reads it again, in another process too. A mark
/// is refused by other stores, by copies that `backup` or `restore` made, and by a store that was
/// put back to an earlier state. Loss of power may take rows of a store with
/// `durability="relaxed"`: flush it between taking a mark and saving it.
#[pyclass(frozen, module = "bedload._native")]
pub(crate) struct Mark {
    mark: bedload::Mark,
}

impl Mark {
    pub(crate) fn new(mark: bedload::Mark) -> Self {
        Self { mark }
    }
}

#[pymethods]
impl Mark {
    /// A saved mark.
    #[new]
    fn parse(text: &str) -> PyResult<Self> {
        text.parse().map(Self::new).map_err(error::of_store)
    }

    /// The mark as one word, to be read by another process.
    fn __str__(&self) -> String {
        self.mark.to_string()
    }

    fn __repr__(&self) -> String {
        format!("bedload.Mark({:?})", self.mark.to_string())
    }

    fn __getnewargs__(&self) -> (String,) {
        (self.mark.to_string(),)
    }
}

/// A table of an open store, found by its name at each call. Another table may have the name since,
/// with columns that the Python side does not know of, so its number is compared, too. What is read
/// and appended has the columns, and their names, that the table had when Python asked for it.
#[pyclass(frozen, module = "bedload._native")]
pub(crate) struct Table {
    handle: Detached<Arc<Handle>>,
    name: String,
    id: u32,
    /// The columns of the table when Python asked for it.
    schema: Arc<TableSchema>,
}

impl Table {
    pub(crate) fn new(handle: Arc<Handle>, name: String, table: &bedload::Table) -> Self {
        Self {
            handle: Detached::new(handle),
            name,
            id: table.id(),
            schema: Arc::new(table.schema().clone()),
        }
    }

    /// The store in which the table is.
    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// These columns, if the table is still there.
    pub(crate) fn schema(&self) -> PyResult<&TableSchema> {
        self.table()?;
        Ok(&self.schema)
    }

    fn table(&self) -> PyResult<bedload::Table> {
        let table = self.handle.store()?.table(&self.name).map_err(error::of_store)?;
        if table.id() != self.id {
            return Err(error::raise(
                "NotFoundError",
                format!(
                    "table {:?} is another one by now: ask the store for it again",
                    self.name
                ),
            ));
        }
        self.as_it_was(&table)
    }

    /// The table with the columns that it had when Python asked for it.
    fn as_it_was(&self, table: &bedload::Table) -> PyResult<bedload::Table> {
        table.with_schema(&self.schema).map_err(error::of_store)
    }

    /// The table under any name: it may be renamed while rows are appended to it.
    pub(crate) fn found_in(&self, store: &bedload::Store) -> PyResult<bedload::Table> {
        let named = |name: &String| store.table(name).ok().filter(|table| table.id() == self.id);
        let found = named(&self.name).or_else(|| store.tables().iter().find_map(named));
        let found = found.ok_or_else(|| {
            error::of_store(bedload::Error::NoSuchTable {
                name: self.name.clone(),
            })
        })?;
        self.as_it_was(&found)
    }

    /// The table at this moment, of which rows since a mark may be wanted.
    fn now(&self, since: Option<bedload::Mark>) -> PyResult<(Arc<Moment>, OfTable)> {
        let moment = self.handle.moment()?;
        let table = self.table()?;
        let snapshot = moment.snapshot()?;
        let name = snapshot.name_of(&table).map_err(error::of_store)?.to_owned();
        let schema = Some(self.schema.clone());
        Ok((moment, OfTable { name, schema, since }))
    }

    /// The schema of a table for rows like these. Text of any encoding becomes `Utf8`, days become
    /// `Date32`; without a name the time is the only column of times.
    pub(crate) fn schema_like(given: &SchemaRef, time: Option<&str>) -> PyResult<TableSchema> {
        let is_time = |field: &&Arc<Field>| matches!(field.data_type(), DataType::Timestamp(..));
        let name = match time {
            Some(name) => name.to_owned(),
            None => {
                let times: Vec<_> = given.fields().iter().filter(is_time).collect();
                let [only] = times[..] else {
                    return Err(error::schema(format!(
                        "{} columns are timestamps: name the one that orders the table with time=",
                        times.len()
                    )));
                };
                only.name().clone()
            }
        };
        let kept = |field: &Arc<Field>| {
            let kept = kept_field(field)?;
            Ok(match kept.data_type() {
                DataType::Date32 if *kept.name() == name => {
                    kept.with_data_type(DataType::Timestamp(TimeUnit::Second, None))
                }
                _ => kept,
            })
        };
        let fields: Vec<Field> = given.fields().iter().map(kept).collect::<PyResult<_>>()?;
        TableSchema::new(Arc::new(Schema::new(fields)), &name).map_err(error::of_store)
    }
}

/// The column in which a table keeps values of another one.
pub(crate) fn kept_field(field: &Arc<Field>) -> PyResult<Field> {
    let kept = match kept_type(field.data_type()) {
        // Nobody could read times of a zone that there is not.
        DataType::Timestamp(unit, Some(zone)) => {
            let zone = Zone::parse(&zone).map_err(|error| error::schema(error.to_string()))?;
            DataType::Timestamp(unit, Some(zone.name().into()))
        }
        other => other,
    };
    Ok(Field::new(field.name(), kept, field.is_nullable()))
}

/// The type in which a table keeps values of another one.
fn kept_type(given: &DataType) -> DataType {
    match given {
        DataType::Date64 => DataType::Date32,
        DataType::Dictionary(_, values) => kept_type(values),
        other => TableSchema::stored_type(other).unwrap_or_else(|| other.clone()),
    }
}

/// How a row off the grid of a sparse table is treated.
pub(crate) fn snap_of(name: &str) -> PyResult<Snap> {
    Ok(match name {
        "refuse" => Snap::Refuse,
        "nearest" => Snap::Nearest,
        "down" => Snap::Down,
        other => {
            return Err(error::schema(format!(
                "{other:?} is not one of \"refuse\", \"nearest\" and \"down\""
            )));
        }
    })
}

/// The counts of an append.
pub(crate) fn counts_of<'py>(py: Python<'py>, appended: &Appended) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("rows", appended.rows)?;
    told.set_item("moved", appended.moved)?;
    told.set_item("collided", appended.collided)?;
    told.set_item("replaced", appended.replaced)?;
    Ok(told)
}

#[pymethods]
impl Table {
    #[getter]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The columns, and the position of the time.
    fn describe(&self) -> PyResult<(Vec<Described>, usize)> {
        Ok(describe_all(self.schema()?))
    }

    /// The names of the columns of the key, the time first.
    fn key(&self) -> PyResult<Option<Vec<String>>> {
        let names = self.schema()?.key_names();
        Ok(names.map(|names| names.into_iter().map(Into::into).collect()))
    }

    /// Interval and first time of the grid of a sparse table, in ticks.
    fn grid(&self) -> PyResult<Option<(i64, i64)>> {
        Ok(match self.table()?.layout() {
            bedload::Layout::Sparse(grid) => Some((grid.interval(), grid.offset())),
            _ => None,
        })
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyCapsule>> {
        let schema = self.schema()?.arrow();
        let schema = arrow_array::ffi::FFI_ArrowSchema::try_from(schema.as_ref()).map_err(of_stream)?;
        pyo3::types::PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Appends what a source of Arrow data gives, up to 262,144 rows or 256 MiB of text and binary
    /// values a commit; longer batches are one commit each, unless they have more than
    /// `batch_bytes` of such values. With `allow_missing`, columns that the rows lack are null.
    #[pyo3(signature = (rows, snap, allow_missing=false, progress=None, batch_bytes=BYTES_PER_BATCH))]
    fn append<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        snap: &str,
        allow_missing: bool,
        progress: Option<Bound<'py, PyAny>>,
        batch_bytes: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let snap = snap_of(snap)?;
        let schema = self.schema()?;
        let mut reader = reader_of(rows, Some(schema.arrow()))?;
        let mut done = Appended::default();
        let mut appended_all = || -> PyResult<()> {
            let mut waiting: Vec<RecordBatch> = Vec::new();
            let mut left_over = VecDeque::new();
            let mut is_last = false;
            // Rows of all batches that were made the table's.
            let mut read = 0;
            while !is_last {
                let step = py.detach(|| -> PyResult<Option<Appended>> {
                    let (mut count, mut bytes) = (0, 0);
                    while count < ROWS_PER_COMMIT {
                        if left_over.is_empty() {
                            let Some(batch) = reader.next() else {
                                is_last = true;
                                break;
                            };
                            let batch = batch.map_err(of_stream)?;
                            if long_bytes(&batch) > batch_bytes {
                                let most = BYTES_PER_COMMIT.min(batch_bytes);
                                left_over.extend(slices(&batch, most, read)?);
                            } else {
                                left_over.push_back(batch);
                            }
                        }
                        let Some(batch) = left_over.front() else { break };
                        bytes += long_bytes(batch);
                        if bytes > BYTES_PER_COMMIT.min(batch_bytes) && !waiting.is_empty() {
                            break;
                        }
                        let batch = conform(batch, schema, allow_missing, read)?;
                        left_over.pop_front();
                        read += batch.num_rows();
                        count += batch.num_rows();
                        if batch.num_rows() > 0 {
                            waiting.push(batch);
                        }
                    }
                    let batch = match &waiting[..] {
                        [] => return Ok(None),
                        [only] => only.clone(),
                        [first, ..] => arrow_select::concat::concat_batches(&first.schema(), &waiting)
                            .map_err(of_stream)?,
                    };
                    waiting.clear();
                    let rows_before = read - batch.num_rows();
                    // Looked up at each commit: a table that is held keeps its store open.
                    self.handle.commit(|store| {
                        let table = self.found_in(&store)?.snapping(snap);
                        table
                            .append(&batch)
                            .map(Some)
                            .map_err(|error| error::of_store(error::moved(error, rows_before)))
                    })
                })?;
                if let Some(step) = step {
                    done.rows += step.rows;
                    done.moved += step.moved;
                    done.collided += step.collided;
                    done.replaced += step.replaced;
                    if let Some(progress) = &progress {
                        progress.call_method1("update", (step.rows,))?;
                    }
                }
                py.check_signals()?;
            }
            Ok(())
        };
        let outcome = appended_all();
        if let Err(error) = outcome {
            // Rows of commits before the failure stay: the caller learns how many.
            error.value(py).setattr("rows_appended", done.rows)?;
            return Err(error);
        }
        counts_of(py, &done)
    }

    fn range(
        &self,
        start: Option<i64>,
        stop: Option<i64>,
        columns: Option<Vec<String>>,
        conditions: Where<'_>,
        reverse: bool,
        limit: Option<u64>,
    ) -> PyResult<Rows> {
        let (moment, of_table) = self.now(None)?;
        Rows::new(
            moment,
            of_table,
            start,
            stop,
            columns,
            &conditions,
            reverse,
            limit,
        )
    }

    /// The rows that are visible now and were not at a mark.
    fn since(&self, mark: &Mark, columns: Option<Vec<String>>, conditions: Where<'_>) -> PyResult<Rows> {
        let (moment, of_table) = self.now(Some(mark.mark))?;
        Rows::new(moment, of_table, None, None, columns, &conditions, false, None)
    }

    /// The values of the row of a time, in the order of the columns.
    fn get<'py>(&self, py: Python<'py>, time: i64) -> PyResult<Option<Vec<Option<Bound<'py, PyAny>>>>> {
        let table = self.table()?;
        let row = py.detach(|| table.get(time)).map_err(error::of_store)?;
        let Some(row) = row else { return Ok(None) };
        let fields = self.schema.arrow().fields().iter().enumerate();
        let object = |(column, field): (usize, &Arc<Field>)| {
            let value = row.value(column);
            value
                .map(|value| object_of(py, value, field.data_type()))
                .transpose()
        };
        fields.map(object).collect::<PyResult<_>>().map(Some)
    }

    fn delete(&self, py: Python<'_>, start: Option<i64>, stop: Option<i64>) -> PyResult<()> {
        let table = self.table()?;
        py.detach(|| match (start, stop) {
            (Some(start), Some(stop)) => table.delete_range(start..stop),
            (Some(start), None) => table.delete_range(start..),
            (None, Some(stop)) => table.delete_range(..stop),
            (None, None) => table.delete_range(..),
        })
        .map_err(error::of_store)
    }

    /// Keeps rows for so many nanoseconds, counted back from the newest; without a number for ever.
    fn set_retention(&self, py: Python<'_>, nanos: Option<i128>) -> PyResult<()> {
        const NANOS: u128 = 1_000_000_000;
        let keep = |nanos: i128| {
            let nanos = u128::try_from(nanos).ok()?;
            let rest = u32::try_from(nanos % NANOS).ok()?;
            Some(Duration::new(u64::try_from(nanos / NANOS).ok()?, rest))
        };
        let keep =
            match nanos {
                None => None,
                Some(nanos) => Some(keep(nanos).ok_or_else(|| {
                    error::schema("rows are kept for a length of time that is not negative")
                })?),
            };
        let table = self.table()?;
        py.detach(|| table.set_retention(keep)).map_err(error::of_store)
    }

    /// For how many nanoseconds rows are kept; nothing if for ever.
    fn retention(&self) -> PyResult<Option<u128>> {
        let keep = self.table()?.retention().map_err(error::of_store)?;
        Ok(keep.map(|keep| keep.as_nanos()))
    }

    fn mark(&self, py: Python<'_>) -> PyResult<Mark> {
        let table = self.table()?;
        // It waits for a commit.
        Ok(Mark::new(py.detach(|| table.mark())))
    }

    fn retract_since(&self, py: Python<'_>, mark: &Mark) -> PyResult<()> {
        let table = self.table()?;
        py.detach(|| table.retract_since(mark.mark))
            .map_err(error::of_store)
    }
}
