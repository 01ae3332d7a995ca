//! The process that opened a store. One that inherits the store through `fork` shares its files,
//! and knows nothing of what the other does with them: it may neither write, nor end what threads
//! of the other began.

use std::path::Path;

use crate::error::{Error, Result};

/// A process, by the number that the system has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// This one.
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    /// Whether this process is not the one that opened the store, but descends from it.
    pub(crate) fn is_inherited(self) -> bool {
        self != Self::current()
    }

    /// Fails in a process that inherited the store in `dir`.
    pub(crate) fn check(self, dir: &Path) -> Result<()> {
        if self.is_inherited() {
            return Err(Error::Inherited {
                path: dir.into(),
                opened_by: self.0,
            });
        }
        Ok(())
    }
}
