//! How the command ends: its exit codes, and the one line that says why.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use signal_hook::consts::{SIGHUP, SIGINT};

use crate::printable::printable;

/// The result of a step of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// How a command ended. The numbers are a promise to scripts: they never change meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// The reader of the output has read enough, which is no failure.
    ReaderGone = 0,
    /// The input, or what was asked for, does not fit: a missing column or table, an unreadable
    /// time.
    Input = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The store holds bytes that fail their checks.
    Damaged = 3,
    /// Another process has the store open.
    Busy = 4,
    /// Reading or writing failed, or the disk is full.
    Io = 5,
    /// There is no store at that place, or something other than regular files in it.
    NotAStore = 6,
    /// The store has a format that this version does not read.
    OtherFormat = 7,
    /// SIGHUP ended the command. This and the two below are 128 and the number of the signal.
    Hangup = 129,
    /// SIGINT ended the command, as Ctrl-C does.
    Interrupt = 130,
    /// SIGTERM ended the command.
    Terminated = 143,
}

impl Status {
    pub(crate) fn is_signal(self) -> bool {
        matches!(self, Self::Hangup | Self::Interrupt | Self::Terminated)
    }
}

/// A signal that asked for the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interruption(i32);

impl Interruption {
    /// The end that a signal of this number asks for.
    pub(crate) const fn by(signal: i32) -> Self {
        Self(signal)
    }

    fn name(self) -> &'static str {
        match self.0 {
            SIGHUP => "SIGHUP",
            SIGINT => "SIGINT",
            _ => "SIGTERM",
        }
    }

    /// The exit code that shells report for a process that the signal ended.
    pub(crate) const fn status(self) -> Status {
        match self.0 {
            SIGHUP => Status::Hangup,
            SIGINT => Status::Interrupt,
            _ => Status::Terminated,
        }
    }
}

impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended by {}", self.name())
    }
}

impl std::error::Error for Interruption {}

impl From<Interruption> for Failure {
    fn from(signal: Interruption) -> Self {
        Self::new(signal.status(), signal.to_string())
    }
}

/// The exit codes, as `--help` lists them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  input or request does not fit: missing column or table, unreadable time, truncated file
  2  wrong usage
  3  the store is damaged
  4  another process has the store open
  5  reading or writing failed, or the disk is full
  6  not a store
  7  the store has a format that this version does not read
  129, 130, 143  ended by SIGHUP, SIGINT (Ctrl-C) or SIGTERM";

/// Why a command could not do what it was asked to. Displayed, it is one line without anything that
/// a terminal obeys.
#[derive(Debug)]
pub struct Failure {
    status: Status,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self {
            status,
            message: without_numbers(&message.into()),
        }
    }

    /// The input, or the request, does not fit: exit code 1.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(Status::Input, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Status::Usage, message)
    }

    /// A failure of the operating system at `path`, exit code 5; or the signal that ended the wait
    /// for it.
    pub fn io(path: &Path, error: &io::Error) -> Self {
        Self::of_system(&path.display().to_string(), error)
    }

    fn of_system(name: &str, error: &io::Error) -> Self {
        match interruption(error) {
            Some(signal) => signal.into(),
            None => Self::new(Status::Io, format!("{name}: {}", plain(error))),
        }
    }

    /// A failure to write the answer. A reader that has gone away is the end of the command, not a
    /// failure.
    pub(crate) fn output(name: &str, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::new(Status::ReaderGone, "")
        } else {
            Self::of_system(name, error)
        }
    }

    /// Says what came of undoing what was begun.
    pub(crate) fn after_undo(self, undone: Result<()>) -> Self {
        match undone {
            Ok(()) if self.status.is_signal() => self.with_note("the store is as it was before"),
            Ok(()) => self,
            Err(second) => self.with_note(&format!(
                "and the store could not be put back as it was: {second}"
            )),
        }
    }

    /// Adds a note on the circumstances after the message.
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
    let _ = writeln!(
        io::stderr(),
        "bedload: warning: {}",
        printable(&without_numbers(message))
    );
}

impl fmt::Display for Failure {
    /// One line, whatever the message was made of, and nothing in it that a terminal obeys.
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
            f.write_str(&printable(line))?;
        }
        Ok(())
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// The signal that an error of the system stands for.
pub(crate) fn interruption(error: &io::Error) -> Option<Interruption> {
    error.get_ref()?.downcast_ref().copied()
}

/// The error in words, without the number that the operating system has for it.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = without_numbers(&error.to_string());
    // The errors of temporary files end with their names, which nobody has chosen.
    let of_system = match text.split_once(" at path \"") {
        Some((words, _)) => Some(words),
        None => error.raw_os_error().map(|_| text.as_str()),
    };
    // An error with a text of its own says more than its kind.
    let has_text = error.get_ref().is_some() && of_system.is_none();
    match error.kind() {
        io::ErrorKind::StorageFull if !has_text => "no space left on the disk".to_owned(),
        io::ErrorKind::FileTooLarge if !has_text => "the file would exceed the size limit".to_owned(),
        _ => of_system.map_or_else(|| text.clone(), str::to_lowercase),
    }
}

/// A message without the operating system's error numbers, which other messages embed.
fn without_numbers(message: &str) -> String {
    const OPENING: &str = " (os error ";
    let mut parts = message.split(OPENING);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        match part[digits..].strip_prefix(')') {
            Some(rest) if digits > 0 => text.push_str(rest),
            _ => {
                text.push_str(OPENING);
                text.push_str(part);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_words_and_no_numbers_of_the_system() {
        let path = Path::new("a");
        for code in 1..134 {
            let error = io::Error::from_raw_os_error(code);
            let message = Failure::io(path, &error).to_string();
            assert!(!message.contains("os error"), "{message}");
            let wrapped = Failure::new(Status::Io, format!("cannot read a: {error}; at line 3"));
            assert!(!wrapped.to_string().contains("os error"), "{wrapped}");
            assert!(wrapped.to_string().ends_with("; at line 3"), "{wrapped}");
        }
        assert_eq!(without_numbers("a (os error 2)b (os error x)"), "ab (os error x)");
    }

    #[test]
    fn a_message_is_one_line_that_moves_no_cursor() {
        let failure = Failure::input("a\n  b\u{202e}\x1b[2J\u{200f}\tc\n");
        assert_eq!(failure.to_string(), "a b\\u{202e}\\u{1b}[2J\\u{200f}\\tc");
    }
}
