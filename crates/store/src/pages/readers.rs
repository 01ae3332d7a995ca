//! Readers in other processes, and the checkpoints that they hold. Format: docs/format.md,
//! "Readers".
//!
//! A reader that holds a checkpoint keeps a file, named after the number of the checkpoint, locked.
//! The system releases the lock when the process ends, however it ends: a file without a lock has
//! no owner.
//!
//! Invariants:
//! 1. A reader registers for the newest checkpoint *c*, and then reads the superblocks again. Only
//!    if *c* is still the newest does it hold *c*; otherwise it begins again.
//! 2. A writer looks for registrations after the superblock of each checkpoint is written, and
//!    before anything that this checkpoint replaced becomes free. By rule 1 it finds all that hold
//!    an earlier checkpoint.
//! 3. So the answer stays right until its next checkpoint: a reader that comes later holds the
//!    newest checkpoint, and what waits to become free is in none but earlier ones.
//! 4. If the answer is unknown, every checkpoint counts as held.
//! 5. Readers write nothing else, and a writer waits for none of them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::{Disk, DiskLock};
use crate::error::{Error, Result};

/// How often to try again, with another name or after creating the folder.
const ATTEMPTS: usize = 1000;

/// Registrations of this process so far: each has its own name.
static REGISTRATIONS: AtomicU64 = AtomicU64::new(0);

/// The registrations of a store.
#[derive(Debug, Clone)]
pub(crate) struct Readers {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

/// A checkpoint is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    _lock: Box<dyn DiskLock>,
}

/// The checkpoints that other processes hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Held {
    These(BTreeSet<u64>),
    Unknown,
}

impl Default for Held {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl Held {
    /// The oldest checkpoint that may be held; none if none is.
    pub(super) fn oldest(&self) -> Option<u64> {
        match self {
            Self::These(checkpoints) => checkpoints.first().copied(),
            Self::Unknown => Some(0),
        }
    }

    /// Whether a checkpoint in `born..dead` may be held.
    pub(super) fn holds_in(&self, born: u64, dead: u64) -> bool {
        match self {
            Self::These(checkpoints) => born < dead && checkpoints.range(born..dead).next().is_some(),
            Self::Unknown => born < dead,
        }
    }
}

impl Readers {
    /// The readers that register in the folder `dir`.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self { disk, dir }
    }

    /// Creates the folder, if it is missing, for all who may read the store. The writer does so: a
    /// reader that creates it may be a user whose folder no other can write to, and needs space.
    pub(crate) fn create(&self) {
        if let Err(error) = self.try_create() {
            tracing::debug!(%error, path = %self.dir.display(), "there is no folder for readers");
        }
    }

    fn try_create(&self) -> io::Result<()> {
        let store = self.dir.parent().unwrap_or(&self.dir);
        match self.disk.create_dir_like(&self.dir, store) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Registers this process for a checkpoint; rule 1 says whether it is then held.
    ///
    /// # Errors
    ///
    /// The folder, or a file in it, cannot be created.
    pub(crate) fn register(&self, checkpoint: u64) -> Result<Registration> {
        let failed = |source| Error::io(&self.dir, "register a reader in", source);
        for _ in 0..ATTEMPTS {
            let number = REGISTRATIONS.fetch_add(1, Ordering::Relaxed);
            let name = format!("{checkpoint:016x}.{}.{number}", std::process::id());
            match self.disk.create_locked(&self.dir.join(name)) {
                Ok(lock) => {
                    return Ok(Registration { _lock: lock });
                }
                // No writer has opened the store since it was copied without the folder.
                Err(source) if source.kind() == io::ErrorKind::NotFound => {
                    self.try_create().map_err(failed)?;
                }
                Err(source)
                    if matches!(
                        source.kind(),
                        io::ErrorKind::AlreadyExists | io::ErrorKind::WouldBlock
                    ) => {}
                Err(source) => return Err(failed(source)),
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    /// The checkpoints that are held now. Removes what readers left that died.
    pub(crate) fn held(&self) -> Held {
        let entries = match self.disk.list(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Held::default(),
            Err(error) => {
                tracing::warn!(%error, path = %self.dir.display(), "who reads the store is unknown: no space becomes free");
                return Held::Unknown;
            }
        };
        let mut held = BTreeSet::new();
        for path in entries {
            let Some(checkpoint) = checkpoint_of(&path) else {
                continue;
            };
            // One that cannot be looked at may be locked.
            if self.disk.is_locked(&path).unwrap_or(true) {
                held.insert(checkpoint);
            }
        }
        Held::These(held)
    }

    /// Removes the folder and all registrations, of a store whose files are being removed: a reader
    /// keeps those open that it reads.
    pub(crate) fn remove_all(&self) {
        let entries = self.disk.list(&self.dir).unwrap_or_default();
        for path in entries.iter().filter(|path| checkpoint_of(path).is_some()) {
            if let Err(error) = self.disk.remove(path) {
                tracing::debug!(%error, path = %path.display(), "a reader's file stays");
            }
        }
        if let Err(error) = self.disk.remove_dir(&self.dir) {
            tracing::debug!(%error, path = %self.dir.display(), "the folder of readers stays");
        }
    }
}

/// The checkpoint of a registration; none if the file is no registration.
fn checkpoint_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let (checkpoint, _) = name.split_once('.')?;
    (checkpoint.len() == 16).then(|| u64::from_str_radix(checkpoint, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::OsDisk;

    fn readers(dir: &Path) -> Readers {
        Readers::new(Arc::new(OsDisk), dir.join("readers"))
    }

    #[test]
    fn a_checkpoint_is_held_until_its_registrations_are_dropped() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let readers = readers(dir.path());
        assert_eq!(readers.held(), Held::default());
        let [first, second, third] =
            [7, 7, 9].map(|checkpoint| readers.register(checkpoint).expect("registers"));
        assert_eq!(readers.held(), Held::These([7, 9].into()));
        assert!(readers.held().holds_in(8, 10) && !readers.held().holds_in(8, 9));
        drop(first);
        assert_eq!(readers.held().oldest(), Some(7));
        drop(second);
        assert_eq!(readers.held(), Held::These([9].into()));
        drop(third);
        assert_eq!(readers.held(), Held::default());
        readers.remove_all();
        assert!(!dir.path().join("readers").exists());
    }

    #[test]
    fn a_file_without_a_lock_is_removed_and_other_files_are_left() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let readers = readers(dir.path());
        let held = readers.register(3).expect("registers");
        let [left, other] =
            ["0000000000000002.1.0", "notes"].map(|name| dir.path().join("readers").join(name));
        std::fs::write(&left, "").expect("writes");
        std::fs::write(&other, "").expect("writes");
        assert_eq!(readers.held(), Held::These([3].into()));
        assert!(!left.exists() && other.exists());
        drop(held);
        assert!(other.exists());
    }

    #[test]
    fn what_cannot_be_listed_holds_everything() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("readers"), "no folder").expect("writes");
        let held = readers(dir.path()).held();
        assert_eq!((&held, held.oldest()), (&Held::Unknown, Some(0)));
        assert!(held.holds_in(5, 6));
    }
}
