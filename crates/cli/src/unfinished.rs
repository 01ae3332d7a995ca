//! Files and directories that are made under another name, and take their own when they are whole.
//!
//! The temporary name is `NAME.unfinished-` and six letters, next to the final one. It is removed
//! if the command fails or a signal ends it; what `kill -9` leaves can be recognised by it.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use bedload::Error;
use tempfile::{NamedTempFile, TempDir};

use crate::exit::{Failure, Result, Status};
use crate::interrupt;

/// How often a step of which the store is in charge is asked whether it has ended, and a signal
/// whether it came.
const LOOKED_AFTER: Duration = Duration::from_millis(10);

/// Note for a sync that failed when all else was done.
const STAYS: &str = "what is done stays, but a loss of power may undo it";

/// Note for a failure after [`store`] has made a copy.
pub(crate) const COPY_STAYS: &str = "the copy is complete and stays";

/// The entry of a store's directory without which it is no store.
const DATA_FILE: &str = "data";

/// A new file that is to stand at `path`. It has the permissions of the file that it replaces
/// before a byte is written.
pub(crate) fn file(path: &Path) -> io::Result<NamedTempFile> {
    let (parent, prefix) = beside(path)?;
    let replaced = match fs::metadata(path) {
        Ok(replaced) => Some(replaced),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    // Before the umask. The mode is that of any new file if none is replaced.
    let mode = if replaced.is_some() { 0o600 } else { 0o666 };
    let file = tempfile::Builder::new()
        .prefix(&prefix)
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(parent)?;
    if let Some(replaced) = replaced {
        take_after(file.as_file(), &replaced)?;
    }
    Ok(file)
}

/// Gives a file the permissions of the one that it replaces, and its owner as far as that is
/// permitted.
fn take_after(file: &File, replaced: &Metadata) -> io::Result<()> {
    let (owner, group) = (Some(replaced.uid()), Some(replaced.gid()));
    // Only a privileged process may change the owner; others may choose among their groups.
    let has_group = fchown(file, owner, group).is_ok() || fchown(file, None, group).is_ok();
    let mode = replaced.mode() & 0o777;
    let mode = if has_group { mode } else { for_another_group(mode) };
    file.set_permissions(Permissions::from_mode(mode))
}

/// A mode whose group gets no more than all others: its members could not read the replaced file.
fn for_another_group(mode: u32) -> u32 {
    mode & (0o707 | (mode & 0o007) << 3)
}

/// Gives a file from [`file`] its name, durably: rows may be deleted from the store once they are
/// in the file.
pub(crate) fn persist(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    // Opened first: once the file has its name, nothing but the sync itself can fail.
    let parent = File::open(beside(path)?.0)?;
    file.persist(path).map_err(|error| error.error)?;
    parent.sync_all().map_err(|error| {
        let words = crate::exit::plain(&error);
        let text = format!("{words}; the file is whole, and {STAYS}");
        io::Error::new(error.kind(), text)
    })
}

/// Where to make what is to stand at `path`, and how its name begins.
fn beside(path: &Path) -> io::Result<(&Path, String)> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok((parent, format!("{}.unfinished-", name.display())))
}

/// Makes a store at `path`, where only an empty directory may exist. `make` gets the path at which
/// to make it.
///
/// A signal does not wait for `make`: what that has made is taken away from it.
pub(crate) fn store<T: Send + 'static>(
    path: &Path,
    make: impl FnOnce(&Path) -> bedload::Result<T> + Send + 'static,
) -> Result<T> {
    interrupt::catch()?;
    let unfinished = Unfinished::begin(path)?;
    let (sender, receiver) = channel();
    let place = unfinished.place();
    let failed = |error: io::Error| Failure::new(Status::Io, format!("cannot start a thread: {error}"));
    thread::Builder::new()
        .spawn(move || sender.send(make(&place)))
        .map_err(failed)?;
    let made = loop {
        match receiver.recv_timeout(LOOKED_AFTER) {
            Ok(made) => break made?,
            Err(RecvTimeoutError::Timeout) => {}
            // The panic has been printed.
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(Status::Io, "the copy ended without a result"));
            }
        }
        if let Some(signal) = interrupt::caught() {
            return Err(unfinished.take_away(signal.into()));
        }
    };
    interrupt::check()?;
    unfinished.finish()?;
    interrupt::done();
    Ok(made)
}

/// A directory that is being filled.
struct Unfinished {
    dir: TempDir,
    path: PathBuf,
    /// Whether `path` is an existing directory, within which `dir` then lies: it may be a mount
    /// point.
    is_within: bool,
}

impl Unfinished {
    fn begin(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| Failure::io(path, &error);
        let entries = match fs::read_dir(path) {
            Ok(mut entries) => Some(entries.next().is_some()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Some(true),
            Err(error) => return Err(failed(error)),
        };
        if entries == Some(true) {
            return Err(Error::AlreadyExists { path: path.into() }.into());
        }
        let is_within = entries.is_some();
        let (parent, prefix) = if is_within {
            (path, "unfinished-".to_owned())
        } else {
            beside(path).map_err(failed)?
        };
        let dir = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(parent)
            .map_err(failed)?;
        Ok(Self {
            dir,
            path: path.to_owned(),
            is_within,
        })
    }

    /// Where the store is to be made: in a directory of its own, so that it cannot be begun again
    /// when that is taken away.
    fn place(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn finish(self) -> Result<()> {
        let (from, to) = (self.place(), &self.path);
        let failed = |error: io::Error| Failure::io(to, &error);
        let parent = if self.is_within {
            to.as_path()
        } else {
            beside(to).map_err(failed)?.0
        };
        // Opened first: once the store stands in its place, nothing but the sync itself can fail.
        let parent = File::open(parent).map_err(failed)?;
        let moved = if self.is_within {
            move_entries(&from, to)
        } else {
            fs::rename(&from, to)
        };
        moved.map_err(failed)?;
        parent
            .sync_all()
            .map_err(|error| failed(error).with_note(&format!("the copy is whole, and {STAYS}")))
    }

    /// Removes the directory, although the thread that fills it goes on: under another name, which
    /// that does not know.
    fn take_away(self, failure: Failure) -> Failure {
        let mut name = self.dir.path().as_os_str().to_owned();
        name.push("-removed");
        let removed = fs::rename(self.dir.path(), &name).and_then(|()| fs::remove_dir_all(&name));
        match removed {
            Ok(()) => failure,
            Err(error) => failure.with_note(&format!(
                "and {} could not be removed: {error}",
                Path::new(&name).display()
            )),
        }
    }
}

/// Moves the files of a store to another directory: the one last without which it is none. A
/// failure moves them back.
fn move_entries(from: &Path, to: &Path) -> io::Result<()> {
    let entries = fs::read_dir(from)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<Vec<_>>>()?;
    let (last, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|name| name == DATA_FILE);
    let mut moved = Vec::new();
    for name in others.into_iter().chain(last) {
        if let Err(error) = fs::rename(from.join(&name), to.join(&name)) {
            for name in moved {
                // A file that cannot be moved back stays: without the data file it is no store.
                let _ = fs::rename(to.join(&name), from.join(&name));
            }
            return Err(error);
        }
        moved.push(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_group_gets_no_more_than_others() {
        for (mode, expected) in [(0o640, 0o600), (0o664, 0o644), (0o777, 0o777), (0o604, 0o604)] {
            assert_eq!(for_another_group(mode), expected, "{mode:o}");
        }
    }
}
