//! Assigns the late keys of a class to one writer's lane.
//!
//! The last bits of a key, below the time, usually identify its series, which one thread usually
//! inserts. So keys are classed by their last bits, as in
//! [`owners`](crate::sb_tree::segments::owners); but here a class may change its writer, as that
//! costs no more than a lane drained early. The taker of a class pays with *credit*, which late
//! inserts earn: where no class belongs to one thread, all soon belong to none, and late keys go to
//! blocks directly.
//!
//! ```text
//!   new ──▶ a writer's ◀──▶ another's
//!                 ▲   │
//!                 │   ▼
//!                nobody's
//! ```

use crate::sb_tree::segments::owners::{CLASSES, class_of};
use crate::search::columns::Words;
use crate::sync::primitive::{AtomicU32, Ordering};

const NEW: u32 = u32::MAX;
const NOBODYS: u32 = NEW - 1;
const CHANGING: u32 = NEW - 2;

/// Initial and maximum credit.
const CREDIT: u32 = if cfg!(any(test, miri, loom)) { 2 } else { 2048 };
/// Full lanes, and late keys that bypass lanes, that earn one unit: takeovers cost about a
/// hundredth of their work.
const LANES_FOR_ONE: u32 = if cfg!(any(test, miri, loom)) { 1 } else { 4 };
const KEYS_FOR_ONE: u32 = if cfg!(any(test, miri, loom)) { 4 } else { 1024 };

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Classes {
    writers: Box<[AtomicU32]>,
    padding_bits: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// No late key of the class was inserted yet.
    New,
    Nobodys,
    Writers(usize),
    /// Between two owners.
    Changing,
}

impl Classes {
    /// Creates new classes, for keys with this [padding](class_of).
    pub(crate) fn new(padding_bits: u32) -> Self {
        Self {
            writers: (0..CLASSES).map(|_| AtomicU32::new(NEW)).collect(),
            padding_bits,
        }
    }

    #[inline]
    fn class<W: Words>(&self, key: &W) -> &AtomicU32 {
        &self.writers[class_of(key, self.padding_bits)]
    }

    /// Returns whether a key's class is this writer's.
    #[inline]
    pub(crate) fn is_own<W: Words>(&self, writer: usize, key: &W) -> bool {
        self.class(key).load(Ordering::Acquire) as usize == writer
    }

    #[inline]
    pub(crate) fn whose<W: Words>(&self, key: &W) -> Whose {
        match self.class(key).load(Ordering::Acquire) {
            NEW => Whose::New,
            NOBODYS => Whose::Nobodys,
            CHANGING => Whose::Changing,
            writer => Whose::Writers(writer as usize),
        }
    }

    /// Assigns a new class to the writer; does nothing if the class is not new.
    pub(crate) fn claim<W: Words>(&self, writer: usize, key: &W) {
        let own = u32::try_from(writer).unwrap_or(NOBODYS);
        let class = self.class(key);
        let _ = class.compare_exchange(NEW, own, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Takes a class from its writer. The caller has the hand-over lock.
    pub(crate) fn take<W: Words>(&self, key: &W) {
        self.class(key).store(CHANGING, Ordering::Release);
    }

    /// Assigns a class to the writer, or to none. The caller has the hand-over lock.
    pub(crate) fn give<W: Words>(&self, key: &W, writer: Option<usize>) {
        let writer = writer.and_then(|writer| u32::try_from(writer).ok());
        self.class(key)
            .store(writer.unwrap_or(NOBODYS), Ordering::Release);
    }
}

/// The number of classes that a writer may take. Only that writer uses it.
#[derive(Debug)]
pub(crate) struct Credit {
    left: AtomicU32,
    full_lanes: AtomicU32,
    keys: AtomicU32,
}

impl Credit {
    pub(crate) fn new() -> Self {
        Self {
            left: AtomicU32::new(CREDIT),
            full_lanes: AtomicU32::new(0),
            keys: AtomicU32::new(0),
        }
    }

    /// Counts a filled lane.
    pub(crate) fn note_full_lane(&self) {
        self.count(&self.full_lanes, LANES_FOR_ONE);
    }

    /// Spends one unit, if there is one.
    pub(crate) fn may_take(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        } else {
            self.count(&self.keys, KEYS_FOR_ONE);
        }
        left > 0
    }

    fn count(&self, what: &AtomicU32, for_one: u32) {
        let counted = what.load(Ordering::Relaxed) + 1;
        what.store(counted % for_one, Ordering::Relaxed);
        if counted == for_one {
            let left = self.left.load(Ordering::Relaxed);
            self.left.store((left + 1).min(CREDIT), Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_credit_earns_it() {
        let credit = Credit::new();
        assert!((0..CREDIT).all(|_| credit.may_take()));
        assert_eq!((0..=KEYS_FOR_ONE).filter(|_| credit.may_take()).count(), 1);
        (0..2 * CREDIT * LANES_FOR_ONE).for_each(|_| credit.note_full_lane());
        assert_eq!(
            (0..=CREDIT).filter(|_| credit.may_take()).count(),
            CREDIT as usize
        );
    }
}
