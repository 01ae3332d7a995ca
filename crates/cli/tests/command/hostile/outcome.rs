//! How a command may end, and the store that it may leave.

#![expect(unsafe_code, reason = "a process is limited between fork and exec")]

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, setrlimit};

use crate::harness::{Outcome, Place};

/// A run that takes longer hangs.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Memory that a run may map: far more than the cache and the batches of these small stores need.
const MEMORY_LIMIT_BYTES: u64 = 4 << 30;

/// Exit codes that the documentation names, for a failure of any kind.
const CODES: [i32; 9] = [1, 3, 4, 5, 6, 7, 129, 130, 143];

/// Part of the message when the store could not be put back as it was.
const NOT_PUT_BACK: &str = "could not be put back";

/// How a run ended that was kept within limits of time and memory.
pub(super) struct Limited {
    /// The exit code; `None` if a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Runs a command, and `meanwhile` with the number of its process; an error if it hangs.
pub(super) fn run_limited(command: &mut Command, meanwhile: impl FnOnce(u32)) -> Result<Limited, String> {
    // Files and not pipes, so that nobody has to read while it runs.
    let (out, err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command
        .stdout(out.try_clone().unwrap())
        .stderr(err.try_clone().unwrap());
    let limit = || setrlimit(Resource::RLIMIT_AS, MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES);
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(move || limit().map_err(std::io::Error::from));
    }
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    meanwhile(child.id());
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > TIME_LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err("hangs".to_owned());
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    Ok(Limited {
        code: status.code(),
        stdout: text_of(out),
        stderr: text_of(err),
    })
}

/// All text in a file that somebody else has written.
pub(super) fn text_of(mut file: File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether the command says that it did its work; an error if it did not end as promised.
pub(super) fn orderly(code: Option<i32>, stderr: &str) -> Result<bool, String> {
    let Some(code) = code else {
        return Err(format!("ended by a signal: {stderr}"));
    };
    if code != 0 && !CODES.contains(&code) {
        return Err(format!("exit code {code}: {stderr}"));
    }
    for word in ["panicked", "os error", "RUST_BACKTRACE"] {
        if stderr.contains(word) {
            return Err(format!("exit code {code}, and says {word:?}: {stderr}"));
        }
    }
    let errors = stderr
        .lines()
        .filter(|line| line.starts_with("bedload: "))
        .count();
    if code != 0 && errors != 1 {
        return Err(format!("exit code {code} with {errors} messages: {stderr}"));
    }
    Ok(code == 0)
}

/// Parts of the message when the work is done and a later step failed.
const DONE: [&str; 2] = ["stay in the table", "what is done stays"];

/// Whether the message says that the work is done all the same.
pub(super) fn says_done(stderr: &str) -> bool {
    DONE.iter().any(|words| stderr.contains(words))
}

/// Whether the message says that the store is not as it was.
pub(super) fn says_not_put_back(stderr: &str) -> bool {
    stderr.contains(NOT_PUT_BACK)
}

/// An error unless the store passes all checks.
pub(super) fn whole(place: &Place, store: &str) -> Result<(), String> {
    let Outcome { code, stdout, stderr } = place.run(&format!("verify {store}"));
    match code {
        Some(0) => Ok(()),
        _ => Err(format!("store {store} is not whole: {stdout}{stderr}")),
    }
}

/// The failures found, case by case.
#[derive(Default)]
pub(super) struct Findings {
    found: Vec<String>,
    cases: usize,
}

impl Findings {
    pub(super) fn note<T>(&mut self, case: &str, checked: Result<T, String>) -> Option<T> {
        self.cases += 1;
        checked
            .map_err(|found| self.found.push(format!("{case}: {}", found.trim_end())))
            .ok()
    }

    /// Panics with all findings, if there are any.
    #[track_caller]
    pub(super) fn assert_none(&self) {
        assert!(
            self.found.is_empty(),
            "{} of {} cases:\n{}",
            self.found.len(),
            self.cases,
            self.found.join("\n")
        );
    }
}

/// The numbers of the cases to run: `sample` of them in a thorough test run, all that there is time
/// for in a soak.
pub(super) struct Cases {
    until: Option<Instant>,
    left: usize,
}

impl Cases {
    pub(super) fn new(sample: usize) -> Self {
        let seconds = std::env::var("BEDLOAD_HOSTILE_SECONDS").ok();
        let seconds = seconds.and_then(|text| text.parse().ok());
        Self {
            until: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
            left: sample.div_ceil(bedload_testkit::stride()),
        }
    }
}

impl Iterator for Cases {
    type Item = ();

    fn next(&mut self) -> Option<()> {
        if let Some(until) = self.until {
            return (Instant::now() < until).then_some(());
        }
        self.left = self.left.checked_sub(1)?;
        Some(())
    }
}
