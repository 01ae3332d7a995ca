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

/// The pages that a scan of ranges looks at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanPages {
    /// Once.
    pub(crate) once: usize,
    /// For each range.
    pub(crate) each: usize,
    /// How many of the latter a B-tree would not have to read.
    pub(crate) read: usize,
}

impl ScanShape {
    /// The pages that a scan looks at, each of whose ranges is one key, where the filters say which
    /// run has it, or is longer.
    pub(crate) fn pages(&self, are_keys: bool) -> ScanPages {
        let (in_runs, read) = if are_keys {
            let unfiltered = self.runs - self.filters;
            let read = self.filters + unfiltered.saturating_sub(1);
            (self.filters + unfiltered.max(1) * self.height, read)
        } else {
            (self.run_pages, self.runs.saturating_sub(1))
        };
        ScanPages {
            once: self.head_pages,
            each: self.trunk_pages + in_runs,
            read,
        }
    }
}
