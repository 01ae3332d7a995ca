//! The bytes of a file: what they are, and how many have been read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use super::STDIN;
use crate::exit::{Failure, Result};

const BUFFER_BYTES: usize = 256 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const PARQUET_MAGIC: [u8; 4] = *b"PAR1";

/// What a file holds.
pub(super) enum Content {
    /// Text, decompressed if need be.
    Text(Box<dyn BufRead>),
    /// A Parquet file.
    Parquet(File),
}

/// Opens a file or standard input and tells by its first bytes what it holds.
pub(super) fn open(path: &Path) -> Result<(Content, Progress)> {
    if path == Path::new(STDIN) {
        let progress = Progress::of_unknown();
        let mut stdin = BufReader::with_capacity(BUFFER_BYTES, progress.counting(io::stdin()));
        if leading(path, &mut stdin)? == Leading::Parquet {
            return Err(Failure::input(
                "standard input: Parquet is read from its end and cannot be piped in",
            ));
        }
        return Ok((Content::Text(decompressed(path, stdin)?), progress));
    }

    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::input(format!("{}: no such file", path.display())),
        _ => Failure::io(path, &error),
    })?;
    let metadata = file.metadata().map_err(|error| Failure::io(path, &error))?;
    if metadata.is_dir() {
        return Err(Failure::input(format!("{}: is a directory", path.display())));
    }
    let progress = Progress::of_bytes(metadata.len());
    let for_parquet = file.try_clone().map_err(|error| Failure::io(path, &error))?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, progress.counting(file));
    if leading(path, &mut reader)? == Leading::Parquet {
        return Ok((Content::Parquet(for_parquet), progress));
    }
    Ok((Content::Text(decompressed(path, reader)?), progress))
}

#[derive(PartialEq, Eq)]
enum Leading {
    Gzip,
    Parquet,
    Other,
}

fn leading(path: &Path, reader: &mut impl BufRead) -> Result<Leading> {
    let head = reader.fill_buf().map_err(|error| Failure::io(path, &error))?;
    Ok(if head.starts_with(&GZIP_MAGIC) {
        Leading::Gzip
    } else if head.starts_with(&PARQUET_MAGIC) {
        Leading::Parquet
    } else {
        Leading::Other
    })
}

fn decompressed(path: &Path, mut reader: impl BufRead + 'static) -> Result<Box<dyn BufRead>> {
    Ok(if leading(path, &mut reader)? == Leading::Gzip {
        Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            MultiGzDecoder::new(reader),
        ))
    } else {
        Box::new(reader)
    })
}

/// Why text could not be read: an end that comes too early is the input's fault, the rest the system's.
pub(super) fn text_failure(name: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Failure::input(format!("{name}: the gzip stream is cut off before its end"))
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Failure::input(format!("{name}: the gzip stream is damaged: {error}"))
        }
        _ => Failure::io(Path::new(name), error),
    }
}

/// How far the reading of a file has come. Clones count together.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    read: Arc<AtomicU64>,
    total: Option<u64>,
}

impl Progress {
    fn of_unknown() -> Self {
        Self {
            read: Arc::default(),
            total: None,
        }
    }

    fn of_bytes(total: u64) -> Self {
        Self {
            read: Arc::default(),
            total: Some(total),
        }
    }

    fn counting<R>(&self, inner: R) -> Counting<R> {
        Counting {
            inner,
            read: Arc::clone(&self.read),
        }
    }

    /// Says how far a reading that does not go from front to back has come.
    pub(super) fn set(&self, read: u64) {
        self.read.store(read, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(super) fn total(&self) -> Option<u64> {
        self.total
    }
}

struct Counting<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
