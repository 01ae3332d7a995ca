//! Errors of queries as failures of the command.

use std::io;

use bedload_cli::Failure;
use datafusion::common::DataFusionError;

use crate::spill::folder;

/// The failure for a query's error: the store's or the system's, if one of theirs caused it, and
/// otherwise one of the request.
pub(crate) fn of_query(error: &DataFusionError) -> Failure {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<bedload::Error>() {
            return Failure::from(error);
        }
        // The only files besides the store's.
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Failure::io(&folder(), error);
        }
        cause = error.source();
    }
    let root = error.find_root();
    // The names of the optimizer's rules around it are of no use to who asked.
    let message = root.strip_backtrace();
    match root {
        DataFusionError::ResourcesExhausted(_) => Failure::input(format!("{message}; --memory allows more")),
        _ => Failure::input(message),
    }
}
