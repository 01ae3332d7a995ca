//! The process that opened a store.

use std::path::{Path, PathBuf};

/// The process that opened a store. Its forked children have copies of the locks and none of the
/// threads that hold them, so this is asked before a lock is taken.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    path: PathBuf,
    id: u32,
}

impl Process {
    /// The present process, which has opened the store at `path`.
    pub(crate) fn opened(path: PathBuf) -> Self {
        Self {
            path,
            id: std::process::id(),
        }
    }

    /// The store's directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the caller is in a forked child.
    pub(crate) fn is_inherited(&self) -> bool {
        self.id != std::process::id()
    }

    /// Fails in a forked child.
    pub(crate) fn check(&self) -> bedload::Result<()> {
        if !self.is_inherited() {
            return Ok(());
        }
        Err(bedload::Error::Inherited {
            path: self.path.clone(),
            opened_by: self.id,
        })
    }
}
