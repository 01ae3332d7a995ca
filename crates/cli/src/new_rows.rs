//! `query --mark`: the rows that arrived since the mark that the previous query left in a file.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use bedload::{Error, Layout, Mark, Scan, Table};
use rustix::fs::{FileType, fstat};

use crate::exit::{Failure, Result};
use crate::interrupt;
use crate::output::{Destination, file_at};

/// No saved mark has more bytes.
const MARK_BYTES_MAX: u64 = 1024;

/// The rows that arrived since the mark in a file; all rows if there is no file.
///
/// # Errors
///
/// The mark is not one of this table; the file cannot be replaced, or the answer would replace it.
pub(crate) fn since(file: &Path, output: Option<&Path>, table: &Table) -> Result<Scan> {
    if table.layout() != Layout::Indexed {
        return Err(Failure::input(format!(
            "table {} is sparse: when its rows arrived is not known, so it has no marks",
            table.name()
        )));
    }
    let answer = output.and_then(|output| file_at(output).ok());
    if answer.is_some() && answer == file_at(file).ok() {
        return Err(Failure::usage(format!(
            "{}: --mark and --output are the same file",
            file.display()
        )));
    }
    // A file that cannot be written is noticed before anything is printed.
    Destination::file(file)
        .map(drop)
        .map_err(|error| Failure::io(file, &error))?;
    let of_file = |problem: String| Failure::input(format!("{}: {problem}", file.display()));
    let mut text = String::new();
    match File::open(file).and_then(|file| file.take(MARK_BYTES_MAX).read_to_string(&mut text)) {
        Ok(_) => {
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

/// Writes a mark to its file, durably, and before it the answer, if standard output is a file.
pub(crate) fn save(file: &Path, mark: Mark) -> Result<()> {
    interrupt::catch()?;
    sync_stdout().map_err(|error| Failure::io(Path::new("standard output"), &error))?;
    let save = || {
        let mut destination = Destination::file(file)?;
        writeln!(destination, "{mark}")?;
        destination.finish()
    };
    save().map_err(|error| Failure::io(file, &error))
}

fn sync_stdout() -> io::Result<()> {
    let stdout = io::stdout();
    match FileType::from_raw_mode(fstat(&stdout)?.st_mode) {
        FileType::RegularFile => Ok(rustix::fs::fsync(&stdout)?),
        _ => Ok(()),
    }
}
