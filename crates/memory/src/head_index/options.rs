//! Options and counters.

/// The kind of map in which a part of a [`HeadIndex`](super::HeadIndex)'s keys has its home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadKind {
    /// An [`SbTree`](crate::sb_tree::SbTree), for keys that arrive nearly in order.
    SbTree,
    /// A [`BlinkHash`](crate::blink::hash::BlinkHash), for many writers of late keys.
    BlinkHash,
    /// A [`BlinkTree`](crate::blink::tree::BlinkTree), for newest keys that are removed again.
    BlinkTree,
}

/// Parameters of a [`HeadIndex`](super::HeadIndex).
///
/// ```
/// use bedload_memory::{HeadIndex, HeadIndexOptions, HeadKind};
/// let options = HeadIndexOptions::new().first(HeadKind::BlinkHash).adapts(false);
/// let index = HeadIndex::<u64>::with_options(options);
/// assert_eq!(index.head(), HeadKind::BlinkHash);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadIndexOptions {
    pub(super) first: HeadKind,
    pub(super) adapts: bool,
    pub(super) late_percent: (f32, f32),
    pub(super) late_writers_min: u32,
    pub(super) removed_percent: (f32, f32),
}

impl HeadIndexOptions {
    /// Returns the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            first: HeadKind::SbTree,
            adapts: true,
            late_percent: (25.0, 35.0),
            late_writers_min: 8,
            removed_percent: (1.0, 5.0),
        }
    }

    /// Sets the initial kind of the head. Default: an SB-tree.
    #[must_use]
    pub const fn first(mut self, kind: HeadKind) -> Self {
        self.first = kind;
        self
    }

    /// Sets whether measurements choose the head. Default: true. Otherwise only
    /// [`switch_head`](super::HeadIndex::switch_head) changes it.
    #[must_use]
    pub const fn adapts(mut self, adapts: bool) -> Self {
        self.adapts = adapts;
        self
    }

    /// Sets the late shares, in percent, below which the head stops being a Blink-hash and above
    /// which it becomes one. Default: 25 and 35. With 80 threads an SB-tree is slower than
    /// Blink-hash from 30 % on (SB-tree paper, §V-D).
    #[must_use]
    pub const fn late_percent(mut self, leave: f32, enter: f32) -> Self {
        self.late_percent = (leave, enter);
        self
    }

    /// Sets how many threads must be writing before the head becomes a Blink-hash. Default: 8. A
    /// few threads do not contend for the blocks of an SB-tree (docs/benchmarks/sb-tree.md).
    #[must_use]
    pub const fn late_writers_min(mut self, threads: u32) -> Self {
        self.late_writers_min = threads;
        self
    }

    /// Sets the shares of removals of recent keys among all writes, in percent, below which the
    /// head stops being a B-link tree and above which it becomes one. Default: 1 and 5. An SB-tree
    /// must convert its logs before it removes from them.
    #[must_use]
    pub const fn removed_percent(mut self, leave: f32, enter: f32) -> Self {
        self.removed_percent = (leave, enter);
        self
    }
}

impl Default for HeadIndexOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Counters of the work of a [`HeadIndex`](super::HeadIndex) besides inserts and lookups.
///
/// ```
/// use bedload_memory::{HeadIndex, HeadKind};
/// let index = HeadIndex::<u64>::new();
/// (0..10_000).for_each(|key| index.insert(key, key));
/// assert!(index.switch_head(HeadKind::BlinkTree));
/// (10_000..20_000).for_each(|key| index.insert(key, key));
/// assert_eq!((index.work().switches, index.work().parts), (1, 2));
/// assert_eq!(index.range(..).count(), 20_000);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadWork {
    /// Switches of the head.
    pub switches: u64,
    /// Raises of the head's limit.
    pub raises: u64,
    /// Current number of parts.
    pub parts: usize,
    /// Chunks moved to a neighbour's map.
    pub chunks: u64,
    /// Entries in those chunks.
    pub moved: u64,
    /// Chunks thawed by a writer.
    pub thawed: u64,
}
