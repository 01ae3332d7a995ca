//! A model of which cache lines writers take from one another (feature `coherence`).
//!
//! The atomics of the in-memory indexes report their accesses. Several writers are *simulated*: one
//! thread acts for each in turn ([`acting_as`]), so that the counts depend on the code alone and
//! not on the machine, for more writers than it has cores. Retries of writers that meet are not
//! modelled. Locks and the epochs' own memory are not counted, nor is memory that only one writer
//! ever touches.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

const LINE_BYTES: usize = 64;

/// Counts of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Reads of a line that another writer changed since this one had it.
    pub reads_of_others: u64,
    /// Writes to a line that another writer has a copy of.
    pub writes_to_others: u64,
    /// Atomic read-modify-writes: latch acquisitions, marks and counters.
    pub exchanges: u64,
}

thread_local! {
    static WRITER: Cell<u32> = const { Cell::new(0) };
    static IS_ACTING: Cell<bool> = const { Cell::new(false) };
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { reads_of_others: 0, writes_to_others: 0, exchanges: 0 }) };
    /// The writers that have a copy of each line: a bit for each.
    static COPIES: RefCell<HashMap<usize, u64>> = RefCell::new(HashMap::new());
}

/// Does `work` as one of 64 simulated writers.
///
/// # Panics
///
/// If there is no such writer.
pub fn acting_as<R>(writer: u32, work: impl FnOnce() -> R) -> R {
    assert!(writer < u64::BITS, "there are 64 writers");
    let before = (WRITER.replace(writer), IS_ACTING.replace(true));
    let result = work();
    WRITER.set(before.0);
    IS_ACTING.set(before.1);
    result
}

/// The writer for which this thread acts, if it does.
pub(crate) fn acted() -> Option<usize> {
    IS_ACTING.get().then(|| WRITER.get() as usize)
}

/// Returns the counts of this thread's writers since the last call. Forgets which writers have
/// copies of lines, lest reused memory count as another writer's.
#[must_use]
pub fn take_counts() -> Counts {
    COPIES.take();
    COUNTS.take()
}

/// An access to an atomic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    Exchange,
}

/// Notes an access of this thread's present writer.
pub(crate) fn note<T>(atomic: &T, access: Access) {
    let line = std::ptr::from_ref(atomic).addr() / LINE_BYTES;
    let own = 1 << WRITER.get();
    let mut counts = COUNTS.get();
    counts.exchanges += u64::from(access == Access::Exchange);
    COPIES.with_borrow_mut(|copies| {
        let copies = copies.entry(line).or_default();
        if access == Access::Read {
            counts.reads_of_others += u64::from(*copies != 0 && *copies & own == 0);
            *copies |= own;
        } else {
            counts.writes_to_others += u64::from(*copies & !own != 0);
            *copies = own;
        }
    });
    COUNTS.set(counts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_from_writer_to_writer() {
        let word = 0_u64;
        let _ = take_counts();
        for writer in [1, 1, 2] {
            acting_as(writer, || note(&word, Access::Write));
        }
        acting_as(1, || note(&word, Access::Read));
        acting_as(1, || note(&word, Access::Read));
        acting_as(2, || note(&word, Access::Exchange));
        let expected = Counts {
            reads_of_others: 1,
            writes_to_others: 2,
            exchanges: 1,
        };
        assert_eq!(take_counts(), expected);
    }
}
