//! Errors of queries as failures of the command.

use bedload_cli::Failure;
use datafusion::common::DataFusionError;

/// The failure that an error of a query is: that of the store, if a store's error is behind it, and
/// else one of the request.
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
