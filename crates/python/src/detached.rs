//! Values whose end may wait for the disk.

use std::ops::Deref;

use pyo3::prelude::*;

/// A value of an object of Python that is dropped detached from the interpreter: dropping the last
/// owner of a store waits for a flush and a sync.
pub(crate) struct Detached<T: Send>(Option<T>);

impl<T: Send> Detached<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send> Deref for Detached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is taken by `drop` alone")
    }
}

impl<T: Send> Drop for Detached<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        // At its end there is no interpreter, and the value is dropped with the closure.
        Python::try_attach(move |py| py.detach(move || drop(value)));
    }
}
