//! Options and counters.

use super::segments::convert::FIRST_CAPACITY;
use super::segments::log::LOG_CAP;

/// Parameters of an [`SbTree`](super::SbTree).
///
/// ```
/// use bedload_memory::{SbTree, SbTreeOptions};
/// let tree = SbTree::<u64>::with_options(SbTreeOptions::new().processor_stamps(false));
/// # tree.insert(1, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SbTreeOptions {
    pub(super) processor_stamps: bool,
    pub(super) log_entries_max: usize,
}

impl SbTreeOptions {
    /// Returns the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            processor_stamps: true,
            log_entries_max: LOG_CAP,
        }
    }

    /// Sets how many entries a thread appends at most before they are merged into blocks, 64 to
    /// 4096. Default: 4096. If keys arrive slowly, a smaller number moves them to blocks sooner.
    /// Concurrent inserters contend once per this many inserts.
    #[must_use]
    pub const fn log_entries_max(mut self, entries: usize) -> Self {
        self.log_entries_max = if entries < FIRST_CAPACITY {
            FIRST_CAPACITY
        } else if entries > LOG_CAP {
            LOG_CAP
        } else {
            entries
        };
        self
    }

    /// Sets whether the processor's time-stamp counter, if it reports it as invariant, orders the
    /// inserts of one key by several threads. Default: true. Otherwise all threads increment one
    /// counter, which does not scale. Set it to false where the counters of several sockets are not
    /// synchronised, where the machine may sleep (suspend to RAM), and where an image of the
    /// process may be restored: otherwise an older value may win over that which another thread
    /// inserted for the same key. A thread never sees an older value of its own.
    #[must_use]
    pub const fn processor_stamps(mut self, may_use: bool) -> Self {
        self.processor_stamps = may_use;
        self
    }
}

impl Default for SbTreeOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Counters of the work of an [`SbTree`](super::SbTree) besides inserts and lookups.
///
/// ```
/// use bedload_memory::SbTree;
/// let tree = SbTree::<u64>::new();
/// (0..100_000).for_each(|key| tree.insert(key, key));
/// assert!(tree.work().seals > 20);
/// tree.settle();
/// assert!(tree.work().pending <= 4096);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SbTreeWork {
    /// Segments that were sealed.
    pub seals: u64,
    /// Steps of conversions.
    pub steps: u64,
    /// Descents that reached their block by going right, because the search layer lagged.
    pub walks: u64,
    /// Blocks passed on these walks.
    pub walked: u64,
    /// How often a lane of late keys was drained into blocks.
    pub drains: u64,
    /// Entries that are not in blocks yet, equal keys counted each time.
    pub pending: usize,
}
