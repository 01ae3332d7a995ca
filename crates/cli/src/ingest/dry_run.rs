//! `ingest --dry-run` without a table: an empty one elsewhere takes its place.

use bedload::Store;
use tempfile::TempDir;

use crate::exit::{Failure, Result};

/// An empty store in a directory for temporary files, which is removed when it is dropped.
pub(super) fn scratch() -> Result<(Store, TempDir)> {
    let directory = tempfile::Builder::new().prefix("bedload-dry-run-").tempdir();
    let directory = directory.map_err(|error| Failure::io(&std::env::temp_dir(), &error))?;
    Ok((Store::create(directory.path().join("store"))?, directory))
}
