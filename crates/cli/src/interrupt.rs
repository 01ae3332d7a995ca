//! Signals that ask the command to end: SIGINT, SIGTERM and SIGHUP.
//!
//! A command that has something to undo calls [`catch`] before it begins, and [`check`] between its
//! steps. A thread waits for the signals: the first one is remembered, and closes a pipe, so that a
//! step that waits for input wakes up as well. The second one changes nothing; the third ends the
//! process before what was begun is undone, and says so.
//!
//! A command that has nothing to undo but a trace to remove calls [`catch_briefly`]: it ends soon
//! after the first signal, even where a step waits for a slow reader.
//!
//! A command that keeps what is done calls [`catch_to_finish`]: after the first signal it finishes,
//! and the second one ends it at once.
//!
//! A signal that was ignored when the command began, as `nohup` and shells do for commands in the
//! background, stays ignored.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use bedload::StopHandle;

use crate::exit::{Failure, Interruption, Result, Status};

/// The first signal that came; 0 if none did.
static CAUGHT: AtomicI32 = AtomicI32::new(0);

/// Whether there is nothing more to undo.
static DONE: AtomicBool = AtomicBool::new(false);

/// Whether the first signal only asks to finish: what is done stays.
static FINISHES: AtomicBool = AtomicBool::new(false);

/// Whether there is nothing to undo from the beginning.
static IS_BRIEF: AtomicBool = AtomicBool::new(false);

/// The end of a pipe that can be read when a signal has come; empty until signals are caught.
static WAKE: OnceLock<PipeReader> = OnceLock::new();

/// The scan that the command reads, which may search a whole table for its next row.
static SCAN: Mutex<Option<StopHandle>> = Mutex::new(None);

/// Serialises [`catch`].
static CATCHING: Mutex<()> = Mutex::new(());

/// The signals of which the third ends the process at once.
const PATIENCE: u32 = 3;

/// How long a command that has nothing to undo may take to end by itself.
const GRACE: Duration = Duration::from_millis(100);

/// From now on SIGINT, SIGTERM and SIGHUP end nothing by themselves, except for the third of them:
/// [`first`] waits for one, as the command's own steps do.
///
/// # Errors
///
/// The system refuses a pipe or a thread.
pub fn catch() -> Result<()> {
    let _catching = CATCHING.lock().unwrap_or_else(PoisonError::into_inner);
    if WAKE.get().is_some() {
        return Ok(());
    }
    let failed = |error: io::Error| Failure::new(Status::Io, format!("cannot catch signals: {error}"));
    let (reader, writer) = io::pipe().map_err(failed)?;
    let mut signals = Signals::new(not_ignored(&[SIGINT, SIGTERM, SIGHUP])).map_err(failed)?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || watch(&mut signals, writer))
        .map_err(failed)?;
    WAKE.get_or_init(|| reader);
    Ok(())
}

/// Like [`catch`], for a command that has nothing to undo: [`GRACE`] after the first signal the
/// process ends, whatever it waits for.
pub(crate) fn catch_briefly() -> Result<()> {
    IS_BRIEF.store(true, Ordering::Release);
    catch()
}

/// Like [`catch`], for a command that keeps what is done, and finishes after the first signal.
pub(crate) fn catch_to_finish() -> Result<()> {
    FINISHES.store(true, Ordering::Release);
    catch()
}

fn watch(signals: &mut Signals, writer: PipeWriter) {
    let mut writer = Some(writer);
    let mut count = 0;
    for signal in signals.forever() {
        if DONE.load(Ordering::Acquire) {
            end(&Failure::from(Interruption::by(signal)).with_note("what is done stays"));
        }
        count += 1;
        if count == 1 {
            CAUGHT.store(signal, Ordering::Release);
            if let Some(scan) = &*SCAN.lock().unwrap_or_else(PoisonError::into_inner) {
                scan.stop();
            }
            drop(writer.take());
            if FINISHES.load(Ordering::Acquire) {
                done();
            }
            if IS_BRIEF.load(Ordering::Acquire) {
                thread::sleep(GRACE);
                end(&Interruption::by(signal).into());
            }
        }
        // Standard error may be gone; the exit code then has to say it all.
        if count == 2 {
            let _ = writeln!(
                io::stderr(),
                "bedload: undoing what was begun; a third signal ends that"
            );
        }
        if count == PATIENCE {
            end(&Failure::from(Interruption::by(signal))
                .with_note("the third signal, before all was undone: part of what was begun may be left"));
        }
    }
}

