//! Where an answer goes: to standard output, or into a file that appears when it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use tempfile::NamedTempFile;

use super::descriptor;
use super::gzip::Gzip;
use crate::unfinished;

/// Takes an answer's bytes and remembers what went wrong, because the writers of formats wrap
/// errors in their own.
pub(crate) struct Destination {
    encoding: Encoding,
    last_error: LastError,
}

/// The bytes of an answer as its target has them.
enum Encoding {
    Plain(Target),
    Gzip(Box<Gzip>),
}

pub(super) enum Target {
    Stdout(BufWriter<Stdout>),
    Device(BufWriter<File>),
    File {
        path: PathBuf,
        unfinished: BufWriter<NamedTempFile>,
    },
}

/// Whether an answer is written to `path` itself: a device, a pipe or the like, or an open
/// descriptor. Then there is nothing to undo, and writing may wait for a reader without end, so
/// signals are not to be caught.
#[must_use]
pub fn is_written_directly(path: &Path) -> bool {
    !matches!(descriptor::find(path), Ok(None)) || is_device(path)
}

fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Links that are followed one after the other, at most: as many as the system follows.
pub(super) const LINKS_MAX: usize = 40;

/// The file that an answer to `path` creates or replaces, however the path leads to it.
///
/// # Errors
///
/// Its directory does not exist, or cannot be searched.
pub(crate) fn file_at(path: &Path) -> io::Result<PathBuf> {
    if let Ok(found) = fs::canonicalize(path) {
        return Ok(found);
    }
    let end = end_of_links(path)?;
    let directory = end.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = fs::canonicalize(directory.unwrap_or(Path::new(".")))?;
    Ok(directory.join(end.file_name().unwrap_or_default()))
}

/// Where the links lead that begin at `path`, even if nothing is there.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(Errno::LOOP.into())
}

/// The last error of the system that a [`Destination`] met.
#[derive(Clone, Default)]
pub(super) struct LastError(Arc<Mutex<Option<io::Error>>>);

impl LastError {
    pub(super) fn take(&self) -> Option<io::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let copy = match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            };
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            copy
        })
    }
}

impl Destination {
    pub(super) fn stdout() -> Self {
        Self::plain(Target::Stdout(BufWriter::new(io::stdout())))
    }

    /// A file beside `path`, which takes its name at the end. A device, a pipe or an open
    /// descriptor is written at once.
    pub(crate) fn file(path: &Path) -> io::Result<Self> {
        Target::file(path).map(Self::plain)
    }

    /// As [`file`](Self::file), compressed.
    pub(super) fn gzip(path: &Path) -> io::Result<Self> {
        let gzip = Gzip::new(Target::file(path)?);
        Ok(Self {
            encoding: Encoding::Gzip(Box::new(gzip)),
            last_error: LastError::default(),
        })
    }

    fn plain(target: Target) -> Self {
        Self {
            encoding: Encoding::Plain(target),
            last_error: LastError::default(),
        }
    }

    pub(super) fn last_error(&self) -> LastError {
        self.last_error.clone()
    }

    /// Everything has been written.
    pub(crate) fn finish(self) -> io::Result<()> {
        let finished = match self.encoding {
            Encoding::Plain(target) => target.finish(),
            Encoding::Gzip(gzip) => gzip.finish(),
        };
        self.last_error.keep(finished)
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.encoding {
            Encoding::Plain(target) => target.write(bytes),
            Encoding::Gzip(gzip) => gzip.write(bytes),
        };
        self.last_error.keep(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match &mut self.encoding {
            Encoding::Plain(target) => target.flush(),
            Encoding::Gzip(gzip) => gzip.flush(),
        };
        self.last_error.keep(flushed)
    }
}

impl Target {
    fn file(path: &Path) -> io::Result<Self> {
        if let Some(open) = descriptor::find(path)? {
            return Ok(Self::Device(BufWriter::new(open)));
        }
        if is_device(path) {
            let device = OpenOptions::new().write(true).open(path)?;
            return Ok(Self::Device(BufWriter::new(device)));
        }
        // A link stays a link, and its target is replaced or created.
        let path = file_at(path)?;
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let unfinished = BufWriter::new(unfinished::file(&path)?);
        Ok(Self::File { path, unfinished })
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::Stdout(mut stdout) => stdout.flush(),
            Self::Device(mut device) => device.flush(),
            Self::File { path, unfinished } => unfinished
                .into_inner()
                .map_err(io::IntoInnerError::into_error)
                .and_then(|file| unfinished::persist(file, &path)),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::Device(device) => device.write(bytes),
            Self::File { unfinished, .. } => unfinished.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::Device(device) => device.flush(),
            Self::File { unfinished, .. } => unfinished.flush(),
        }
    }
}
