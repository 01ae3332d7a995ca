//! The lock file: who has a store open. Format: docs/format.md, "Directory".

use std::path::Path;

use super::names::{DATA_FILE, LOCK_FILE};
use crate::disk::{Disk, DiskLock};
use crate::error::{Error, Result};

/// The lock of a store: of its lock file, and of its data file once there is one. The data file is
/// what tells two stores apart; a lock file can be removed while it is held.
#[derive(Debug, Default)]
pub(super) struct StoreLock {
    file: Option<Box<dyn DiskLock>>,
    data: Option<Box<dyn DiskLock>>,
}

/// Takes the lock of the store in `dir`, which is held until the value is dropped. Nothing is
/// written before the data file is known to be unlocked.
pub(super) fn lock(disk: &dyn Disk, dir: &Path) -> Result<StoreLock> {
    let path = dir.join(LOCK_FILE);
    let data = dir.join(DATA_FILE);
    let has_data = disk
        .identity(&data)
        .map_err(|source| Error::io(&data, "read", source))?;
    let data = has_data.map(|_| lock_file(disk, dir, &data)).transpose()?;
    let file = disk
        .lock(&path, &encode(std::process::id()))
        .map_err(|source| refused(disk, dir, &path, source))?;
    Ok(StoreLock {
        file: Some(file),
        data,
    })
}

impl StoreLock {
    /// Shares the data file of the store in `dir` with other readers, and with no writer.
    pub(super) fn shared(disk: &dyn Disk, dir: &Path, data: &Path) -> Result<Self> {
        let shared = disk
            .share_file(data)
            .map_err(|source| refused(disk, dir, data, source))?;
        Ok(Self {
            file: None,
            data: Some(shared),
        })
    }

    /// Locks the data file, if it is not locked yet. `path` is its present name; it may be renamed.
    pub(super) fn add_data(&mut self, disk: &dyn Disk, dir: &Path, path: &Path) -> Result<()> {
        if self.data.is_none() {
            self.data = Some(lock_file(disk, dir, path)?);
        }
        Ok(())
    }

    /// Releases the data file, which is removed and replaced by another.
    pub(super) fn release_data(&mut self) {
        self.data = None;
    }

    /// Releases the lock. If this process inherited it, the process that took it keeps it.
    pub(super) fn release(&mut self) {
        self.data = None;
        self.file = None;
    }
}

fn lock_file(disk: &dyn Disk, dir: &Path, path: &Path) -> Result<Box<dyn DiskLock>> {
    disk.lock_file(path).map_err(|source| {
        if source.kind() == std::io::ErrorKind::WouldBlock && disk.share_file(path).is_ok() {
            return Error::Locked {
                path: dir.into(),
                holder:
                    "a reader that could create no file in the store's folder `readers`, or a process that \
                         checks, salvages or restores it"
                        .into(),
            };
        }
        refused(disk, dir, path, source)
    })
}

fn refused(disk: &dyn Disk, dir: &Path, path: &Path, source: std::io::Error) -> Error {
    if source.kind() != std::io::ErrorKind::WouldBlock {
        return Error::io(path, "lock", source);
    }
    let holder = decode(&disk.lock_holder(&dir.join(LOCK_FILE)));
    Error::Locked {
        path: dir.into(),
        holder: holder.map_or("another process".into(), |pid| format!("process {pid}")),
    }
}

fn encode(pid: u32) -> String {
    let text = format!("process {pid}");
    format!("{text} crc32c {:08x}\n", crc32c::crc32c(text.as_bytes()))
}

/// The process that the text of a lock file names; none if the text is damaged, or is being
/// written.
pub(crate) fn decode(text: &str) -> Option<u32> {
    let pid = text.strip_prefix("process ")?.split(' ').next()?.parse().ok()?;
    (encode(pid) == text).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_text_names_no_process() {
        let text = encode(4711);
        assert_eq!(decode(&text), Some(4711));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(decode(&String::from_utf8_lossy(&bytes)), None, "byte {at}");
            assert_eq!(decode(&text[..at]), None, "{at} bytes");
        }
    }
}