/// Ends the process from the thread of the signals.
fn end(failure: &Failure) -> ! {
    let _ = writeln!(io::stderr(), "bedload: {failure}");
    process::exit(i32::from(failure.status() as u8))
}

/// Those of the signals that the process was not told to ignore.
fn not_ignored(signals: &[i32]) -> Vec<i32> {
    // The mask has a bit for each signal, the lowest for signal 1.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_ignored = |signal: i32| mask.unwrap_or(0) & (1 << (signal - 1)) != 0;
    signals
        .iter()
        .copied()
        .filter(|&signal| !is_ignored(signal))
        .collect()
}

/// The signal that asked for the end, if one did.
pub(crate) fn caught() -> Option<Interruption> {
    match CAUGHT.load(Ordering::Acquire) {
        0 => None,
        signal => Some(Interruption::by(signal)),
    }
}

/// The work is done and stays. A later signal only cuts off the report.
pub(crate) fn done() {
    DONE.store(true, Ordering::Release);
}

/// Fails if a signal has asked for the end.
pub(crate) fn check() -> Result<()> {
    caught().map_or(Ok(()), |signal| Err(signal.into()))
}

/// Has the first signal end a scan, and no longer the one before. Its reader calls [`check`] at the
/// end, as the scan then lacks rows.
pub(crate) fn ends(scan: StopHandle) {
    let mut reading = SCAN.lock().unwrap_or_else(PoisonError::into_inner);
    if caught().is_some() {
        scan.stop();
    }
    *reading = Some(scan);
}

/// Waits until `fd` can be read or written without waiting, as `flags` say; an [`Interruption`] if
/// a signal comes first.
pub(crate) fn wait(fd: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
    wait_until(fd, flags, None).map(drop)
}

/// As [`wait`], but no longer than until some moment: then it returns `false`.
pub(crate) fn wait_until(fd: BorrowedFd<'_>, flags: PollFlags, until: Option<Instant>) -> io::Result<bool> {
    let wake = WAKE.get().map(AsFd::as_fd);
    let mut fds = vec![PollFd::from_borrowed_fd(fd, flags)];
    fds.extend(wake.map(|wake| PollFd::from_borrowed_fd(wake, PollFlags::IN)));
    loop {
        if let Some(signal) = caught() {
            return Err(io::Error::other(signal));
        }
        let left = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        match poll(&mut fds, left.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) if !fds[0].revents().is_empty() => return Ok(true),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Waits for the first signal after [`catch`]; returns the failure that ends the command.
pub fn first() -> Failure {
    loop {
        if let Some(signal) = caught() {
            return signal.into();
        }
        let wake = WAKE
            .get()
            .map(|wake| PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = wake.into_iter().collect();
        // Woken by anything else, it asks again.
        let _ = poll(&mut fds, None);
    }
}

/// Waits for some time, or until a signal comes or the reader at the other end of standard output
/// is gone.
pub(crate) fn pause(time: Duration) -> Result<()> {
    let stdout = io::stdout();
    let wake = WAKE.get().map(AsFd::as_fd);
    let mut fds = vec![PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty())];
    fds.extend(wake.map(|wake| PollFd::from_borrowed_fd(wake, PollFlags::IN)));
    match poll(&mut fds, Some(&timespec(time))) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(crate::output::stdout::failure(&error.into())),
    }
    if fds[0].revents().contains(PollFlags::ERR) {
        return Err(crate::output::stdout::failure(&io::ErrorKind::BrokenPipe.into()));
    }
    check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_at_once_is_not_waited_for() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"x").unwrap();
        wait(reader.as_fd(), PollFlags::IN).unwrap();
        drop(writer);
        wait(reader.as_fd(), PollFlags::IN).unwrap();
    }
}
