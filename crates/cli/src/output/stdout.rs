//! Standard output, whose reader may go away at any time.

use std::fmt::Display;
use std::io::{self, StdoutLock, Write};

use crate::exit::{Failure, Result};

/// Standard output. Unlike `println!`, a write that fails is an error and not a panic.
pub(crate) struct Stdout(StdoutLock<'static>);

impl Stdout {
    pub(crate) fn lock() -> Self {
        Self(io::stdout().lock())
    }

    /// Writes a line, so that a reader at the other end of a pipe has it at once.
    pub(crate) fn line(&mut self, text: &(impl Display + ?Sized)) -> Result<()> {
        writeln!(self.0, "{text}")
            .and_then(|()| self.0.flush())
            .map_err(|error| failure(&error))
    }
}

/// A failure to write to standard output.
pub(crate) fn failure(error: &io::Error) -> Failure {
    Failure::output("standard output", error)
}
