//! An answer that is compressed by gzip.
//!
//! The encoder writes the trailer of a stream, which says that it is whole, even when it is
//! dropped. Here only [`Gzip::finish`] does: a reader of a pipe sees that an answer was cut off.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::destination::Target;

/// Compresses what is written to it.
pub(super) struct Gzip(GzEncoder<Outlet>);

/// Takes compressed bytes, and drops those that come after the answer was given up.
struct Outlet(Option<Target>);

impl Gzip {
    pub(super) fn new(target: Target) -> Self {
        Self(GzEncoder::new(Outlet(Some(target)), Compression::default()))
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.0.try_finish()?;
        self.0.get_mut().0.take().map_or(Ok(()), Target::finish)
    }
}

impl Drop for Gzip {
    fn drop(&mut self) {
        self.0.get_mut().0 = None;
    }
}

impl Write for Gzip {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &self.0.get_ref().0 {
            // No one reads it before it is whole, and a flush costs compression.
            Some(Target::File { .. }) => Ok(()),
            _ => self.0.flush(),
        }
    }
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(target) => target.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), Target::flush)
    }
}
