//! The process that opened a store. One that inherits the store through `fork` shares its files,
//! but does not see what the opener does with them: it may neither write nor finish what the
//! opener's threads began.

use std::path::Path;
#[cfg(all(target_os = "linux", not(miri)))]
use std::sync::OnceLock;
#[cfg(all(target_os = "linux", not(miri)))]
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};

/// A process, by the number that the system has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// This one.
    pub(crate) fn current() -> Self {
        Self(id())
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

/// The number of this process. Each commit asks for it, so it is kept in memory that `fork` wipes
/// in the child; a system call would be a twentieth of the commit of a row.
#[cfg(all(target_os = "linux", not(miri)))]
fn id() -> u32 {
    static KEPT: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    let Some(kept) = KEPT.get_or_init(wiped_by_fork) else {
        return std::process::id();
    };
    match kept.load(Ordering::Relaxed) {
        0 => {
            let id = std::process::id();
            kept.store(id, Ordering::Relaxed);
            id
        }
        id => id,
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn id() -> u32 {
    std::process::id()
}

/// A zero that is zero again in each child of the process, whatever the parent stored there; `None`
/// if the system cannot do that (Linux before 4.14).
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "no crate has a safe call for such memory")]
fn wiped_by_fork() -> Option<&'static AtomicU32> {
    use std::ptr::null_mut;
    /// A page, or a part of one.
    const BYTES: usize = 4096;
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: the system chooses the address, so no memory in use is replaced.
    let page = unsafe { libc::mmap(null_mut(), BYTES, access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page was mapped above, and nothing else knows it.
    if unsafe { libc::madvise(page, BYTES, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: as before, and it is not used after this.
        unsafe { libc::munmap(page, BYTES) };
        return None;
    }
    // SAFETY: the page is aligned, reads as zeros, stays mapped as long as the process lives, and
    // is accessed as this atomic alone. A wipe happens in a child that has one thread yet.
    Some(unsafe { &*page.cast::<AtomicU32>() })
}

#[cfg(test)]
mod tests {
    use super::Process;

    #[test]
    fn a_process_is_known_by_its_number() {
        let this = Process::current();
        assert_eq!(this.0, std::process::id());
        assert!(!this.is_inherited());
        let other = Process(std::process::id().wrapping_add(1));
        assert!(other.is_inherited());
    }
}
