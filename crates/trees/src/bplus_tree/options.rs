//! Settings of a tree. But for [`BPlusTreeOptions::ties`] and [`BPlusTreeOptions::max_entries`],
//! pages do not depend on them: a tree may be opened with others.

/// How a [`BPlusTree`](super::BPlusTree) fills, splits and merges its pages.
///
/// ```
/// use bedload_trees::bplus_tree::BPlusTreeOptions;
///
/// let near_sorted = BPlusTreeOptions::new().split_percent(80).fill_percent(95);
/// assert_eq!(near_sorted, BPlusTreeOptions::new().split_percent(80));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BPlusTreeOptions {
    pub(super) fill_percent: u8,
    pub(super) split_percent: u8,
    pub(super) merge_percent: u8,
    pub(super) max_entries: u16,
    pub(super) ties: bool,
}

impl BPlusTreeOptions {
    /// The defaults: pages appended are filled to 95 %, splits leave half of a page behind, pages
    /// below 30 % are merged, as many entries as fit in a page, ties kept.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            fill_percent: 95,
            split_percent: 50,
            merge_percent: 30,
            max_entries: u16::MAX,
            ties: true,
        }
    }

    /// How full appending leaves a page, in percent, clamped to 50..=100. What is left takes the
    /// stragglers of near-sorted input without a split (SWARE, §IV-B: 95 %).
    #[must_use]
    pub const fn fill_percent(mut self, percent: u8) -> Self {
        self.fill_percent = clamp(percent, 50, 100);
        self
    }

    /// The share of a splitting page's entries that stays on it, in percent, clamped to 10..=90.
    /// For near-sorted input 80 makes fewer and fuller pages; for random input 50 does (SWARE,
    /// Table I). A page at the right edge that overflows at its end keeps all of its entries,
    /// whatever the share.
    #[must_use]
    pub const fn split_percent(mut self, percent: u8) -> Self {
        self.split_percent = clamp(percent, 10, 90);
        self
    }

    /// How full a page must be not to be merged with a neighbour when an entry is removed from it,
    /// in percent, clamped to 0..=40. With 0 only empty pages are merged.
    #[must_use]
    pub const fn merge_percent(mut self, percent: u8) -> Self {
        self.merge_percent = clamp(percent, 0, 40);
        self
    }

    /// The most entries on a page, clamped to 4..=65,535. Tests set it low to make splits and
    /// merges common. A tree is opened with the number it was created with, or a greater one.
    #[must_use]
    pub const fn max_entries(mut self, entries: u16) -> Self {
        self.max_entries = if entries < 4 { 4 } else { entries };
        self
    }

    /// Whether pages keep a column of ties. Without it every tie must be 0, and an entry takes 8
    /// bytes less. A tree is opened with the setting it was created with.
    #[must_use]
    pub const fn ties(mut self, ties: bool) -> Self {
        self.ties = ties;
        self
    }
}

impl Default for BPlusTreeOptions {
    fn default() -> Self {
        Self::new()
    }
}

const fn clamp(value: u8, least: u8, most: u8) -> u8 {
    if value < least {
        least
    } else if value > most {
        most
    } else {
        value
    }
}
