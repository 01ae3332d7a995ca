//! Tracks whether one writer inserts all keys of a class: then position is order, and no stamp is
//! needed.
//!
//! The last bits of a key, below the time, usually identify its series, which one thread usually
//! inserts. So keys are classed by their last bits.
//!
//! ```text
//!   nobody ──▶ a writer ──▶ shared
//!      ▲                      │
//!      └── between segments ──┘
//! ```
//!
//! # Rules
//!
//! 1. While a segment is open, a class moves from left to right. It moves back when no log is open.
//! 2. A writer that finds a class to be its own inserts without a stamp; one that makes it shared,
//!    or finds it shared, draws a stamp afterwards. So of a segment's entries of one key those
//!    without a stamp are from one writer. They count as older: when their writer found the class
//!    to be its own, no writer that draws stamps for it had inserted yet.
//! 3. An insert that is too late for its segment may still claim or share a class. It costs only
//!    stamps.

use crate::search::columns::Words;
use crate::sync::primitive::{AtomicU32, Ordering};

/// Classes of keys. Few under test, so that most are shared, or change hands, and some do not.
pub(crate) const CLASSES: usize = if cfg!(loom) {
    1
} else if cfg!(any(test, miri)) {
    4
} else {
    1024
};
const NOBODY: u32 = u32::MAX;
const SHARED: u32 = NOBODY - 1;

/// Returns the class of a key.
#[inline]
pub(crate) fn class_of<W: Words>(key: &W) -> usize {
    usize::try_from(key.last_word() % CLASSES as u64).unwrap_or(0)
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Owners(Box<[AtomicU32]>);

impl Owners {
    pub(crate) fn new() -> Self {
        Self((0..CLASSES).map(|_| AtomicU32::new(NOBODY)).collect())
    }

    /// Returns whether the writer is the only one of a key's class in the open segment.
    #[inline]
    pub(crate) fn is_sole<W: Words>(&self, writer: usize, key: &W) -> bool {
        let class = &self.0[class_of(key)];
        let owner = class.load(Ordering::Acquire);
        owner as usize == writer || (owner != SHARED && Self::claim(class, owner, writer))
    }

    /// Assigns a class without a writer to this one; otherwise makes it shared.
    #[cold]
    fn claim(class: &AtomicU32, mut owner: u32, writer: usize) -> bool {
        loop {
            let next = match owner {
                NOBODY => u32::try_from(writer).unwrap_or(SHARED),
                SHARED => return false,
                own if own as usize == writer => return true,
                _ => SHARED,
            };
            match class.compare_exchange(owner, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return next as usize == writer,
                Err(other) => owner = other,
            }
        }
    }

    /// Resets shared classes, for series that have moved from one thread to another. No log may be
    /// open.
    pub(crate) fn forget_shared(&self) {
        for class in &self.0 {
            if class.load(Ordering::Relaxed) == SHARED {
                class.store(NOBODY, Ordering::Release);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_one_writers_until_another_comes() {
        let owners = Owners::new();
        let classes = CLASSES as u64;
        assert!(owners.is_sole(3, &[1]) && owners.is_sole(3, &[1 + classes]) && owners.is_sole(4, &[2]));
        assert!(!owners.is_sole(4, &[1]));
        assert!(!owners.is_sole(3, &[1]) && !owners.is_sole(4, &[1 + classes]));
        assert!(owners.is_sole(4, &[2]));
        owners.forget_shared();
        assert!(owners.is_sole(4, &[1]) && !owners.is_sole(3, &[2]));
    }
}
