//! What can be chosen.

/// Parameters of a [`BlinkHash`](super::BlinkHash), with the paper's values as defaults.
///
/// ```
/// use bedload_memory::{BlinkHash, BlinkHashOptions};
/// let options = BlinkHashOptions::new().node_bytes(64 << 10).split_percentile(90);
/// let index = BlinkHash::<u64>::with_options(options);
/// # index.insert(1, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlinkHashOptions {
    pub(super) node_bytes: usize,
    pub(super) split_percentile: u8,
    pub(super) append_percentile: u8,
    pub(super) lazy_split: bool,
    pub(super) sample_percent: u8,
    pub(super) probes: u8,
    pub(super) fill_percent: u8,
    pub(super) append_fill_percent: u8,
    pub(super) scans_before_conversion: u32,
}

impl BlinkHashOptions {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            node_bytes: 256 << 10,
            split_percentile: 50,
            append_percentile: 90,
            lazy_split: true,
            sample_percent: 3,
            probes: 4,
            fill_percent: 80,
            append_fill_percent: 94,
            scans_before_conversion: 16,
        }
    }

    /// The size of a hash leaf, rounded down to whole buckets, at least two; 256 KiB (§5.11). Larger leaves split less
    /// often, smaller ones are scanned and converted sooner.
    #[must_use]
    pub const fn node_bytes(mut self, bytes: usize) -> Self {
        self.node_bytes = bytes;
        self
    }

    /// Which percentile of a full leaf's keys divides it, 1 to 99; 50 (§5.10).
    #[must_use]
    pub const fn split_percentile(mut self, percentile: u8) -> Self {
        self.split_percentile = clamp(percentile, 1, 99);
        self
    }

    /// Which percentile divides the right-most leaf when it is full of keys that ascend, 1 to 99; 90. The paper divides
    /// it as any other, and finds that a larger percentile makes ascending inserts quicker (Table 2). Whether keys
    /// ascend is told at each split, by the key that found no room.
    #[must_use]
    pub const fn append_percentile(mut self, percentile: u8) -> Self {
        self.append_percentile = clamp(percentile, 1, 99);
        self
    }

    /// Whether entries follow a split bucket by bucket, as others come to need them; true. Otherwise whoever splits a
    /// leaf moves them all, which is there to measure what laziness gains (§5.9).
    #[must_use]
    pub const fn lazy_split(mut self, is_lazy: bool) -> Self {
        self.lazy_split = is_lazy;
        self
    }

    /// The share of a leaf's entries that is sampled to find that percentile, in percent, 1 to 100; 3 (§5.12).
    #[must_use]
    pub const fn sample_percent(mut self, percent: u8) -> Self {
        self.sample_percent = clamp(percent, 1, 100);
        self
    }

    /// Neighbouring buckets that are tried for each of the two hashes, 1 to 16; 4 (§5.13). More fill leaves better and
    /// take longer to search.
    #[must_use]
    pub const fn probes(mut self, buckets: u8) -> Self {
        self.probes = clamp(buckets, 1, 16);
        self
    }

    /// How full sorted leaves are made, in percent, 10 to 100; 80 (§4.3).
    #[must_use]
    pub const fn fill_percent(mut self, percent: u8) -> Self {
        self.fill_percent = clamp(percent, 10, 100);
        self
    }

    /// How full they are made of a hash leaf that ascending keys have left behind, in percent, 10 to 100; 94, which is what
    /// a B-link tree's leaves keep there: few keys will come back to them. The paper makes no difference.
    #[must_use]
    pub const fn append_fill_percent(mut self, percent: u8) -> Self {
        self.append_fill_percent = clamp(percent, 10, 100);
        self
    }

    /// How often a leaf is scanned before the scanner itself converts it; 16. The paper converts at the first scan,
    /// which then takes as long as the conversion; here writers convert a scanned leaf when they next split one, and
    /// a scanner only where no writer came for so long.
    #[must_use]
    pub const fn scans_before_conversion(mut self, scans: u32) -> Self {
        self.scans_before_conversion = scans;
        self
    }
}

const fn clamp(value: u8, least: u8, greatest: u8) -> u8 {
    if value < least {
        least
    } else if value > greatest {
        greatest
    } else {
        value
    }
}

impl Default for BlinkHashOptions {
    fn default() -> Self {
        Self::new()
    }
}
