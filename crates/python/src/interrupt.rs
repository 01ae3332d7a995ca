//! Long calls that end when Ctrl-C is pressed.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use bedload::StopHandle;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How often a waiting call looks for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Runs work that cannot be stopped half-way on a thread of its own. Ctrl-C ends the wait, not the
/// work.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> bedload::Result<T> + Send + 'static,
) -> PyResult<T> {
    on_thread(py, work)?.map_err(crate::error::of_store)
}

/// Runs work on a thread of its own; `stop` ends it at Ctrl-C.
pub(crate) fn wait_or_stop<T: Send + 'static>(
    py: Python<'_>,
    stop: &StopHandle,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    on_thread(py, work).inspect_err(|_| stop.stop())
}

fn on_thread<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        // The receiver is gone if Ctrl-C was pressed.
        let _ = sender.send(work());
    });
    let mut receiver = receiver;
    loop {
        let answer;
        (answer, receiver) = py.detach(move || (receiver.recv_timeout(LOOK_EVERY), receiver));
        match answer {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "the thread that did the work panicked; its message is on standard error",
                ));
            }
        }
    }
}
