//! What can be chosen, and what is counted.

/// Where a part of a [`HeadIndex`](super::HeadIndex)'s keys is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadKind {
    /// In an [`SbTree`](crate::sb_tree::SbTree), for keys that arrive nearly in order.
    SbTree,
    /// In a [`BlinkHash`](crate::blink::hash::BlinkHash), for many writers of late keys.
    BlinkHash,
    /// In a [`BlinkTree`](crate::blink::tree::BlinkTree), for the newest keys that are removed again.
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
    /// The defaults.
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

    /// What the head is at first; an SB-tree.
    #[must_use]
    pub const fn first(mut self, kind: HeadKind) -> Self {
        self.first = kind;
        self
    }

    /// Whether the head is chosen by what is measured; true. Otherwise only [`switch_head`](super::HeadIndex::switch_head)
    /// changes it.
    #[must_use]
    pub const fn adapts(mut self, adapts: bool) -> Self {
        self.adapts = adapts;
        self
    }

    /// The late share, in percent, above which the head becomes a Blink-hash, and that below which it is one no longer;
    /// 35 and 25. With 80 threads an SB-tree is behind Blink-hash from 30 % on (SB-tree paper, §V-D).
    #[must_use]
    pub const fn late_percent(mut self, leave: f32, enter: f32) -> Self {
        self.late_percent = (leave, enter);
        self
    }

    /// How many threads at least must be writing for that; 8. Few do not get in each other's way in the blocks of an SB-tree:
    /// with one and two it was ahead at most shares (docs/benchmarks/sb-tree.md).
    #[must_use]
    pub const fn late_writers_min(mut self, threads: u32) -> Self {
        self.late_writers_min = threads;
        self
    }

    /// The share of removals of recent keys among all writes, in percent, above which the head becomes a B-link tree, and
    /// that below which it is one no longer; 5 and 1. An SB-tree converts what is in its logs before it removes from it.
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

/// What a [`HeadIndex`](super::HeadIndex) has done besides inserting and looking up.
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
    /// How often the head's limit was raised.
    pub raises: u64,
    /// Parts that there are.
    pub parts: usize,
    /// Chunks that were moved to a neighbour's map.
    pub chunks: u64,
    /// Entries in them.
    pub moved: u64,
    /// Chunks that a writer thawed.
    pub thawed: u64,
}
