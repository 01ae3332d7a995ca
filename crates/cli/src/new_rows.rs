//! `query --mark`: the rows that arrived since the query before, whose mark a file has.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use bedload::{Error, Layout, Mark, Scan, Table};

use crate::exit::{Failure, Result};
use crate::output::Destination;

/// The rows that arrived since a mark; all rows if there is none.
pub(crate) fn since(file: &Path, table: &Table) -> Result<Scan> {
    if table.layout() != Layout::Indexed {
        return Err(Failure::input(format!(
            "table {} is sparse: when its rows arrived is not known, so it has no marks",
            table.name()
        )));
    }
    let of_file = |error: String| Failure::input(format!("{}: {error}", file.display()));
    match fs::read_to_string(file) {
        Ok(text) => {
            let mark: Mark = text.parse().map_err(|error| of_file(format!("{error}")))?;
            table.since(mark).map_err(|error| match error {
                Error::Schema { .. } => of_file(format!("{error}")),
                error => error.into(),
            })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(table.range(..)?),
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(of_file("it is no saved mark".into())),
        Err(error) => Err(Failure::io(file, &error)),
    }
}

/// Writes a mark to its file, durably.
pub(crate) fn save(file: &Path, mark: Mark) -> Result<()> {
    let save = || {
        let mut destination = Destination::file(file)?;
        writeln!(destination, "{mark}")?;
        destination.finish()
    };
    save().map_err(|error| Failure::io(file, &error))
}
