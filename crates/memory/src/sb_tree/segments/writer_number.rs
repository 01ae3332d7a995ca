//! Small numbers for threads, by which an index finds the state of the calling one.
//!
//! A number belongs to one thread at a time: it is reused only after its thread has ended, under a
//! lock, so that the next owner sees everything that the previous one did.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

/// Logs of an index. Threads with lesser numbers have one each; all others share the last.
pub(crate) const WRITERS: usize = if cfg!(any(test, miri, loom)) { 8 } else { 64 };

/// The pseudo-writer of entries that the previous generation left to this one. The role's holder
/// fills its log before the generation begins.
pub(crate) const TAKEN_OVER: usize = WRITERS;

/// Returns the position of a writer's log. The log of taken-over entries comes first: of entries of
/// one key its is the oldest.
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

/// A thread's number, released when the thread ends.
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

/// Returns the calling thread's number; `None` while the thread ends.
#[inline]
pub(crate) fn writer_number() -> Option<usize> {
    // A thread that acts for several writers in turn uses the number of each.
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
