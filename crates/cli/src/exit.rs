//! How the command ends: its exit codes, and the one line that says why.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// The result of a step of a command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// How a command ended. The numbers are a promise to scripts: they never change meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Whoever read our output has read enough; that is no failure.
    ReaderGone = 0,
    /// The input, or what was asked for, does not fit: a missing column or table, an unreadable time.
    Input = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The store holds bytes that fail their checks.
    Damaged = 3,
    /// Another process has the store open.
    Busy = 4,
    /// Reading or writing failed, or the disk is full.
    Io = 5,
    /// There is no store at that place.
    NotAStore = 6,
    /// The store was written by a newer version.
    NewerStore = 7,
}

/// What `--help` says about exit codes.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  input or request does not fit: missing column or table, unreadable time, truncated file
  2  wrong usage
  3  the store is damaged
  4  another process has the store open
  5  reading or writing failed, or the disk is full
  6  not a store
  7  the store was written by a newer version";

/// Why a command could not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    status: Status,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(Status::Input, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Status::Usage, message)
    }

    /// A failure of the operating system at `path`.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Self::new(Status::Io, format!("{}: {}", path.display(), plain(error)))
    }

    /// A failure to write the answer. A reader that has gone away is the end of the command, not a failure.
    pub(crate) fn output(name: &str, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::new(Status::ReaderGone, "")
        } else {
            Self::new(Status::Io, format!("{name}: {}", plain(error)))
        }
    }

    /// Says more about the circumstances, behind the message.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        self.message.push_str("; ");
        self.message.push_str(note);
        self
    }

    /// Says, before the message, where in the input it went wrong.
    pub(crate) fn within(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    pub(crate) fn status(&self) -> Status {
        self.status
    }
}

/// Says on standard error what went wrong beside the work, which was done.
pub(crate) fn warn(message: &str) {
    // If standard error is gone, there is nobody to tell.
    let _ = writeln!(io::stderr(), "bedload: warning: {message}");
}

impl fmt::Display for Failure {
    /// One line, whatever the message was made of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, line) in self
            .message
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .enumerate()
        {
            if i > 0 {
                f.write_str(" ")?;
            }
            f.write_str(line)?;
        }
        Ok(())
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// The error in words, without the number that the operating system has for it.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => "no space left on the disk".to_owned(),
        io::ErrorKind::FileTooLarge => "the file would exceed the size limit".to_owned(),
        _ => {
            let text = error.to_string();
            match text.find(" (os error") {
                Some(end) => text[..end].to_lowercase(),
                None => text,
            }
        }
    }
}
