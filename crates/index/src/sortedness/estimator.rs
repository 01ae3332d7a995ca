//! K and L of a sequence that is still arriving, estimated in constant memory.

use super::share;

/// Ends of the longest increasing runs that are remembered. A power of two.
const PILES: usize = 256;
/// Keys that are remembered to tell ranks by, at most; at least half as many once that many arrived.
const SAMPLES: usize = 1024;
/// Of so many keys too late for the piles, one has its displacement estimated.
const LATE_STRIDE: u64 = 32;

/// Estimates K and L of keys as they arrive: some nanoseconds a key, 10 KiB of memory, nothing read twice. Cheap enough
/// to be always on.
///
/// * **K** by patience sorting, as [`Displacement`](super::Displacement) measures it, but only the last 256 piles are
///   kept. What would go on an older pile is left out of every run, so K is never underestimated; it is exact as long
///   as no key lies below 256 piles, that is, as long as displacements stay below 256 places.
/// * **L** from two bounds from below, the number of arrivals since the greatest key came and the number of piles above
///   a late key, and for keys too late for that from a sample of 512 to 1,024 of all keys: its rank in the sample tells
///   its rank so far, within a 512th of all keys. Of such keys only every 32nd is looked at.
///
/// So K is within 1 % of the keys of the exact value, and L within 5 % of the keys where K is at most 20 %, and within
/// 10 % of them otherwise; this is tested with the (K,L) generator, and with keys scrambled and reversed.
///
/// ```
/// use bedload_index::sortedness::Estimator;
///
/// let mut order = Estimator::new();
/// for key in [10, 30, 40, 20, 20, 50] {
///     order.observe(key);
/// }
/// assert_eq!((order.total().rows, order.total().k, order.total().l), (6, 2, 2));
/// ```
#[derive(Debug, Clone)]
pub struct Estimator {
    rows: u64,
    below_running_max: u64,
    l: u64,
    max: u64,
    /// How many keys had arrived before the greatest one.
    max_arrival: u64,
    /// The ends of the last piles: that of pile `i` stands at `i` modulo [`PILES`].
    piles: Box<[u64; PILES]>,
    pile_count: u64,
    /// Keys that were too late for the piles.
    beyond_piles: u64,
    /// Every `stride`-th key, sorted.
    samples: Vec<u64>,
    stride: u64,
    /// At which number of rows the next sample is taken or the window ends.
    next_event: u64,
    window_rows: u64,
    /// What was known when the present window began; its `l` is that of the window since.
    window_start: Estimate,
    window: Option<Estimate>,
}

/// What an [`Estimator`] has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// Keys that arrived.
    pub rows: u64,
    /// Estimated rows less the length of a longest non-decreasing subsequence.
    pub k: u64,
    /// Estimated largest distance, in rows, between place of arrival and place in sorted order.
    pub l: u64,
    /// Rows whose key lies below the largest key that arrived before them; exact.
    pub below_running_max: u64,
}

impl Estimate {
    /// K as a share of the rows, from 0 to 1.
    #[must_use]
    pub fn k_share(&self) -> f64 {
        share(self.k, self.rows)
    }

    /// L as a share of the rows, from 0 to 1. In a window it can be more: keys may be late by more than the window.
    #[must_use]
    pub fn l_share(&self) -> f64 {
        share(self.l, self.rows)
    }

    /// The share of rows below the running maximum, from 0 to 1.
    #[must_use]
    pub fn late_share(&self) -> f64 {
        share(self.below_running_max, self.rows)
    }
}

impl Estimator {
    /// Windows of 65,536 keys.
    pub const WINDOW_ROWS: u64 = 1 << 16;

    /// Nothing has arrived yet.
    #[must_use]
    pub fn new() -> Self {
        Self::with_window(Self::WINDOW_ROWS)
    }

    /// Nothing has arrived yet; windows of this many keys, at least one.
    #[must_use]
    pub fn with_window(rows: u64) -> Self {
        Self {
            rows: 0,
            below_running_max: 0,
            l: 0,
            max: 0,
            max_arrival: 0,
            piles: Box::new([0; PILES]),
            pile_count: 0,
            beyond_piles: 0,
            samples: Vec::with_capacity(SAMPLES),
            stride: 1,
            next_event: 1,
            window_rows: rows.max(1),
            window_start: Estimate::default(),
            window: None,
        }
    }

