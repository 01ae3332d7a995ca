//! Settings of a SWARE buffer.

/// Which filters stand before the unsorted part of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filters {
    /// None.
    None,
    /// One for all of it.
    Global,
    /// One for all of it, and one for each page.
    GlobalAndPages,
}

/// Settings of a [`SaTree`](super::SaTree). The defaults are the paper's, but for the size of the
/// buffer, which is to be 1 % of the data.
///
/// ```
/// use bedload_memory::near_sorted::PackedTree;
/// use bedload_memory::swa_buffer::{BufferOptions, SaTree};
///
/// let mut tree = SaTree::new(PackedTree::new(), BufferOptions::new(50_000).drain_percent(75));
/// tree.insert(1, 10);
/// assert_eq!(tree.get(1), Some(10));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferOptions {
    pub(super) entries: usize,
    pub(super) page_entries: usize,
    pub(super) drain_percent: usize,
    pub(super) held_percent: usize,
    pub(super) query_sorting_percent: usize,
    pub(super) filters: Filters,
    pub(super) zone_maps: bool,
}

impl BufferOptions {
    /// The paper's settings, and room for this many entries, at least 4.
    #[must_use]
    pub fn new(entries: usize) -> Self {
        Self {
            entries: entries.max(4),
            page_entries: 256,
            drain_percent: 50,
            held_percent: 0,
            query_sorting_percent: 10,
            filters: Filters::GlobalAndPages,
            zone_maps: true,
        }
    }

    /// Entries of a page, which has one zone map and one filter, from 1 to those of the buffer.
    /// Default: 256, which is 4 KiB.
    #[must_use]
    pub fn page_entries(self, entries: usize) -> Self {
        Self {
            page_entries: entries.max(1),
            ..self
        }
    }

    /// How much of a full buffer is drained, in percent, 1 to 100. Default: 50.
    #[must_use]
    pub fn drain_percent(self, percent: usize) -> Self {
        Self {
            drain_percent: percent.clamp(1, 100),
            ..self
        }
    }

    /// How much of the buffer entries may take that overlap with the tree, before they are inserted
    /// from the root, in percent, 0 to 90. Default: 0, which is the paper's: they leave with the
    /// others. If they are held, a leaf is visited for many of them at once, and each drain is a
    /// smaller part of the buffer: right for trees on a disk.
    #[must_use]
    pub fn held_percent(self, percent: usize) -> Self {
        Self {
            held_percent: percent.min(90),
            ..self
        }
    }

    /// How much of the buffer may be unsorted before a read sorts it, in percent, 0 to 100.
    /// Default: 10. With 100 no read does.
    #[must_use]
    pub fn query_sorting_percent(self, percent: usize) -> Self {
        Self {
            query_sorting_percent: percent.min(100),
            ..self
        }
    }

    /// Which filters there are. Default: [`Filters::GlobalAndPages`].
    #[must_use]
    pub fn filters(self, filters: Filters) -> Self {
        Self { filters, ..self }
    }

    /// Whether lookups ask the zone maps. Default: yes.
    #[must_use]
    pub fn zone_maps(self, yes: bool) -> Self {
        Self {
            zone_maps: yes,
            ..self
        }
    }

    /// The settings with pages no larger than the buffer: memory is allocated for complete pages.
    pub(super) fn with_pages_in_buffer(self) -> Self {
        Self {
            page_entries: self.page_entries.min(self.entries),
            ..self
        }
    }
}
