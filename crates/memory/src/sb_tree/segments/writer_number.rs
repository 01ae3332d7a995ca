//! Small numbers for threads, by which an index finds what belongs to the calling one.
//!
//! A number belongs to one thread at a time: it is given out again only when its thread has ended, under a lock, so that
//! the next to have it sees all that the last one did.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

/// Threads that have a log each; all others share the last one.
pub(crate) const WRITERS: usize = if cfg!(any(test, miri, loom)) { 8 } else { 64 };

/// Instead of a writer: what the last generation left to this one. It is the role holder's, who fills it before the
/// generation begins.
pub(crate) const TAKEN_OVER: usize = WRITERS;

/// The place of a writer's log. That of what was taken over comes first: of entries of one key it is the oldest.
pub(crate) const fn place_of(writer: usize) -> usize {
    (writer + 1) % (WRITERS + 1)
}

const NONE_YET: usize = usize::MAX;

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    given: 0,
    returned: BinaryHeap::new(),
});

struct Registry {
    given: usize,
    returned: BinaryHeap<Reverse<usize>>,
}

/// A thread's number, given back when the thread ends.
struct Claim(usize);

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(NONE_YET) };
    static CLAIM: Claim = Claim::new();
}

impl Claim {
    fn new() -> Self {
        let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match registry.returned.pop() {
            Some(Reverse(number)) => number,
            None => {
                registry.given += 1;
                registry.given - 1
            }
        };
        Self(number)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        NUMBER.set(NONE_YET);
        let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        registry.returned.push(Reverse(self.0));
    }
}

/// The calling thread's number; none while the thread ends.
#[inline]
pub(crate) fn writer_number() -> Option<usize> {
    // A thread that acts for several writers in turn has the number of each.
    #[cfg(feature = "coherence")]
    if let Some(acted) = crate::sync::coherence::acted() {
        return Some(acted);
    }
    match NUMBER.get() {
        NONE_YET => claim(),
        number => Some(number),
    }
}

#[cold]
fn claim() -> Option<usize> {
    let number = CLAIM.try_with(|claim| claim.0).ok()?;
    NUMBER.set(number);
    Some(number)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_differ_and_numbers_stay() {
        let own = writer_number();
        assert_eq!(own, writer_number());
        std::thread::scope(|scope| {
            let other = scope.spawn(writer_number).join().expect("it ends");
            assert!(other.is_some());
            assert_ne!(own, other);
        });
    }
}
