//! Which writer's lane has the late keys of a class.
//!
//! The series that a key belongs to usually stands in its last bits, below the time, and is usually inserted by one thread. So
//! keys are classed by their last bits, as in [`owners`](crate::sb_tree::segments::owners); but here a class may go to another writer, as it costs
//! no more than a lane that is drained early. Whoever takes a class from somebody pays with *credit*, which late inserts earn:
//! where no class is one thread's, all are soon nobody's, and late keys go to blocks directly.
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

/// What a writer may take at first, and at most.
const CREDIT: u32 = if cfg!(any(test, miri, loom)) { 2 } else { 2048 };
/// Full lanes, and late keys past them, that earn one: the work of taking is some hundredth of theirs.
const LANES_FOR_ONE: u32 = if cfg!(any(test, miri, loom)) { 1 } else { 4 };
const KEYS_FOR_ONE: u32 = if cfg!(any(test, miri, loom)) { 4 } else { 1024 };

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Classes(Box<[AtomicU32]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Nobody has inserted a late key of it.
    New,
    Nobodys,
    Writers(usize),
    /// It is being taken from a writer.
    Changing,
}

impl Classes {
    pub(crate) fn new() -> Self {
        Self((0..CLASSES).map(|_| AtomicU32::new(NEW)).collect())
    }

    #[inline]
    fn class<W: Words>(&self, key: &W) -> &AtomicU32 {
        &self.0[class_of(key)]
    }

    /// Whether a key's class is this writer's.
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

    /// Makes a new class the writer's, unless it is new no longer.
    pub(crate) fn claim<W: Words>(&self, writer: usize, key: &W) {
        let own = u32::try_from(writer).unwrap_or(NOBODYS);
        let class = self.class(key);
        let _ = class.compare_exchange(NEW, own, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Takes a class from its writer. Under the lock of handing over.
    pub(crate) fn take<W: Words>(&self, key: &W) {
        self.class(key).store(CHANGING, Ordering::Release);
    }

    /// Makes a class the writer's, or nobody's. Under the lock of handing over.
    pub(crate) fn give<W: Words>(&self, key: &W, writer: Option<usize>) {
        let writer = writer.and_then(|writer| u32::try_from(writer).ok());
        self.class(key)
            .store(writer.unwrap_or(NOBODYS), Ordering::Release);
    }
}

/// What a writer may take. Only it uses it.
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

    /// Counts a lane that was filled.
    pub(crate) fn note_full_lane(&self) {
        self.count(&self.full_lanes, LANES_FOR_ONE);
    }

    /// Takes one, if there is one.
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
