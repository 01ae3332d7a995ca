//! How much a scan has to look at, for the planner.

/// The pages that a scan looks at before it returns an entry.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScanShape {
    /// Pages of the head.
    pub(crate) head_pages: usize,
    /// Nodes from the root to a leaf.
    pub(crate) trunk_pages: usize,
    /// Runs on that way.
    pub(crate) runs: usize,
    /// Pages from the top of each of these runs to a page of entries, in all.
    pub(crate) run_pages: usize,
    /// How many of them have a filter.
    pub(crate) filters: usize,
    /// Pages from the top of the highest of them to a page of entries.
    pub(crate) height: usize,
}

impl ScanShape {
    /// How many pages a scan looks at, and how many of these a B-tree would not have to read: for
    /// one key, where the filters say which run has it, or for a range.
    pub(crate) fn pages(&self, is_one_key: bool) -> (usize, usize) {
        let above = self.head_pages + self.trunk_pages;
        if is_one_key {
            let unfiltered = self.runs - self.filters;
            (
                above + self.filters + unfiltered.max(1) * self.height,
                self.filters,
            )
        } else {
            (above + self.run_pages, self.runs.saturating_sub(1))
        }
    }
}
