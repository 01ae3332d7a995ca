//! Commands that run while a test feeds them, reads what they print and ends them.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Outcome, Place};

/// A command that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Begins a command with the signals as a terminal leaves them: the tests may run where they are
/// ignored.
pub(crate) fn begin(command: Command) -> Child {
    begin_to(command, Stdio::piped())
}

/// Begins a command with this standard output.
pub(crate) fn begin_to(command: Command, stdout: impl Into<Stdio>) -> Child {
    let mut wrapped = Command::new("env");
    wrapped
        .arg("--default-signal=INT,TERM,HUP")
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::piped());
    if let Some(dir) = command.get_current_dir() {
        wrapped.current_dir(dir);
    }
    wrapped.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn wait_until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "it does not come to hold");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    // It may have ended by itself.
    let _ = kill_process(pid, signal);
}

/// The outcome of a process that is waited for; a hang is a failure.
#[track_caller]
pub(crate) fn outcome(mut child: Child) -> Outcome {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the command does not end");
        }
        thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().unwrap().into()
}

/// Waits until the command prints a line.
#[track_caller]
pub(crate) fn wait_for_line(child: &mut Child, wanted: &str) {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap());
    let mut line = String::new();
    while line != wanted {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "no line {wanted}");
    }
}

/// A command with pipes to and from it.
pub(crate) struct Running {
    child: Child,
    input: Option<ChildStdin>,
    printed: Receiver<String>,
}

impl Running {
    pub(crate) fn begin(command: Command) -> Self {
        let mut child = begin(command);
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, printed) = channel();
        thread::spawn(move || {
            for line in lines {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            input,
            printed,
        }
    }

    /// An `ingest` into the table `t` of a store, from a pipe.
    pub(crate) fn ingest(place: &Place, arguments: &str) -> Self {
        Self::begin(place.command(&format!("ingest store t - --ack {arguments}")))
    }

    /// The next line that the command prints; `None` at the end.
    #[track_caller]
    pub(crate) fn next(&self) -> Option<String> {
        match self.printed.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no further line"),
        }
    }

    /// The next lines that the command prints.
    #[track_caller]
    pub(crate) fn lines<const N: usize>(&self) -> [String; N] {
        std::array::from_fn(|_| self.next().unwrap())
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.input.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Feeds lines to an `ingest`, and waits until so many rows are durable.
    #[track_caller]
    pub(crate) fn feed(&mut self, lines: &str, rows: u64) {
        self.write(lines);
        let wanted = format!("acknowledged {rows}");
        while let Some(line) = self.next() {
            if line == wanted {
                return;
            }
        }
        let mut message = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut message).unwrap();
        panic!("the command has ended: {message}");
    }

    pub(crate) fn send(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// Ends the input, and waits for the command.
    #[track_caller]
    pub(crate) fn end(mut self) -> Outcome {
        drop(self.input.take());
        self.outcome()
    }

    /// Waits for the command, whose input may go on. Its output are the lines not read so far.
    #[track_caller]
    pub(crate) fn outcome(self) -> Outcome {
        let Self {
            child,
            input,
            printed,
        } = self;
        let mut ended = outcome(child);
        drop(input);
        ended.stdout = printed.iter().map(|line| line + "\n").collect();
        ended
    }

    /// Ends the command as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
