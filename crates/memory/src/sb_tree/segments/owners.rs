//! Tracks whether one writer inserts all keys of a class: then position is order, and no stamp is
//! needed.
//!
//! The last bits of a key, below the time, usually identify its series, which one thread usually
//! inserts. So keys are classed by their last bits, whatever their length.
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

/// Returns the class of a key whose last word ends with this many bits that are no part of it.
#[inline]
pub(crate) fn class_of<W: Words>(key: &W, padding_bits: u32) -> usize {
    usize::try_from((key.last_word() >> padding_bits) % CLASSES as u64).unwrap_or(0)
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Owners {
    classes: Box<[AtomicU32]>,
    padding_bits: u32,
}

impl Owners {
    /// Creates classes without writers, for keys with this [padding](class_of).
    pub(crate) fn new(padding_bits: u32) -> Self {
        Self {
            classes: (0..CLASSES).map(|_| AtomicU32::new(NOBODY)).collect(),
            padding_bits,
        }
    }

    /// Returns whether the writer is the only one of a key's class in the open segment.
    #[inline]
    pub(crate) fn is_sole<W: Words>(&self, writer: usize, key: &W) -> bool {
        let class = &self.classes[class_of(key, self.padding_bits)];
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
        for class in &self.classes {
            if class.load(Ordering::Relaxed) == SHARED {
                class.store(NOBODY, Ordering::Release);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::map::key::Key;

    fn has_classes_by_its_end<K: Key>(key: impl Fn(u8) -> K) {
        let class = |end| class_of(&key(end).to_words(), K::PADDING_BITS);
        assert_eq!([0, 1, 2, 3].map(class), [0, 1, 2, 3], "{:?}", key(0));
    }

    #[test]
    fn keys_of_any_length_have_classes_by_their_last_bits() {
        has_classes_by_its_end(|end| 4096 + u64::from(end));
        has_classes_by_its_end(|end| 4096 + i64::from(end));
        has_classes_by_its_end(|end| [end]);
        has_classes_by_its_end(|end| [7, 7, 7, end]);
        has_classes_by_its_end(|end| [7, 7, 7, 7, 7, 7, 7, end]);
        has_classes_by_its_end(|end| [7, 7, 7, 7, 7, 7, 7, 7, end]);
        has_classes_by_its_end(|end| [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, end]);
        has_classes_by_its_end(|end| [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, end]);
    }

    #[test]
    fn a_class_is_one_writers_until_another_comes() {
        let owners = Owners::new(0);
        let classes = CLASSES as u64;
        assert!(owners.is_sole(3, &[1]) && owners.is_sole(3, &[1 + classes]) && owners.is_sole(4, &[2]));
        assert!(!owners.is_sole(4, &[1]));
        assert!(!owners.is_sole(3, &[1]) && !owners.is_sole(4, &[1 + classes]));
        assert!(owners.is_sole(4, &[2]));
        owners.forget_shared();
        assert!(owners.is_sole(4, &[1]) && !owners.is_sole(3, &[2]));
    }
}
