//! Paths that lead to open descriptors: `/dev/stdout` and the like, and files that standard output
//! is redirected to.
//!
//! Their files are not to be replaced: what was written before would be lost, and what the holder
//! of the descriptor writes later would go to the old file.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl};

use super::destination::LINKS_MAX;

/// Whose entries are the descriptors of this process.
const FOLDERS: [&str; 2] = ["/dev/fd", "/proc/self/fd"];

/// The descriptor that `path` leads to, duplicated: writes to it go on where others have stopped.
/// `None` if it leads elsewhere.
///
/// # Errors
///
/// The descriptor is not open, or the system does not duplicate it.
pub(super) fn find(path: &Path) -> io::Result<Option<File>> {
    if let Some(number) = number(path) {
        return match standard(number) {
            Some(duplicate) => duplicate.map(|fd| Some(fd.into())),
            None => inherited(number, path).map(Some),
        };
    }
    let Ok(sought) = fs::metadata(path) else {
        return Ok(None);
    };
    if !sought.is_file() {
        return Ok(None);
    }
    for number in 0..=2 {
        let Some(Ok(duplicate)) = standard(number) else {
            continue;
        };
        let file = File::from(duplicate);
        let is_sought = |found: fs::Metadata| (found.dev(), found.ino()) == (sought.dev(), sought.ino());
        if file.metadata().is_ok_and(is_sought) && is_writable(&file) {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// The number of the descriptor that `path` names, itself or through links.
fn number(path: &Path) -> Option<i32> {
    let folders = FOLDERS.map(fs::canonicalize);
    let is_folder = |folder: &Path| {
        let folder = fs::canonicalize(folder);
        folder.is_ok_and(|folder| folders.iter().flatten().any(|of_process| *of_process == folder))
    };
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let folder = path.parent()?;
        if is_folder(folder) {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = folder.join(fs::read_link(&path).ok()?);
    }
    None
}

/// A duplicate of standard input, output or error.
fn standard(number: i32) -> Option<io::Result<OwnedFd>> {
    match number {
        0 => Some(io::stdin().as_fd().try_clone_to_owned()),
        1 => Some(io::stdout().as_fd().try_clone_to_owned()),
        2 => Some(io::stderr().as_fd().try_clone_to_owned()),
        _ => None,
    }
}

/// A duplicate of another descriptor with which the process began.
#[cfg(target_os = "linux")]
fn inherited(number: i32, path: &Path) -> io::Result<File> {
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

    // The files of the store are closed when another program is executed, inherited ones are not.
    let is_inherited = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).is_ok_and(|info| {
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & OFlags::CLOEXEC.bits() == 0)
    });
    if !is_inherited {
        return Err(Errno::BADF.into());
    }
    // Opened again, a file would be written from its beginning.
    if fs::metadata(path)?.is_file() {
        let process = pidfd_open(getpid(), PidfdFlags::empty())?;
        return Ok(pidfd_getfd(process, number, PidfdGetfdFlags::empty())?.into());
    }
    File::options().write(true).open(path)
}

/// A duplicate of another descriptor, which these systems make when it is opened.
#[cfg(not(target_os = "linux"))]
fn inherited(_number: i32, path: &Path) -> io::Result<File> {
    File::options().write(true).open(path)
}

fn is_writable(file: &File) -> bool {
    fcntl_getfl(file).is_ok_and(|flags| flags & OFlags::ACCMODE != OFlags::RDONLY)
}
