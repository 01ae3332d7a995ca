//! Errors of queries as failures of the command.

use bedload_cli::Failure;
use datafusion::common::DataFusionError;

/// The failure for a query's error: the store's, if a store error caused it, and otherwise one of
/// the request.
pub(crate) fn of_query(error: &DataFusionError) -> Failure {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<bedload::Error>() {
            return Failure::from(error);
        }
        cause = error.source();
    }
    Failure::input(error.strip_backtrace())
}
