//! The disk of the operating system. No other module of the project opens a data file.

mod file;
mod lock;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub(crate) use file::DIRECT_ALIGNMENT;
#[cfg(feature = "file-pages")]
use file::DirectFile;
use file::OsFile;
use lock::{OsLock, OsNamedLock, lock_exclusively};

use super::{Disk, DiskDir, DiskFile, DiskLock, FileId, Irregular};

#[derive(Debug)]
pub(crate) struct OsDisk;

/// A lock file has a line of some thirty bytes; what is longer is something else, and is not
/// written over.
const LOCK_BYTES_MAX: u64 = 128;

/// Opens an existing regular file, and never follows a link: a store may come from anyone.
fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Without blocking: opening a pipe would wait for its other end.
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => Irregular {
            found: "a symbolic link",
        }
        .into(),
        // A socket, or a pipe or device without a peer.
        Some(libc::ENXIO | libc::ENODEV) => Irregular {
            found: "no regular file",
        }
        .into(),
        Some(libc::EISDIR) => Irregular { found: "a directory" }.into(),
        _ => error,
    })?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(Irregular {
            found: "no regular file",
        }
        .into())
    }
}

fn id_of(metadata: &fs::Metadata) -> FileId {
    FileId {
        device: metadata.dev(),
        inode: metadata.ino(),
    }
}

#[cfg(feature = "file-pages")]
impl OsDisk {
    /// Creates a file that is read and written past the system's cache. Offsets and lengths must be
    /// multiples of 4,096.
    pub(crate) fn create_direct(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(target_os = "linux")]
        options.custom_flags(libc::O_DIRECT);
        Ok(Box::new(DirectFile::new(options.open(path)?)))
    }
}

#[derive(Debug)]
struct OsDir(File);

impl DiskDir for OsDir {
    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

impl Disk for OsDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn create_dir_like(&self, path: &Path, model: &Path) -> io::Result<()> {
        // `model` may be protected from its owner, who is to fill the new directory.
        let mode = fs::metadata(model)?.permissions().mode() | 0o700;
        let mut builder = fs::DirBuilder::new();
        // Closed to other users at first, so that it is at no moment more open than `model`.
        builder.mode(mode & 0o700);
        builder.create(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        Ok(Box::new(OsFile::new(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = open_regular(path, OpenOptions::new().read(true).write(true))?;
        Ok(Box::new(OsFile::new(file)))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = open_regular(path, OpenOptions::new().read(true))?;
        Ok(Box::new(OsFile::new(file)))
    }

    fn check_dir(&self, path: &Path) -> io::Result<()> {
        let found = fs::symlink_metadata(path)?;
        if found.is_dir() {
            Ok(())
        } else if found.is_symlink() {
            Err(Irregular {
                found: "a symbolic link",
            }
            .into())
        } else {
            Err(Irregular {
                found: "no directory",
            }
            .into())
        }
    }

    fn identity(&self, path: &Path) -> io::Result<Option<FileId>> {
        match fs::symlink_metadata(path) {
            Ok(found) => Ok(Some(id_of(&found))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<bool> {
        match fs::remove_dir(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskDir>> {
        Ok(Box::new(OsDir(File::open(path)?)))
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn DiskLock>> {
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let mut file = open_regular(path, &mut options)?;
            let found = file.metadata()?;
            if found.len() > LOCK_BYTES_MAX {
                return Err(Irregular {
                    found: "a file of another kind",
                }
                .into());
            }
            lock_exclusively(&file)?;
            // Its last holder may have removed it between the two calls: a lock on a file without a
            // name excludes no process.
            if self.identity(path)? != Some(id_of(&found)) {
                continue;
            }
            // The text only informs the next opener, and a full disk must not keep a store from
            // being opened; the lock itself is the kernel's and ends with the process. A file that
            // has another name, too, may belong to another program.
            if found.nlink() > 1 {
                tracing::warn!(path = %path.display(), "the lock file has several names, and is not written to");
            } else if let Err(error) = file.set_len(0).and_then(|()| file.write_all(holder.as_bytes())) {
                tracing::debug!(%error, "the lock file does not say who holds it");
            }
            return Ok(Box::new(OsLock::of(file)));
        }
    }

    fn lock_file(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let file = open_regular(path, OpenOptions::new().read(true).write(true))?;
        lock_exclusively(&file)?;
        Ok(Box::new(OsLock::of(file)))
    }

    fn share_file(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let file = open_regular(path, OpenOptions::new().read(true))?;
        match file.try_lock_shared() {
            Ok(()) => Ok(Box::new(OsLock::of(file))),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn create_locked(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        // A process of another user must be able to open it, to see whether it is locked.
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        lock_exclusively(&file)?;
        let id = id_of(&file.metadata()?);
        if self.identity(path)? != Some(id) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(OsNamedLock::of(file, path.into(), id)))
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        let file = match open_regular(path, OpenOptions::new().read(true)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        match lock_exclusively(&file) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
            Ok(()) => {
                if let Err(error) = fs::remove_file(path) {
                    tracing::debug!(%error, path = %path.display(), "a file that a process left behind stays");
                }
                Ok(false)
            }
        }
    }

    fn lock_holder(&self, path: &Path) -> String {
        let mut bytes = Vec::new();
        let read = open_regular(path, OpenOptions::new().read(true))
            .and_then(|file| file.take(LOCK_BYTES_MAX).read_to_end(&mut bytes));
        read.map(|_| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}
