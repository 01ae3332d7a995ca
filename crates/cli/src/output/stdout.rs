//! Standard output, whose reader may go away at any time.

use std::fmt::Display;
use std::io::{self, StdoutLock, Write};

use serde_json::Value;

use crate::exit::{Failure, Result};
use crate::printable::{printable, printable_json};

/// Standard output. Unlike `println!`, a write that fails is an error and not a panic.
pub(crate) struct Stdout(StdoutLock<'static>);

impl Stdout {
    pub(crate) fn lock() -> Self {
        Self(io::stdout().lock())
    }

    /// Writes a line, so that a reader at the other end of a pipe has it at once. Characters that a
    /// terminal would obey are escaped.
    pub(crate) fn line(&mut self, text: &(impl Display + ?Sized)) -> Result<()> {
        let text = text.to_string();
        let lines: Vec<_> = text.split('\n').map(printable).collect();
        self.write(&lines.join("\n"))
    }

    /// Writes a JSON object on a line.
    pub(crate) fn json(&mut self, value: &Value) -> Result<()> {
        self.write(&printable_json(&value.to_string()))
    }

    fn write(&mut self, line: &str) -> Result<()> {
        writeln!(self.0, "{line}")
            .and_then(|()| self.0.flush())
            .map_err(|error| failure(&error))
    }
}

/// A failure to write to standard output.
pub(crate) fn failure(error: &io::Error) -> Failure {
    Failure::output("standard output", error)
}
