//! An open store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{FieldRef, SchemaRef};
use bedload::{Durability, Grid, Layout, Options};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrow_stream::schema_of;
use crate::detached::Detached;
use crate::error;
use crate::handle::Handle;
use crate::info::info_of;
use crate::interrupt;
use crate::moment::Moment;
use crate::reports::{report_of, salvage_report_of};
use crate::rows::{OfTable, Rows, Where};
use crate::table::{Described, Table, describe, describe_all, kept_field};
use crate::write_batch::WriteBatch;

/// An open store.
#[pyclass(frozen, module = "bedload._native")]
pub(crate) struct Store {
    handle: Detached<Arc<Handle>>,
}

/// Opens or creates a store.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "the options of a store, each by itself in Python"
)]
pub(crate) fn open(
    py: Python<'_>,
    path: PathBuf,
    create: bool,
    cache_bytes: Option<usize>,
    head_bytes: Option<usize>,
    page_bytes: Option<usize>,
    durability: &str,
    group_seconds: f64,
    background: bool,
    read_only: bool,
) -> PyResult<Store> {
    let durability = match durability {
        "always" => Durability::Always,
        "group" => Durability::Group {
            every: Duration::try_from_secs_f64(group_seconds)
                .map_err(|error| error::schema(error.to_string()))?,
        },
        "relaxed" => Durability::Relaxed,
        other => {
            return Err(error::schema(format!(
                "the durability {other:?} is not one of \"always\", \"group\" and \"relaxed\""
            )));
        }
    };
    let mut options = Options::new()
        .create(create)
        .durability(durability)
        .background(background)
        .read_only(read_only);
    if let Some(bytes) = cache_bytes {
        options = options.cache_bytes(bytes);
    }
    if let Some(bytes) = head_bytes {
        options = options.head_bytes(bytes);
    }
    if let Some(bytes) = page_bytes {
        options = options.page_bytes(bytes);
    }
    let opened = path.clone();
    let store = py.detach(move || options.open(opened)).map_err(error::of_store)?;
    Ok(Store {
        handle: Detached::new(Arc::new(Handle::new(path, store))),
    })
}

/// Lists the damage in a store, whether or not it can be opened.
#[pyfunction]
pub(crate) fn inspect(py: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
    let problems = interrupt::wait(py, move || bedload::inspect(path))?;
    Ok(problems.iter().map(ToString::to_string).collect())
}

/// Copies what is whole in a damaged store into a new one.
#[pyfunction]
pub(crate) fn salvage(py: Python<'_>, from: PathBuf, to: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    salvage_report_of(py, &interrupt::wait(py, move || bedload::salvage(from, to))?)
}

/// Copies a backup to the directory of a new store.
#[pyfunction]
pub(crate) fn restore(py: Python<'_>, from: PathBuf, to: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let report = interrupt::wait(py, move || bedload::restore(from, to))?;
    report_of(py, &report)
}

#[pymethods]
impl Store {
    #[getter]
    fn path(&self) -> PathBuf {
        self.handle.path().to_owned()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.handle.is_closed()
    }

    fn tables(&self) -> PyResult<Vec<String>> {
        Ok(self.handle.store()?.tables())
    }

    fn table(&self, name: String) -> PyResult<Table> {
        let table = self.handle.store()?.table(&name).map_err(error::of_store)?;
        Ok(Table::new(self.handle.clone(), name, &table))
    }

    /// Creates a table; `grid` is interval and first time of a sparse one, in ticks.
    fn create_table(
        &self,
        py: Python<'_>,
        name: String,
        schema: &Bound<'_, PyAny>,
        time: Option<&str>,
        grid: Option<(i64, i64)>,
        key: Option<Vec<String>>,
    ) -> PyResult<Table> {
        let store = self.handle.store()?;
        let mut schema = Table::schema_like(&schema_of(schema, None)?, time)?;
        if let Some(key) = key {
            schema = schema.with_key(&key).map_err(error::of_store)?;
        }
        let layout = match grid {
            None => Layout::Indexed,
            Some((interval, epoch)) => {
                Layout::Sparse(Grid::every(interval).map_err(error::of_store)?.from(epoch))
            }
        };
        let table = py.detach(|| store.create_table_as(&name, schema, layout));
        let table = table.map_err(error::of_store)?;
        Ok(Table::new(self.handle.clone(), name, &table))
    }

    /// Refuses a table whose columns have other names than those of rows like these, or that is not
    /// ordered by `time`. Types are not compared: `append` converts where no value changes.
    fn check_table(&self, name: &str, schema: &Bound<'_, PyAny>, time: Option<&str>) -> PyResult<()> {
        let table = self.handle.store()?.table(name).map_err(error::of_store)?;
        let has = table.schema().arrow();
        let given = schema_of(schema, Some(has))?;
        let lacks = |schema: &SchemaRef, field: &FieldRef| schema.field_with_name(field.name()).is_err();
        if let Some(field) = given.fields().iter().find(|field| lacks(has, field)) {
            return Err(error::schema(format!(
                "table {name:?} exists and has no column {:?}",
                field.name()
            )));
        }
        if let Some(field) = has.fields().iter().find(|field| lacks(&given, field)) {
            return Err(error::schema(format!(
                "table {name:?} exists and has a column {:?}, which the schema has not",
                field.name()
            )));
        }
        let own = has.field(table.schema().time_column()).name();
        match time.filter(|time| time != own) {
            Some(other) => Err(error::schema(format!(
                "table {name:?} is ordered by {own:?}, not by {other:?}"
            ))),
            None => Ok(()),
        }
    }

