//! Settings of a tree.

use crate::run::RunOptions;

/// How a [`BeTree`](super::BeTree) batches, pushes down and merges. But for
/// [`BeTreeOptions::ties`], pages do not depend on it: a tree may be opened with other settings.
///
/// With R runs a node, fan-out F and P pending entries a node, pushes stay worth their while as
/// long as R ≥ F / 2 and P / F is at least half a leaf run: else each push moves crumbs into a leaf
/// run that is rewritten as a whole. The defaults keep that law, and [`BeTreeOptions::shrunk`]
/// does.
///
/// Runs of a node above the leaves are merged with others of about their size,
/// [`BeTreeOptions::stage_runs`] at a time, as long as they are small
/// ([`BeTreeOptions::stage_entries`]). So an entry is written once more for each size that its run
/// comes to have, and a reader meets fewer than `stage_runs` runs of each size.
///
/// ```
/// use bedload_trees::be_tree::BeTreeOptions;
///
/// let small = BeTreeOptions::new().leaf_entries(512).pending_entries(4096).stage_entries(1024);
/// assert_eq!(BeTreeOptions::new().shrunk(256), small);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct BeTreeOptions {
    pub(super) run: RunOptions,
    pub(super) fan_out: usize,
    pub(super) runs: usize,
    pub(super) pending_entries: u64,
    pub(super) leaf_entries: u64,
    pub(super) stage_entries: u64,
    pub(super) stage_runs: usize,
    pub(super) shares_of_few: usize,
    pub(super) jitter: u64,
}

impl BeTreeOptions {
    /// The defaults, named at each setting.
    pub const fn new() -> Self {
        Self {
            run: RunOptions::new(),
            fan_out: 16,
            runs: 20,
            pending_entries: 1 << 20,
            leaf_entries: 1 << 17,
            stage_entries: 1 << 18,
            stage_runs: 4,
            shares_of_few: 1,
            jitter: 0,
        }
    }

    /// The most children of a node that is not about to be split, at least 2. Default: 16.
    pub const fn fan_out(mut self, children: usize) -> Self {
        self.fan_out = if children < 2 { 2 } else { children };
        self
    }

    /// The most runs of a node before they are pushed down, to every child; at least 2. Default:
    /// 20.
    pub const fn runs(mut self, runs: usize) -> Self {
        self.runs = if runs < 2 { 2 } else { runs };
        self
    }

    /// How many entries pend in a node before they are pushed down to its children, the fullest
    /// first: in a node that has fewer children than [`fan_out`](Self::fan_out), its share of so
    /// many; see [`shares_of_few`](Self::shares_of_few). Default: 1,048,576.
    pub const fn pending_entries(mut self, entries: u64) -> Self {
        self.pending_entries = entries;
        self
    }

    /// How many times its share may pend for each child of a node that has few, up to half of what
    /// pends in a node of [`fan_out`](Self::fan_out) children. A greater number spares a small tree
    /// writes; its readers meet more runs, and single pushes take longer. Default: 1.
    pub const fn shares_of_few(mut self, shares: usize) -> Self {
        self.shares_of_few = shares;
        self
    }

    /// By up to how many hundredths more or less may pend in a node below the root, at most 100:
    /// each node has its own limit. If keys are evenly spread, nodes of a level fill at the same
    /// pace. Without jitter all of them would push down at the same time, and much more would be
    /// written then than at other times. Default: 0.
    pub const fn jitter(mut self, hundredths: u64) -> Self {
        self.jitter = if hundredths > 100 { 100 } else { hundredths };
        self
    }

    /// The most entries of a leaf's run, at least 4; a sorted batch is cut into runs of as many.
    /// Default: 131,072.
    pub const fn leaf_entries(mut self, entries: u64) -> Self {
        self.leaf_entries = if entries < 4 { 4 } else { entries };
        self
    }

