//! What can be chosen, and what is counted.

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
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            processor_stamps: true,
            log_entries_max: LOG_CAP,
        }
    }

    /// Entries that a thread appends, at most, before they are merged into blocks; 4096, which is the most there may be,
    /// and not less than 64. Where few keys arrive in a long time, a lesser number has them in blocks sooner. Threads that
    /// insert at the same time get into each other's way once in so many inserts.
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

    /// Whether the order in which several threads insert one key is told by the processor's time-stamp counter, where it
    /// says that this is invariant; true. Otherwise all threads increment one counter, which does not scale to many. To
    /// be chosen where the counters of several sockets are not in step.
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

/// What an [`SbTree`](super::SbTree) has done besides inserting and looking up.
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
    /// Descents after which a block was reached by going right, because the search layer was behind.
    pub walks: u64,
    /// Blocks that were passed on these ways.
    pub walked: u64,
    /// How often the late keys that waited with a thread were put into blocks.
    pub drains: u64,
    /// Entries that are in no block yet.
    pub pending: usize,
}
