//! Where a writer keeps the log that it appends to: a word of its own.

#![expect(unsafe_code, reason = "a pointer to a log, which lives as long as the index")]

use super::log::Log;
use crate::search::columns::Words;
use crate::sync::primitive::{AtomicPtr, Ordering};

/// See the [module](self). It may name a log that is closed by now, never one that is not the writer's.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct OwnLog<W: Words>(AtomicPtr<Log<W>>);

impl<W: Words> OwnLog<W> {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::default())
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&Log<W>> {
        let log = self.0.load(Ordering::Acquire);
        // SAFETY: null, or a log of this index (`set`): logs last as long as it does.
        unsafe { log.as_ref() }
    }

    /// Names a log of the index that this belongs to.
    pub(crate) fn set(&self, log: &Log<W>) {
        self.0
            .store(std::ptr::from_ref(log).cast_mut(), Ordering::Release);
    }
}
