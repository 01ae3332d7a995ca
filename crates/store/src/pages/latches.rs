//! Latches of logical pages, made when first asked for.

use std::collections::HashMap;
use std::sync::Arc;

use bedload_pages::PageId;
use parking_lot::{ArcRwLockReadGuard, ArcRwLockWriteGuard, Mutex, RawRwLock, RwLock};

const SHARDS: usize = 64;
/// Latches without a holder are forgotten once a shard has this many.
const SHARD_LATCHES: usize = 256;

pub(super) type SharedLatch = ArcRwLockReadGuard<RawRwLock, ()>;
pub(super) type ExclusiveLatch = ArcRwLockWriteGuard<RawRwLock, ()>;

#[derive(Debug)]
pub(super) struct Latches {
    shards: [Mutex<HashMap<PageId, Arc<RwLock<()>>>>; SHARDS],
}

impl Latches {
    pub(super) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }

    pub(super) fn shared(&self, id: PageId) -> SharedLatch {
        self.latch(id).read_arc()
    }

    pub(super) fn exclusive(&self, id: PageId) -> ExclusiveLatch {
        self.latch(id).write_arc()
    }

    /// The latch, unless it is held.
    pub(super) fn try_exclusive(&self, id: PageId) -> Option<ExclusiveLatch> {
        self.latch(id).try_write_arc()
    }

    fn latch(&self, id: PageId) -> Arc<RwLock<()>> {
        let mut shard = self.shards[id.get() as usize % SHARDS].lock();
        if shard.len() >= SHARD_LATCHES {
            // Each holder and waiter of a latch has a reference; taken under the shard's lock, the
            // count is exact.
            shard.retain(|_, latch| Arc::strong_count(latch) > 1);
        }
        shard.entry(id).or_default().clone()
    }
}
