//! Runs the command under ptrace and lets one of its system calls fail.
//!
//! The fault is injected below every library, so calls that bypass libc are reached as well. Only
//! calls that concern files in the working directory of the command count: the dynamic loader and
//! the standard streams are left alone.

#![expect(unsafe_code, reason = "a process asks to be traced between fork and exec")]

use std::collections::HashMap;
use std::fs::{File, read_link};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::outcome::text_of;

/// A run that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Kinds of system calls that touch files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Call {
    Open,
    Read,
    Write,
    Sync,
    Rename,
    Remove,
    Truncate,
    Allocate,
    MakeDirectory,
    List,
}

/// How a system call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It returns this error and does nothing.
    Error(Errno),
    /// It reads or writes half of what it was asked to.
    Short,
    /// It and every later call that needs space return `ENOSPC`.
    Full,
}

/// How a traced run ended.
#[derive(Debug)]
pub(super) struct Traced {
    /// The exit code; `None` if a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) stderr: String,
    /// The calls that touched files, in order.
    pub(super) calls: Vec<Call>,
    /// Whether it was killed because it did not end.
    pub(super) hung: bool,
}

/// Runs a command in `dir`, and lets the call number `at` fail.
pub(super) fn run(command: &mut Command, dir: &Path, fault: Option<(usize, Fault)>) -> Traced {
    // A file and not a pipe: nobody would read a pipe while this thread follows the process.
    let messages = tempfile::tempfile().unwrap();
    command
        .stdout(Stdio::null())
        .stderr(messages.try_clone().unwrap());
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(|| ptrace::traceme().map_err(io::Error::from));
    }
    let child = command.spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let (ended, watch) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let hung = watch.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout);
        if hung {
            let _ = kill(pid, Signal::SIGKILL);
        }
        hung
    });
    let mut tracer = Tracer {
        pid,
        dir: dir.canonicalize().unwrap(),
        fault,
        calls: Vec::new(),
        inside: HashMap::new(),
    };
    let code = tracer.follow();
    let _ = ended.send(());
    let hung = watchdog.join().unwrap();
    // The process has been waited for above, so there is nothing left for the standard library to
    // do.
    drop(child);
    Traced {
        code,
        stderr: text_of(messages),
        calls: tracer.calls,
        hung,
    }
}

struct Tracer {
    pid: Pid,
    dir: PathBuf,
    fault: Option<(usize, Fault)>,
    calls: Vec<Call>,
    /// Threads between entering and leaving a call, with the result that replaces the call's own.
    inside: HashMap<Pid, Option<Errno>>,
}

impl Tracer {
    /// Follows the process to its end, and returns its exit code.
    fn follow(&mut self) -> Option<i32> {
        // The first stop is that of `exec`.
        waitpid(self.pid, None).unwrap();
        let options = ptrace::Options::PTRACE_O_TRACESYSGOOD
            | ptrace::Options::PTRACE_O_TRACECLONE
            | ptrace::Options::PTRACE_O_EXITKILL;
        ptrace::setoptions(self.pid, options).unwrap();
        let _ = ptrace::syscall(self.pid, None);
        loop {
            // Other tests of this process have children of their own, in other threads.
            let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
            let (stopped, signal) = match waitpid(None, Some(flags)).unwrap() {
                WaitStatus::Exited(pid, code) if pid == self.pid => return Some(code),
                WaitStatus::Signaled(pid, ..) if pid == self.pid => return None,
                WaitStatus::PtraceSyscall(pid) => {
                    // A thread that dies meanwhile cannot be asked any more.
                    let _ = self.at_call(pid);
                    (pid, None)
                }
                // New threads begin with this stop.
                WaitStatus::Stopped(pid, Signal::SIGSTOP) | WaitStatus::PtraceEvent(pid, ..) => (pid, None),
                WaitStatus::Stopped(pid, signal) => (pid, Some(signal)),
                _ => continue,
            };
            let _ = ptrace::syscall(stopped, signal);
        }
    }

