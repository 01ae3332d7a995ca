//! A store that may be closed while objects of Python refer to it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use pyo3::prelude::*;

use crate::error;
use crate::rows::Slot;

/// A store until it is closed, and the snapshots of it that are held.
#[derive(Debug)]
pub(crate) struct Handle {
    path: PathBuf,
    store: RwLock<Option<bedload::Store>>,
    slots: Mutex<Vec<Weak<Mutex<Option<bedload::Snapshot>>>>>,
}

impl Handle {
    pub(crate) fn new(path: PathBuf, store: bedload::Store) -> Self {
        Self {
            path,
            store: RwLock::new(Some(store)),
            slots: Mutex::default(),
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
    pub(crate) fn slot(&self) -> PyResult<Slot> {
        let slot = Arc::new(Mutex::new(Some(self.store()?.snapshot())));
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // Each search halves the list or doubles the time to the next one.
        if slots.len() == slots.capacity() {
            slots.retain(|slot| slot.strong_count() > 0);
        }
        slots.push(Arc::downgrade(&slot));
        Ok(slot)
    }

    /// Closes the store and the snapshots of it; `None` if it is closed already.
    pub(crate) fn take(&self) -> Option<bedload::Store> {
        for slot in self
            .slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            if let Some(slot) = slot.upgrade() {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
        self.store.write().unwrap_or_else(PoisonError::into_inner).take()
    }
}
