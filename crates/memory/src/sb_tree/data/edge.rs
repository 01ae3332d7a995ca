//! Up to where keys belong to blocks.
//!
//! Who reads a segment looks at the edge afterwards: if what was read lies above it, no block covered it, and nobody
//! could change it there.

use crate::search::columns::Words;
use crate::sync::primitive::Backoff;
use crate::sync::version_latch::VersionLatch;

/// See the [module](self). It is raised before blocks cover what lies below.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Edge<W: Words> {
    latch: VersionLatch,
    key: W::KeyColumns<1>,
}

impl<W: Words> Edge<W> {
    /// Only the least key belongs to blocks.
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

    /// Only the role's holder does so.
    pub(crate) fn raise(&self, key: W) {
        let latched = self.latch.latch();
        key.store(&self.key, 0);
        drop(latched);
    }
}