    /// The unit and the zone of the times that a table like this has.
    #[staticmethod]
    fn time_type(schema: &Bound<'_, PyAny>, time: Option<&str>) -> PyResult<(String, Option<String>)> {
        let schema = Table::schema_like(&schema_of(schema, None)?, time)?;
        let (_, _, unit, zone, _) = describe(schema.arrow().field(schema.time_column()));
        Ok((unit.unwrap_or_default(), zone))
    }

    fn drop_table(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let store = self.handle.store()?;
        py.detach(|| store.drop_table(name)).map_err(error::of_store)
    }

    /// Adds columns like those of an Arrow schema or of rows.
    fn add_columns(&self, py: Python<'_>, name: String, columns: &Bound<'_, PyAny>) -> PyResult<Table> {
        let store = self.handle.store()?;
        let given = schema_of(columns, None)?;
        let fields: Vec<_> = given.fields().iter().map(kept_field).collect::<PyResult<_>>()?;
        let table = py.detach(|| store.add_columns(&name, fields));
        let table = table.map_err(error::of_store)?;
        Ok(Table::new(self.handle.clone(), name, &table))
    }

    fn rename_column(&self, py: Python<'_>, table: String, old: &str, new: &str) -> PyResult<Table> {
        let store = self.handle.store()?;
        let renamed = py.detach(|| store.rename_column(&table, old, new));
        let renamed = renamed.map_err(error::of_store)?;
        Ok(Table::new(self.handle.clone(), table, &renamed))
    }

    fn drop_column(&self, py: Python<'_>, table: String, column: &str) -> PyResult<Table> {
        let store = self.handle.store()?;
        let left = py.detach(|| store.drop_column(&table, column));
        let left = left.map_err(error::of_store)?;
        Ok(Table::new(self.handle.clone(), table, &left))
    }

    fn rename_table(&self, py: Python<'_>, name: &str, new: &str) -> PyResult<()> {
        let store = self.handle.store()?;
        py.detach(|| store.rename_table(name, new))
            .map_err(error::of_store)
    }

    fn write(&self) -> PyResult<WriteBatch> {
        self.handle.store()?;
        Ok(WriteBatch::new(self.handle.clone()))
    }

    fn snapshot(&self) -> PyResult<Snapshot> {
        Ok(Snapshot {
            moment: Detached::new(self.handle.moment()?),
        })
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.handle.store()?;
        interrupt::wait(py, move || store.flush())
    }

    /// Moves a store that is open for reading on.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        let store = self.handle.store()?;
        interrupt::wait(py, move || store.refresh())
    }

    fn verify<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.handle.store()?;
        report_of(py, &interrupt::wait(py, move || store.verify())?)
    }

    fn backup<'py>(&self, py: Python<'py>, to: PathBuf) -> PyResult<Bound<'py, PyDict>> {
        let store = self.handle.store()?;
        report_of(py, &interrupt::wait(py, move || store.backup(to))?)
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.handle.store()?.metrics();
        let told = PyDict::new(py);
        let numbers = [
            ("commits", counts.commits),
            ("rows", counts.rows),
            ("log_bytes", counts.log_bytes),
            ("log_syncs", counts.log_syncs),
            ("flushes", counts.flushes),
            ("head_bytes", counts.head_bytes),
            ("page_bytes_written", counts.page_bytes_written),
            ("page_reads", counts.page_reads),
            ("block_reads", counts.block_reads),
            ("block_writes", counts.block_writes),
            ("cache_hits", counts.cache_hits),
            ("cache_misses", counts.cache_misses),
            ("rows_right_edge", counts.rows_right_edge),
            ("rows_root", counts.rows_root),
            ("rows_held_back", counts.rows_held_back),
            ("cache_bytes", counts.cache_bytes),
        ];
        for (name, number) in numbers {
            told.set_item(name, number)?;
        }
        let times = [
            ("commit_wait_seconds", counts.commit_waits),
            ("flush_seconds", counts.flush_time),
            ("flush_longest_seconds", counts.flush_longest),
        ];
        for (name, time) in times {
            told.set_item(name, time.as_secs_f64())?;
        }
        Ok(told)
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.handle.store()?;
        info_of(py, &interrupt::wait(py, move || store.info())?)
    }

    /// Flushes and closes; snapshots and rows of the store end with it. Ctrl-C ends the wait for a
    /// check or a copy that is not done, at whose end the store is closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match py.detach(|| self.handle.take()) {
            Some(store) => interrupt::wait(py, move || store.close()),
            None => Ok(()),
        }
    }
}

/// All tables at one moment.
#[pyclass(frozen, module = "bedload._native")]
pub(crate) struct Snapshot {
    moment: Detached<Arc<Moment>>,
}

#[pymethods]
impl Snapshot {
    fn tables(&self) -> PyResult<Vec<String>> {
        Ok(self.moment.snapshot()?.tables())
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the options of a range, each by itself in Python"
    )]
    fn range(
        &self,
        table: String,
        start: Option<i64>,
        stop: Option<i64>,
        columns: Option<Vec<String>>,
        conditions: Where<'_>,
        reverse: bool,
        limit: Option<u64>,
    ) -> PyResult<Rows> {
        Rows::new(
            self.moment.clone(),
            OfTable {
                name: table,
                schema: None,
                since: None,
            },
            start,
            stop,
            columns,
            &conditions,
            reverse,
            limit,
        )
    }

    fn describe(&self, table: &str) -> PyResult<(Vec<Described>, usize)> {
        let snapshot = self.moment.snapshot()?;
        Ok(describe_all(snapshot.schema(table).map_err(error::of_store)?))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.moment.close());
    }
}
