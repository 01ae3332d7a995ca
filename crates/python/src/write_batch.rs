//! Changes of several tables in one commit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use bedload::Snap;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrow_stream::reader_of;
use crate::conform::conform;
use crate::detached::Detached;
use crate::error;
use crate::handle::Handle;
use crate::rows::of_stream;
use crate::table::{Table, counts_of, snap_of};

/// Changes that wait to be committed together. They are kept here, and given to the store when it
/// commits them: a batch of the store's would keep it open.
#[pyclass(frozen, module = "bedload._native")]
pub(crate) struct WriteBatch {
    handle: Detached<Arc<Handle>>,
    /// Nothing once they are committed or dropped.
    changes: Mutex<Option<Vec<Change>>>,
}

struct Change {
    table: Py<Table>,
    what: What,
}

enum What {
    Append(RecordBatch, Snap),
    Delete(Option<i64>, Option<i64>),
}

impl WriteBatch {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self {
            handle: Detached::new(handle),
            changes: Mutex::new(Some(Vec::new())),
        }
    }

    /// Nothing else of Python may be done under this lock: it may let other threads run, which
    /// would wait for the lock and keep the interpreter.
    fn changes(&self) -> MutexGuard<'_, Option<Vec<Change>>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, table: &Table) -> PyResult<()> {
        self.handle.store()?;
        if Arc::ptr_eq(&self.handle, table.handle()) {
            return Ok(());
        }
        let name = table.name();
        Err(error::schema(format!("table {name:?} is one of another store")))
    }

    fn add(&self, change: Change) -> PyResult<()> {
        let added = self.changes().as_mut().map(|changes| changes.push(change));
        added.ok_or_else(ended)
    }
}

fn ended() -> PyErr {
    error::raise(
        "ClosedError",
        "the changes were committed or dropped: begin again with write()".to_owned(),
    )
}

#[pymethods]
impl WriteBatch {
    fn append(
        &self,
        py: Python<'_>,
        table: Bound<'_, Table>,
        rows: &Bound<'_, PyAny>,
        snap: &str,
        allow_missing: bool,
    ) -> PyResult<()> {
        let snap = snap_of(snap)?;
        let of = table.get();
        self.check(of)?;
        let schema = of.schema()?;
        let mut reader = reader_of(rows, Some(schema.arrow()))?;
        let mut batches: Vec<RecordBatch> = Vec::new();
        let mut rows_before = 0;
        loop {
            let next = py.detach(|| -> PyResult<Option<RecordBatch>> {
                let batch = reader.next().transpose().map_err(of_stream)?;
                batch
                    .map(|batch| conform(&batch, schema, allow_missing, rows_before))
                    .transpose()
            });
            let Some(batch) = next? else { break };
            rows_before += batch.num_rows();
            batches.push(batch);
            py.check_signals()?;
        }
        let Some(first) = batches.first().map(RecordBatch::schema) else {
            return Ok(());
        };
        let rows = py
            .detach(|| concat_batches(&first, &batches))
            .map_err(of_stream)?;
        self.add(Change {
            table: table.unbind(),
            what: What::Append(rows, snap),
        })
    }

    fn delete(&self, table: Bound<'_, Table>, start: Option<i64>, stop: Option<i64>) -> PyResult<()> {
        self.check(table.get())?;
        self.add(Change {
            table: table.unbind(),
            what: What::Delete(start, stop),
        })
    }

    fn commit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let changes = self.changes().take();
        let changes = changes.ok_or_else(ended)?;
        let appended = py.detach(|| {
            self.handle.commit(|store| {
                let mut batch = store.write_batch();
                for Change { table, what } in &changes {
                    let table = table.get().found_in(&store)?;
                    let added = match *what {
                        What::Append(ref rows, snap) => batch.append(&table.snapping(snap), rows),
                        What::Delete(start, stop) => match (start, stop) {
                            (Some(start), Some(stop)) => batch.delete_range(&table, start..stop),
                            (Some(start), None) => batch.delete_range(&table, start..),
                            (None, Some(stop)) => batch.delete_range(&table, ..stop),
                            (None, None) => batch.delete_range(&table, ..),
                        },
                    };
                    added.map_err(error::of_store)?;
                }
                batch.commit().map_err(error::of_store)
            })
        });
        counts_of(py, &appended?)
    }

    /// Drops the changes.
    fn abandon(&self) {
        let changes = self.changes().take();
        drop(changes);
    }
}
