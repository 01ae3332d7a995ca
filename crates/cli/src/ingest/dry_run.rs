//! `ingest --dry-run` without a table: an empty one elsewhere takes its place.

use std::fs;
use std::io;
use std::path::Path;

use bedload::{Error, Store};
use tempfile::TempDir;

use crate::exit::{Failure, Result};

/// The file of a store that is created first.
const LOCK_FILE: &str = "lock";

/// Fails if a store cannot be created at `path`, as far as can be told without writing there.
pub(super) fn check_vacant(path: &Path) -> Result<()> {
    let not_a_store = |reason: &str| {
        let (path, reason) = (path.into(), reason.into());
        Err(Error::NotAStore { path, reason }.into())
    };
    match fs::read_dir(path) {
        Ok(entries) => {
            let names = entries.map(|entry| Ok(entry?.file_name()));
            let names: Vec<_> = names
                .collect::<io::Result<_>>()
                .map_err(|error| Failure::io(path, &error))?;
            // A creation that was cut short is begun again.
            match names.is_empty() || names.iter().any(|name| name == LOCK_FILE) {
                true => Ok(()),
                false => not_a_store("the directory holds other files"),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let created = |source| Error::Io {
                path: path.into(),
                action: "create",
                source,
            };
            fs::read_dir(parent.unwrap_or(Path::new(".")))
                .map(drop)
                .map_err(|error| created(error).into())
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => not_a_store("it is a file"),
        Err(error) => Err(Failure::io(path, &error)),
    }
}

/// An empty store in a directory for temporary files, which is removed when it is dropped.
pub(super) fn scratch() -> Result<(Store, TempDir)> {
    let directory = tempfile::Builder::new().prefix("bedload-dry-run-").tempdir();
    let directory = directory.map_err(|error| Failure::io(&std::env::temp_dir(), &error))?;
    Ok((Store::create(directory.path().join("store"))?, directory))
}