    /// Runs of less than half as many entries are merged with others of about their size. Default:
    /// 262,144.
    pub const fn stage_entries(mut self, entries: u64) -> Self {
        self.stage_entries = entries;
        self
    }

    /// How many runs of about the same size are merged into one, at least 2. Default: 4.
    pub const fn stage_runs(mut self, runs: usize) -> Self {
        self.stage_runs = if runs < 2 { 2 } else { runs };
        self
    }

    /// All numbers of entries divided by `divisor`, for tests: the tree of a small number of
    /// entries then has the shape of a large one.
    ///
    /// # Panics
    ///
    /// If `divisor` is zero.
    pub const fn shrunk(self, divisor: u64) -> Self {
        let leaf_entries = self.leaf_entries / divisor;
        self.pending_entries(self.pending_entries / divisor)
            .leaf_entries(leaf_entries)
            .stage_entries(self.stage_entries / divisor)
    }

    /// Whether entries have ties, besides 0. A tree is opened with the setting it was created with.
    /// Default: yes.
    pub const fn ties(mut self, ties: bool) -> Self {
        self.run = self.run.ties(ties);
        self
    }

    pub(super) const fn has_ties(&self) -> bool {
        self.run.has_ties()
    }

    /// The most entries a page of a run takes, at least 2: small for tests. Default: 4,096.
    ///
    /// # Panics
    ///
    /// If it is less than 2.
    pub const fn max_entries(mut self, entries: u16) -> Self {
        self.run = self.run.max_entries(entries);
        self
    }

    /// Bits of a filter for each key of the runs above the leaves, which most lookups have no entry
    /// in; 0 for no filters. See [`RunOptions::filter_bits`]. Default: 0.
    pub const fn filter_bits(mut self, bits: u8) -> Self {
        self.run = self.run.filter_bits(bits);
        self
    }

    /// How many shares of [`pending_entries`](Self::pending_entries) pend before a node of so many
    /// children pushes down.
    fn shares(&self, children: usize) -> u64 {
        let of_few = self.shares_of_few.saturating_mul(children).min(self.fan_out / 2);
        of_few.max(children.clamp(2, self.fan_out)) as u64
    }

    /// How much may pend in a node of so many children before it pushes down, on average.
    pub(super) fn due_from(&self, children: usize) -> u64 {
        self.pending_entries / self.fan_out as u64 * self.shares(children)
    }

    /// The same for a node `hundredths` of the way from the least limit to the greatest.
    pub(super) fn due_from_with_jitter(&self, children: usize, hundredths: u64) -> u64 {
        let mean = self.due_from(children);
        let jitter = mean / 100 * self.jitter;
        let above_least = (jitter / 50).saturating_mul(hundredths);
        (mean - jitter).saturating_add(above_least)
    }

    /// How many runs of a node that are yet to be merged are merged whatever their sizes are.
    pub(super) const fn small_runs(&self) -> usize {
        3 * self.stage_runs
    }

    /// Runs for which a node keeps room, whatever its children take: what it may have, and some
    /// more while maintenance is behind.
    pub(super) const fn reserved_runs(&self) -> usize {
        self.runs + 2 * self.stage_runs
    }
}

impl Default for BeTreeOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_nodes_lie_around_their_mean() {
        let options = BeTreeOptions::new().pending_entries(1_600_000).jitter(25);
        let limits = [0, 50, 100].map(|hundredths| options.due_from_with_jitter(16, hundredths));
        assert_eq!(limits, [1_200_000, 1_600_000, 2_000_000]);
        assert_eq!(options.due_from(16), 1_600_000);
        let even = options.jitter(0);
        assert_eq!(
            [0, 99].map(|at| even.due_from_with_jitter(16, at)),
            [1_600_000; 2]
        );
        // Of a tree that never pushes down.
        let endless = BeTreeOptions::new().pending_entries(u64::MAX).jitter(100);
        for hundredths in [50, 99] {
            assert!(endless.due_from_with_jitter(16, hundredths) > u64::MAX / 2);
        }
    }
}
