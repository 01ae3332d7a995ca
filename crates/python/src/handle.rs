//! A store that may be closed while objects of Python refer to it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use pyo3::prelude::*;

use crate::error;
use crate::moment::{Moment, forget_dropped};
use crate::process::Process;

/// A store until it is closed, and the snapshots of it that are held.
#[derive(Debug)]
pub(crate) struct Handle {
    process: Process,
    /// Whether `take` was called. It is no lock, so a forked child may read it.
    is_closed: AtomicBool,
    store: RwLock<Option<bedload::Store>>,
    /// Held by commits, so that closing can wait for them.
    commits: RwLock<()>,
    moments: Mutex<Vec<Weak<Moment>>>,
}

impl Handle {
    pub(crate) fn new(path: PathBuf, store: bedload::Store) -> Self {
        Self {
            process: Process::opened(path),
            is_closed: AtomicBool::new(false),
            store: RwLock::new(Some(store)),
            commits: RwLock::default(),
            moments: Mutex::default(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.process.path()
    }

    pub(crate) fn store(&self) -> PyResult<bedload::Store> {
        self.check_process()?;
        self.open_store().ok_or_else(|| self.closed())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// The present state, until this store is closed.
    pub(crate) fn moment(&self) -> PyResult<Arc<Moment>> {
        self.check_process()?;
        self.open_moment().ok_or_else(|| self.closed())
    }

    /// Works on the store while it is open: closing waits until it is done. The caller must be
    /// detached from the interpreter, for which the work may wait.
    pub(crate) fn commit<T>(&self, work: impl FnOnce(bedload::Store) -> PyResult<T>) -> PyResult<T> {
        self.check_process()?;
        let _commits = self.commits.read().unwrap_or_else(PoisonError::into_inner);
        work(self.open_store().ok_or_else(|| self.closed())?)
    }

    /// Fails in a forked child.
    fn check_process(&self) -> PyResult<()> {
        self.process.check().map_err(error::of_store)
    }

    fn open_store(&self) -> Option<bedload::Store> {
        self.store.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn open_moment(&self) -> Option<Arc<Moment>> {
        // Locked first, so that no moment of an open store escapes `take`.
        let mut moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        let moment = Arc::new(Moment::new(self.process.clone(), self.open_store()?.snapshot()));
        forget_dropped(&mut moments);
        moments.push(Arc::downgrade(&moment));
        Some(moment)
    }

    /// Must be called without a lock: to make an exception may let other threads of Python run,
    /// which would wait for the lock and keep the interpreter.
    fn closed(&self) -> PyErr {
        error::raise(
            "ClosedError",
            format!("the store {} is closed", self.path().display()),
        )
    }

    /// Closes the store and the moments of it; `None` if it is closed already, or in a forked
    /// child, whose parent goes on with it. The caller must be detached from the interpreter.
    pub(crate) fn take(&self) -> Option<bedload::Store> {
        self.is_closed.store(true, Ordering::Release);
        if self.process.is_inherited() {
            return None;
        }
        let store = self.store.write().unwrap_or_else(PoisonError::into_inner).take();
        let moments = std::mem::take(&mut *self.moments.lock().unwrap_or_else(PoisonError::into_inner));
        for moment in moments.iter().filter_map(Weak::upgrade) {
            moment.close();
        }
        // Those that begin from now on find no store.
        drop(self.commits.write().unwrap_or_else(PoisonError::into_inner));
        store
    }
}
