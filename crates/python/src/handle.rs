//! A store that may be closed while objects of Python refer to it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use pyo3::prelude::*;

use crate::error;
use crate::moment::{Moment, forget_dropped};

/// A store until it is closed, and the snapshots of it that are held.
#[derive(Debug)]
pub(crate) struct Handle {
    path: PathBuf,
    store: RwLock<Option<bedload::Store>>,
    moments: Mutex<Vec<Weak<Moment>>>,
}

impl Handle {
    pub(crate) fn new(path: PathBuf, store: bedload::Store) -> Self {
        Self {
            path,
            store: RwLock::new(Some(store)),
            moments: Mutex::default(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn store(&self) -> PyResult<bedload::Store> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner).clone();
        store.ok_or_else(|| {
            error::raise(
                "ClosedError",
                format!("the store {} is closed", self.path.display()),
            )
        })
    }

    /// The present state, until this store is closed.
    pub(crate) fn moment(&self) -> PyResult<Arc<Moment>> {
        // Locked first, so that no moment of an open store escapes `take`.
        let mut moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        let moment = Arc::new(Moment::new(self.store()?.snapshot()));
        forget_dropped(&mut moments);
        moments.push(Arc::downgrade(&moment));
        Ok(moment)
    }

    /// Closes the store and the moments of it; `None` if it is closed already. The caller must be
    /// detached from the interpreter.
    pub(crate) fn take(&self) -> Option<bedload::Store> {
        let store = self.store.write().unwrap_or_else(PoisonError::into_inner).take();
        let moments = std::mem::take(&mut *self.moments.lock().unwrap_or_else(PoisonError::into_inner));
        for moment in moments.iter().filter_map(Weak::upgrade) {
            moment.close();
        }
        store
    }
}