    /// Takes the next key to arrive. Time O(1) for a key in order, O(log displacement) for others.
    #[inline]
    pub fn observe(&mut self, key: u64) {
        self.rows += 1;
        if key >= self.max {
            self.max = key;
            self.max_arrival = self.rows;
            self.push_pile(key);
        } else {
            self.observe_below_max(key);
        }
        if self.rows == self.next_event {
            self.note_event(key);
        }
    }

    /// All keys so far.
    #[must_use]
    pub fn total(&self) -> Estimate {
        Estimate {
            rows: self.rows,
            k: self.rows - self.pile_count,
            l: self.l,
            below_running_max: self.below_running_max,
        }
    }

    /// The last window that is complete; before there is one, all keys so far.
    #[must_use]
    pub fn window(&self) -> Estimate {
        self.window.unwrap_or_else(|| self.total())
    }

    #[inline]
    fn push_pile(&mut self, key: u64) {
        self.piles[slot(self.pile_count)] = key;
        self.pile_count += 1;
    }

    fn observe_below_max(&mut self, key: u64) {
        self.below_running_max += 1;
        self.raise_l(self.rows - self.max_arrival);
        if key >= self.pile_end(1) {
            return self.push_pile(key);
        }
        let kept = self.pile_count.min(PILES as u64);
        if kept < self.pile_count && key < self.pile_end(kept) {
            self.beyond_piles += 1;
            if self.beyond_piles % LATE_STRIDE == 1 {
                self.raise_l(kept.max(self.rows_above(key)));
            }
            return;
        }
        let above = self.piles_above(key, kept);
        self.piles[slot(self.pile_count - above)] = key;
        self.raise_l(above);
    }

    /// The end of the pile that is the `nth` from the last, which is the first.
    #[inline]
    fn pile_end(&self, nth: u64) -> u64 {
        self.piles[slot(self.pile_count - nth)]
    }

    /// How many of the last `kept` piles end above the key; at least one does.
    fn piles_above(&self, key: u64, kept: u64) -> u64 {
        let (mut above, mut step) = (1, 1);
        while above + step <= kept && self.pile_end(above + step) > key {
            above += step;
            step *= 2;
        }
        while step > 0 {
            if above + step <= kept && self.pile_end(above + step) > key {
                above += step;
            }
            step /= 2;
        }
        above
    }

    /// About how many keys that arrived lie above this one.
    fn rows_above(&self, key: u64) -> u64 {
        let below = self.samples.partition_point(|&sample| sample < key);
        let above = (self.samples.len() - below) as u64;
        (above * self.stride).min(self.rows)
    }

    #[inline]
    fn raise_l(&mut self, l: u64) {
        self.l = self.l.max(l);
        self.window_start.l = self.window_start.l.max(l);
    }

    #[cold]
    fn note_event(&mut self, key: u64) {
        if self.rows.is_multiple_of(self.stride) {
            if self.samples.len() == SAMPLES {
                let mut odd = false;
                self.samples.retain(|_| {
                    odd = !odd;
                    odd
                });
                self.stride *= 2;
            }
            if self.rows.is_multiple_of(self.stride) {
                let place = self.samples.partition_point(|&sample| sample < key);
                self.samples.insert(place, key);
            }
        }
        if self.rows.is_multiple_of(self.window_rows) {
            let (total, start) = (self.total(), self.window_start);
            self.window = Some(Estimate {
                rows: total.rows - start.rows,
                k: total.k - start.k,
                l: start.l,
                below_running_max: total.below_running_max - start.below_running_max,
            });
            self.window_start = Estimate { l: 0, ..total };
        }
        let next_multiple = |of: u64| (self.rows / of + 1) * of;
        self.next_event = next_multiple(self.stride).min(next_multiple(self.window_rows));
    }
}

impl Default for Estimator {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the mask leaves an index into the piles"
)]
const fn slot(pile: u64) -> usize {
    pile as usize & (PILES - 1)
}