    /// A thread enters or leaves a system call.
    fn at_call(&mut self, thread: Pid) -> nix::Result<()> {
        if let Some(result) = self.inside.remove(&thread) {
            if let Some(errno) = result {
                let mut registers = ptrace::getregs(thread)?;
                registers.rax = (-i64::from(errno as i32)).cast_unsigned();
                ptrace::setregs(thread, registers)?;
            }
            return Ok(());
        }
        let mut registers = ptrace::getregs(thread)?;
        let mut replaced = None;
        if let Some(call) = self.call_on_files(thread, &registers) {
            match self.fault {
                Some((at, fault))
                    if at == self.calls.len() || (fault == Fault::Full && at < self.calls.len()) =>
                {
                    match fault {
                        Fault::Short => registers.rdx = (registers.rdx / 2).max(1),
                        Fault::Error(errno) => replaced = Some(errno),
                        Fault::Full if needs_space(call) => replaced = Some(Errno::ENOSPC),
                        Fault::Full => {}
                    }
                    if replaced.is_some() {
                        // No call has this number, so the kernel does nothing.
                        registers.orig_rax = u64::MAX;
                    }
                    ptrace::setregs(thread, registers)?;
                }
                _ => {}
            }
            self.calls.push(call);
        }
        self.inside.insert(thread, replaced);
        Ok(())
    }

    /// The kind of the call, if it concerns a file in the working directory.
    fn call_on_files(&self, thread: Pid, registers: &libc::user_regs_struct) -> Option<Call> {
        let (call, names) = kind(registers)?;
        let is_ours = match names {
            Names::Descriptor(descriptor) => {
                let link = read_link(format!("/proc/{}/fd/{descriptor}", self.pid)).ok()?;
                link.starts_with(&self.dir)
            }
            Names::Path(address) => {
                let path = self.path_at(thread, address)?;
                path.is_relative() || path.starts_with(&self.dir)
            }
        };
        is_ours.then_some(call)
    }

    fn path_at(&self, thread: Pid, address: u64) -> Option<PathBuf> {
        let mut bytes = [0; 512];
        let memory = File::open(format!("/proc/{thread}/mem")).ok()?;
        let read = memory.read_at(&mut bytes, address).ok()?;
        let end = bytes[..read].iter().position(|&byte| byte == 0)?;
        Some(PathBuf::from(std::str::from_utf8(&bytes[..end]).ok()?))
    }
}

/// How a call names its file.
enum Names {
    Descriptor(u64),
    Path(u64),
}

fn kind(registers: &libc::user_regs_struct) -> Option<(Call, Names)> {
    let (first, second) = (registers.rdi, registers.rsi);
    let call = match i64::try_from(registers.orig_rax).ok()? {
        libc::SYS_open => (Call::Open, Names::Path(first)),
        libc::SYS_openat => (Call::Open, Names::Path(second)),
        libc::SYS_read | libc::SYS_pread64 => (Call::Read, Names::Descriptor(first)),
        libc::SYS_write | libc::SYS_pwrite64 => (Call::Write, Names::Descriptor(first)),
        libc::SYS_fsync | libc::SYS_fdatasync => (Call::Sync, Names::Descriptor(first)),
        libc::SYS_rename => (Call::Rename, Names::Path(first)),
        libc::SYS_renameat | libc::SYS_renameat2 => (Call::Rename, Names::Path(second)),
        libc::SYS_unlink | libc::SYS_rmdir => (Call::Remove, Names::Path(first)),
        libc::SYS_unlinkat => (Call::Remove, Names::Path(second)),
        libc::SYS_ftruncate => (Call::Truncate, Names::Descriptor(first)),
        libc::SYS_fallocate => (Call::Allocate, Names::Descriptor(first)),
        libc::SYS_mkdir => (Call::MakeDirectory, Names::Path(first)),
        libc::SYS_mkdirat => (Call::MakeDirectory, Names::Path(second)),
        libc::SYS_getdents64 => (Call::List, Names::Descriptor(first)),
        _ => return None,
    };
    Some(call)
}

fn needs_space(call: Call) -> bool {
    matches!(
        call,
        Call::Write | Call::Allocate | Call::MakeDirectory | Call::Truncate
    )
}
