//! Texts whose lines come one at a time, for `ingest --follow`.
//!
//! A reader of records asks for the next one only when its line is whole, and waits for it no
//! longer than until a moment of its choice: rows before it are then committed. After a signal,
//! lines that have come by then are read to their end.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::io::{Errno, ioctl_fionread};

use super::bytes::Progress;
use super::text::RECORD_BYTES_MAX;
use crate::exit::interruption;
use crate::interrupt;

/// Room for what a read may give.
const READ_BYTES: usize = 256 << 10;

/// Bytes that are read after a signal, at most: as many as a pipe holds.
const BYTES_AFTER_SIGNAL_MAX: u64 = 1 << 20;

/// A text of lines.
pub(super) trait Text: BufRead + Send {
    /// Waits for a line that is not blank, or the end of the text. Returns `false` if the time is
    /// up first, or at once if lines are not awaited.
    fn await_line(&mut self, _until: Option<Instant>) -> io::Result<bool> {
        Ok(true)
    }
}

impl<R: Read + Send> Text for BufReader<R> {}

impl Text for &[u8] {}

impl Text for Box<dyn Text> {
    fn await_line(&mut self, until: Option<Instant>) -> io::Result<bool> {
        (**self).await_line(until)
    }
}

impl<T: Text> Text for Chain<Cursor<Vec<u8>>, T> {
    fn await_line(&mut self, until: Option<Instant>) -> io::Result<bool> {
        let (first, rest) = self.get_mut();
        let is_blank = first.fill_buf()?.iter().all(u8::is_ascii_whitespace);
        Ok(!is_blank || rest.await_line(until)?)
    }
}

/// A text that is read from a pipe line by line.
pub(super) struct LiveText<F> {
    source: F,
    progress: Progress,
    bytes: Vec<u8>,
    /// Where the bytes begin that were not consumed, and where their last whole line ends.
    next: usize,
    whole: usize,
    /// Whether the last line is whole without an end of its own.
    ended: bool,
    /// Bytes that are still to be read, once a signal has come.
    after_signal: Option<u64>,
}

impl<F: AsFd> LiveText<F> {
    pub(super) fn new(source: F, progress: Progress) -> Self {
        Self {
            source,
            progress,
            bytes: Vec::new(),
            next: 0,
            whole: 0,
            ended: false,
            after_signal: None,
        }
    }

    fn whole_lines(&self) -> &[u8] {
        &self.bytes[self.next..self.whole]
    }

    /// Reads on; `false` if nothing has come by then.
    fn read_on(&mut self, until: Option<Instant>) -> io::Result<bool> {
        let mut room = READ_BYTES;
        match interrupt::wait_until(self.source.as_fd(), PollFlags::IN, until) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if interruption(&error).is_some() => {
                let source = &self.source;
                let come = || ioctl_fionread(source).unwrap_or(0).min(BYTES_AFTER_SIGNAL_MAX);
                let left = *self.after_signal.get_or_insert_with(come);
                if left == 0 {
                    return Err(error);
                }
                room = usize::try_from(left).unwrap_or(room).min(room);
            }
            Err(error) => return Err(error),
        }
        self.bytes.drain(..self.next);
        self.whole -= self.next;
        self.next = 0;
        let begin = self.bytes.len();
        self.bytes.resize(begin + room, 0);
        let read = rustix::io::read(&self.source, &mut self.bytes[begin..]);
        self.bytes.truncate(begin + read.unwrap_or(0));
        match read {
            Ok(0) => self.ended = true,
            Ok(read) => {
                self.progress.add(read as u64);
                if let Some(left) = &mut self.after_signal {
                    *left = left.saturating_sub(read as u64);
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        let last_end = self.bytes[begin..].iter().rposition(|&byte| byte == b'\n');
        if let Some(last_end) = last_end {
            self.whole = begin + last_end + 1;
        }
        // The reader of records refuses a line that is too long.
        if self.ended || self.bytes.len() - self.whole > RECORD_BYTES_MAX {
            self.whole = self.bytes.len();
        }
        Ok(true)
    }
}

impl<F: AsFd + Send> Text for LiveText<F> {
    fn await_line(&mut self, until: Option<Instant>) -> io::Result<bool> {
        while !self.ended && self.whole_lines().iter().all(u8::is_ascii_whitespace) {
            // Blank lines are for the reader of records, which counts them.
            if !self.read_on(until)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<F: AsFd> BufRead for LiveText<F> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while !self.ended && self.whole_lines().is_empty() {
            self.read_on(None)?;
        }
        Ok(self.whole_lines())
    }

    fn consume(&mut self, bytes: usize) {
        self.next += bytes;
    }
}

impl<F: AsFd> Read for LiveText<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}
