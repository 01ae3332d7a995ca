//! The edge: the greatest key that belongs to blocks.
//!
//! A reader of a segment checks the edge afterwards: if the entries read lie above it, no block
//! covered them, and no thread could change them there.

use crate::search::columns::Words;
use crate::sync::primitive::Backoff;
use crate::sync::version_latch::VersionLatch;

/// See the [module](self). It is raised before blocks cover the keys below it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Edge<W: Words> {
    latch: VersionLatch,
    key: W::KeyColumns<1>,
}

impl<W: Words> Edge<W> {
    /// Creates an edge at the least key.
    pub(crate) fn new() -> Self {
        let key = W::new_columns();
        W::MIN.store(&key, 0);
        Self {
            latch: VersionLatch::new(),
            key,
        }
    }

    pub(crate) fn get(&self) -> W {
        let mut backoff = Backoff::default();
        loop {
            if let Some(version) = self.latch.optimistic_now() {
                let key = W::load(&self.key, 0);
                if self.latch.validate(version) {
                    return key;
                }
            }
            backoff.wait();
        }
    }

    /// Returns whether the edge lies below `key`; perhaps `false` while it is being raised.
    #[inline]
    pub(crate) fn is_below(&self, key: &W) -> bool {
        self.latch.optimistic_now().is_some_and(|version| {
            let is_below = W::load(&self.key, 0) < *key;
            is_below && self.latch.validate(version)
        })
    }

    /// Raises the edge; only the role's holder calls it.
    pub(crate) fn raise(&self, key: W) {
        let latched = self.latch.latch();
        key.store(&self.key, 0);
        drop(latched);
    }
}
