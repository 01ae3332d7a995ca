//! The first error of a page store, kept by trees whose interface has no errors.

use std::fmt::Debug;
use std::sync::OnceLock;

use bedload_pages::{Error, Result};

/// The first error, if there was one.
#[derive(Debug, Default)]
pub(super) struct FirstFailure(OnceLock<Error>);

impl FirstFailure {
    pub(super) fn get(&self) -> Option<&Error> {
        self.0.get()
    }

    /// Keeps an error, if it is the first: that one is the most informative.
    pub(super) fn noted<R: Default>(&self, result: Result<R>) -> R {
        result.unwrap_or_else(|error| {
            let _ = self.0.set(error);
            R::default()
        })
    }

    /// Fails if there was an error, or if the report on a tree is an error or not a sound one.
    pub(super) fn check<R: Debug>(
        &self,
        report: Result<R>,
        is_sound: impl FnOnce(&R) -> bool,
    ) -> std::result::Result<(), String> {
        if let Some(failure) = self.get() {
            return Err(failure.to_string());
        }
        let report = report.map_err(|error| error.to_string())?;
        if is_sound(&report) {
            Ok(())
        } else {
            Err(format!("{report:?}"))
        }
    }
}
