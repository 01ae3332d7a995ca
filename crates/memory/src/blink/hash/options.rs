//! Options.

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
    /// Returns the defaults.
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

    /// Sets the size of a hash leaf, rounded down to full buckets, at least two. Default: 256 KiB
    /// (§5.11). Larger leaves split less often, smaller ones are scanned and converted sooner.
    #[must_use]
    pub const fn node_bytes(mut self, bytes: usize) -> Self {
        self.node_bytes = bytes;
        self
    }

    /// Sets the percentile of a full leaf's keys at which it splits, 1 to 99. Default: 50 (§5.10).
    #[must_use]
    pub const fn split_percentile(mut self, percentile: u8) -> Self {
        self.split_percentile = clamp(percentile, 1, 99);
        self
    }

    /// Sets the percentile at which the right-most leaf splits when it is full of ascending keys, 1
    /// to 99; counted from the greatest key, that of the left-most leaf and descending keys.
    /// Default: 90. The paper splits it like any other, and finds that a larger percentile
    /// speeds up ascending inserts (Table 2). Each split decides whether keys ascend, by the key
    /// that found no room.
    #[must_use]
    pub const fn append_percentile(mut self, percentile: u8) -> Self {
        self.append_percentile = clamp(percentile, 1, 99);
        self
    }

    /// Sets whether entries follow a split bucket by bucket, as they are accessed. Default: true.
    /// Otherwise the split moves all of them, which serves to measure the gain of laziness (§5.9).
    #[must_use]
    pub const fn lazy_split(mut self, is_lazy: bool) -> Self {
        self.lazy_split = is_lazy;
        self
    }

    /// Sets the share of a leaf's entries that is sampled to find that percentile, in percent, 1 to
    /// 100. Default: 3 (§5.12).
    #[must_use]
    pub const fn sample_percent(mut self, percent: u8) -> Self {
        self.sample_percent = clamp(percent, 1, 100);
        self
    }

    /// Sets how many neighbouring buckets are tried for each of the two hashes, 1 to 16. Default: 4
    /// (§5.13). More fill leaves better and take longer to search.
    #[must_use]
    pub const fn probes(mut self, buckets: u8) -> Self {
        self.probes = clamp(buckets, 1, 16);
        self
    }

    /// Sets the fill of sorted leaves, in percent, 10 to 100. Default: 80 (§4.3).
    #[must_use]
    pub const fn fill_percent(mut self, percent: u8) -> Self {
        self.fill_percent = clamp(percent, 10, 100);
        self
    }

    /// Sets the fill of sorted leaves made from a hash leaf that ascending keys have left behind,
    /// in percent, 10 to 100. Default: 94, as in a B-link tree: few more keys will arrive there.
    /// The paper makes no difference.
    #[must_use]
    pub const fn append_fill_percent(mut self, percent: u8) -> Self {
        self.append_fill_percent = clamp(percent, 10, 100);
        self
    }

    /// Sets how often a leaf is scanned before the scanner converts it. Default: 16. An iterator
    /// that reads from one end counts once for each leaf, [`scan`](super::BlinkHash::scan) once for
    /// each leaf and call. The paper converts at the first scan, which then takes as long as the
    /// conversion; here writers convert a scanned leaf at their next split, and a scanner only if
    /// no writer came in the meantime.
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
