//! A moment of a store: its snapshot and what is being read from it, until either is closed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use bedload::{Scan, ScanReader, Snapshot, StopHandle};
use pyo3::prelude::*;

use crate::error;
use crate::process::Process;

/// A reader while it has rows and its moment is open, and what ends its search for the next one.
struct Held {
    reader: Mutex<Option<ScanReader>>,
    stop: StopHandle,
}

/// A snapshot that its store can take back when it is closed, with the readers of it, which hold
/// the store open just as well.
pub(crate) struct Moment {
    process: Process,
    state: Mutex<State>,
}

struct State {
    snapshot: Option<Snapshot>,
    readers: Vec<Weak<Held>>,
}

/// The moment is closed. Methods return this from where they hold its lock, and make the exception
/// after that: it may let other threads of Python run, which would wait for the lock and keep the
/// interpreter.
#[derive(Debug)]
pub(crate) struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store or the snapshot is closed")
    }
}

impl std::error::Error for Closed {}

impl From<Closed> for PyErr {
    fn from(closed: Closed) -> Self {
        error::raise("ClosedError", closed.to_string())
    }
}

impl Moment {
    pub(crate) fn new(process: Process, snapshot: Snapshot) -> Self {
        Self {
            process,
            state: Mutex::new(State {
                snapshot: Some(snapshot),
                readers: Vec::new(),
            }),
        }
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// The snapshot, if it is open.
    pub(crate) fn snapshot(&self) -> PyResult<Snapshot> {
        self.process.check().map_err(error::of_store)?;
        let snapshot = locked(&self.state).snapshot.clone();
        Ok(snapshot.ok_or(Closed)?)
    }

    /// Reads a scan until the moment is closed.
    pub(crate) fn reader(self: &Arc<Self>, scan: Scan) -> PyResult<MomentReader> {
        self.process.check().map_err(error::of_store)?;
        Ok(self.open_reader(scan)?)
    }

    fn open_reader(self: &Arc<Self>, mut scan: Scan) -> Result<MomentReader, Closed> {
        let (schema, stop) = (scan.schema().clone(), scan.stop_handle());
        let mut state = locked(&self.state);
        if state.snapshot.is_none() {
            return Err(Closed);
        }
        let reader = Mutex::new(Some(scan.into_reader()));
        let held = Arc::new(Held { reader, stop });
        forget_dropped(&mut state.readers);
        state.readers.push(Arc::downgrade(&held));
        Ok(MomentReader {
            process: self.process.clone(),
            held,
            schema,
            moment: Some(self.clone()),
        })
    }

    /// Drops the snapshot and its readers; in a forked child, nothing. Waits for those that are
    /// reading, so the caller must be detached from the interpreter.
    pub(crate) fn close(&self) {
        if self.process.is_inherited() {
            return;
        }
        let (snapshot, readers) = {
            let mut state = locked(&self.state);
            (state.snapshot.take(), std::mem::take(&mut state.readers))
        };
        drop(snapshot);
        for held in readers.iter().filter_map(Weak::upgrade) {
            held.stop.stop();
            *locked(&held.reader) = None;
        }
    }
}

/// Makes room in a list without its growing for ever: each search halves the list or doubles the
/// time to the next one.
pub(crate) fn forget_dropped<T>(list: &mut Vec<Weak<T>>) {
    if list.len() == list.capacity() {
        list.retain(|item| item.strong_count() > 0);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The batches of a scan. Closing its moment makes the next one an error.
pub(crate) struct MomentReader {
    process: Process,
    held: Arc<Held>,
    schema: SchemaRef,
    /// Until the last batch: a store that closes finds its readers by their moments.
    moment: Option<Arc<Moment>>,
}

impl MomentReader {
    /// Ends the reading from another thread.
    pub(crate) fn stop_handle(&self) -> StopHandle {
        self.held.stop.clone()
    }
}

impl Iterator for MomentReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.moment.as_ref()?;
        if let Err(inherited) = self.process.check() {
            return Some(Err(ArrowError::ExternalError(Box::new(inherited))));
        }
        let closed = || Some(Err(ArrowError::ExternalError(Box::new(Closed))));
        let mut held = locked(&self.held.reader);
        let Some(reader) = held.as_mut() else {
            return closed();
        };
        let next = reader.next();
        if next.is_none() {
            self.moment = None;
            *held = None;
            if self.held.stop.is_stopped() {
                return closed();
            }
        }
        next
    }
}

impl RecordBatchReader for MomentReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
