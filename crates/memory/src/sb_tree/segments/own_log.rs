//! A per-writer word that names the log to which it appends.

#![expect(unsafe_code, reason = "a pointer to a log, which lives as long as the index")]

use super::log::Log;
use crate::search::columns::Words;
use crate::sync::primitive::{AtomicPtr, Ordering};

/// See the [module](self). The log may be closed meanwhile, but is always the writer's own.
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

    /// Sets the log, which belongs to the same index.
    pub(crate) fn set(&self, log: &Log<W>) {
        self.0
            .store(std::ptr::from_ref(log).cast_mut(), Ordering::Release);
    }
}
