//! Estimates K and L of an arriving sequence in constant memory.

use super::ahead::{Ahead, RunnerUp};
use super::piles::{Mark, Piles};
use super::share;

/// The most keys sampled to estimate ranks; from this many arrivals on, at least half as many.
const SAMPLES: usize = 1024;
/// The most samples that are saved.
const SAVED_SAMPLES: usize = 128;
/// The most rows between two marks of a pile.
const MARK_ROWS: u64 = 1024;
/// More keys than can arrive.
const COUNT_MAX: u64 = 1 << 60;

/// Estimates K and L of keys as they arrive, in one pass and 16 KiB of memory, at a few nanoseconds
/// per key.
///
/// * **K** by patience sorting, as in [`Displacement`](super::Displacement), but only the last 256
///   piles are kept, and up to 256 marks of older ones, at most 1,024 rows apart where they are
///   recent. A key that belongs between two marks is counted as if it belonged after the first, so
///   K is never underestimated; it is exact as long as displacements stay below 256 rows.
/// * **L** from lower bounds: the number of arrivals since the greatest key, the numbers of keys
///   below up to 64 others that were the greatest, and the number of piles above a late key. For
///   keys too late for the piles, a sample of 512 to 1,024 keys gives the rank so far, within a
///   512th of all keys.
///
/// K is within 1 % of the rows of the exact value, and L within 5 % of the rows if K is at most 20
/// %, else within 10 %. (For keys ahead of their time, L is a lower bound until the overtaken keys
/// have come.) This is tested with the (K,L) generator, with scrambled and reversed keys, and with
/// keys ahead of their time, and holds also if the state is [saved](Self::save) and restored on the
/// way. It does not hold for K where more than 256 keys ahead of their time come together again and
/// again: each time may add some 1,000 rows to K, or more if the state is restored meanwhile.
///
/// A key below the greatest [stored](Self::note_stored) key overlaps the stored keys: it cannot be
/// appended.
///
/// ```
/// use bedload_sortedness::Estimator;
///
/// let mut order = Estimator::new();
/// for key in [10, 30, 40, 20, 20, 50] {
///     order.observe(key);
/// }
/// assert_eq!((order.total().rows, order.total().k, order.total().l), (6, 2, 2));
///
/// order.note_stored(50);
/// order.observe(45);
/// assert_eq!(order.total().overlapping, 1);
/// ```
#[derive(Debug, Clone)]
pub struct Estimator {
    rows: u64,
    below_running_max: u64,
    overlapping: u64,
    l: u64,
    max: u64,
    /// The greatest key that is stored.
    stored_max: Option<u64>,
    /// Number of keys that had arrived when the greatest one came.
    max_arrival: u64,
    /// Former greatest keys.
    ahead: Ahead,
    piles: Piles,
    /// Keys from this one on cannot raise L, as far as the samples tell.
    late_below: u64,
    /// Every `stride`-th key, sorted.
    samples: Vec<u64>,
    stride: u64,
    /// The row count at which the next sample is taken, a pile is marked, or the window ends.
    next_event: u64,
    window_rows: u64,
    /// The total when the present window began; its `l` is that of the present window.
    window_start: Estimate,
    window: Option<Estimate>,
}

/// An estimate of an [`Estimator`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// Keys that arrived.
    pub rows: u64,
    /// Estimated number of rows less the length of a longest non-decreasing subsequence.
    pub k: u64,
    /// Estimated largest distance, in rows, between a row's position of arrival and sorted
    /// position.
    pub l: u64,
    /// Rows whose key lies below the largest key that arrived before them; exact.
    pub below_running_max: u64,
    /// Rows whose key lay below the largest one [stored](Estimator::note_stored) when they arrived;
    /// exact.
    pub overlapping: u64,
}

/// The [saved](Estimator::save) state of an [`Estimator`].
///
/// ```
/// use bedload_sortedness::Estimator;
///
/// let mut order = Estimator::new();
/// (0..1000).for_each(|key| order.observe(key ^ 1));
/// let mut again = Estimator::restore(&order.save()).expect("as it was saved");
/// again.observe(1000);
/// assert_eq!((again.total().rows, again.total().k), (1001, 500));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedOrder {
    /// All keys.
    pub total: Estimate,
    /// The last complete window.
    pub window: Option<Estimate>,
    /// The current window.
    pub since_window: Estimate,
    /// Keys per window.
    pub window_rows: u64,
    /// The greatest key; 0 if none arrived.
    pub max: u64,
    /// Number of keys that had arrived when the greatest came, itself included.
    pub max_arrival: u64,
    /// Former greatest keys, ascending; at most 48.
    pub runners_up: Vec<RunnerUp>,
    /// The greatest key that is stored.
    pub stored_max: Option<u64>,
    /// The ends of the last piles, ascending; at most 256.
    pub piles: Vec<u64>,
    /// Older piles, numbered from 1, with the end that each had once; ascending in both, at most
    /// 64.
    pub older_piles: Vec<(u64, u64)>,
    /// Every `stride`-th key, sorted; 128 of them at most.
    pub samples: Vec<u64>,
    /// One in this many keys is sampled.
    pub stride: u64,
}

impl Estimate {
    /// K as a share of the rows, from 0 to 1.
    #[must_use]
    pub fn k_share(&self) -> f64 {
        share(self.k, self.rows)
    }

    /// L as a share of the rows, from 0 to 1. In a window it may exceed 1, as a key may be late by
    /// more than the window.
    #[must_use]
    pub fn l_share(&self) -> f64 {
        share(self.l, self.rows)
    }

    /// The share of rows below the running maximum, from 0 to 1.
    #[must_use]
    pub fn late_share(&self) -> f64 {
        share(self.below_running_max, self.rows)
    }

    /// The share of rows that overlapped the stored keys, from 0 to 1.
    #[must_use]
    pub fn overlapping_share(&self) -> f64 {
        share(self.overlapping, self.rows)
    }

    /// Returns the estimate since an earlier one, with the given `l`, which is not additive.
    fn since(&self, earlier: &Self, l: u64) -> Self {
        Self {
            rows: self.rows - earlier.rows,
            k: self.k - earlier.k,
            l,
            below_running_max: self.below_running_max - earlier.below_running_max,
            overlapping: self.overlapping - earlier.overlapping,
        }
    }
}

impl Estimator {
    /// Keys in a window by default.
    pub const WINDOW_ROWS: u64 = 1 << 16;

    /// Creates an estimator with windows of [`WINDOW_ROWS`](Self::WINDOW_ROWS) keys.
    #[must_use]
    pub fn new() -> Self {
        Self::with_window(Self::WINDOW_ROWS)
    }

    /// Creates an estimator with windows of this many keys, at least one.
    #[must_use]
    pub fn with_window(rows: u64) -> Self {
        Self {
            rows: 0,
            below_running_max: 0,
            overlapping: 0,
            l: 0,
            max: 0,
            stored_max: None,
            max_arrival: 0,
            ahead: Ahead::new(),
            piles: Piles::new(),
            late_below: 0,
            samples: Vec::with_capacity(SAMPLES),
            stride: 1,
            next_event: 1,
            window_rows: rows.max(1),
            window_start: Estimate::default(),
            window: None,
        }
    }

    /// Observes the next key. O(1) for a key in order, O(log displacement) for others.
    #[inline]
    pub fn observe(&mut self, key: u64) {
        if key >= self.max && Some(key) >= self.stored_max && self.rows + 1 < self.next_event {
            self.rows += 1;
            self.observe_max(key);
        } else {
            self.observe_otherwise(key);
        }
    }

    /// Observes ascending keys, like [`observe`](Self::observe) for each. If they exceed all
    /// earlier keys, only the last few and every `stride`-th are looked at.
    pub fn observe_run(&mut self, mut keys: &[u64]) {
        debug_assert!(keys.is_sorted(), "a run ascends");
        while let Some(&first) = keys.first() {
            let eventless = usize::try_from(self.next_event - self.rows - 1).unwrap_or(usize::MAX);
            if first < self.max || Some(first) < self.stored_max || eventless == 0 {
                self.observe_otherwise(first);
                keys = &keys[1..];
                continue;
            }
            let (run, rest) = keys.split_at(eventless.min(keys.len()));
            self.rows += 1;
            self.observe_max(first);
            self.extend_max(&run[1..]);
            keys = rest;
        }
    }

    /// Observes ascending keys not below the greatest key, up to the next event at most.
    fn extend_max(&mut self, run: &[u64]) {
        let Some(&last) = run.last() else {
            return;
        };
        self.rows += run.len() as u64;
        self.max = last;
        self.max_arrival = self.rows;
        self.piles.extend(run);
    }

    /// Observes a key that is below the greatest one or the greatest stored one, or at which a
    /// sample, mark or window is due.
    #[inline(never)]
    fn observe_otherwise(&mut self, key: u64) {
        self.rows += 1;
        self.overlapping += u64::from(Some(key) < self.stored_max);
        if key >= self.max {
            self.observe_max(key);
        } else {
            self.observe_below_max(key);
        }
        if self.rows == self.next_event {
            self.note_event(key);
        }
    }

    #[inline(always)]
    fn observe_max(&mut self, key: u64) {
        let below = self.rows - 1 - self.max_arrival;
        if below > 0 {
            self.pass_max(below);
        }
        self.max = key;
        self.max_arrival = self.rows;
        self.piles.push(key);
    }

    /// Follows the greatest key, which is passed now after keys below it.
    #[inline(never)]
    fn pass_max(&mut self, below: u64) {
        if !self.ahead.is_due(self.rows) {
            return;
        }
        let l = self.ahead.settle();
        self.raise_l(l);
        self.ahead.follow(RunnerUp {
            key: self.max,
            arrival: self.max_arrival,
            below,
        });
    }

    /// Returns the estimate for all keys so far.
    #[must_use]
    pub fn total(&self) -> Estimate {
        Estimate {
            rows: self.rows,
            k: self.rows - self.piles.count(),
            l: self.l.max(self.ahead.distance()),
            below_running_max: self.below_running_max,
            overlapping: self.overlapping,
        }
    }

    /// Returns the last complete window; until there is one, all keys so far.
    #[must_use]
    pub fn window(&self) -> Estimate {
        self.window.unwrap_or_else(|| self.total())
    }

    /// Returns the current window: all keys since the last one ended.
    #[must_use]
    pub fn since_window(&self) -> Estimate {
        let l = self.window_start.l.max(self.ahead.distance());
        self.total().since(&self.window_start, l)
    }

    /// Ends the current window early.
    pub fn end_window(&mut self) {
        let l = self.ahead.settle();
        self.raise_l(l);
        self.window = Some(self.since_window());
        self.window_start = Estimate { l: 0, ..self.total() };
        self.expect_late();
    }

    /// Returns the greatest key that arrived.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.rows > 0).then_some(self.max)
    }

    /// Returns the greatest stored key.
    #[must_use]
    pub const fn stored_max(&self) -> Option<u64> {
        self.stored_max
    }

    /// Notes that `max` is the greatest stored key: later keys below it overlap.
    pub fn note_stored(&mut self, max: u64) {
        self.stored_max = self.stored_max.max(Some(max));
    }

    /// Returns the state to save, a few kilobytes. Samples are thinned to 128 at most, so that
    /// afterwards L of keys too late for the piles is known within a 64th of all keys.
    #[must_use]
    pub fn save(&self) -> SavedOrder {
        let mut samples = self.samples.clone();
        let mut stride = self.stride;
        while samples.len() > SAVED_SAMPLES {
            stride *= 2;
            thin(&mut samples);
        }
        let marks = self.piles.saved_marks();
        SavedOrder {
            total: self.total(),
            window: self.window,
            since_window: self.since_window(),
            window_rows: self.window_rows,
            max: self.max,
            max_arrival: self.max_arrival,
            runners_up: self.ahead.saved(),
            stored_max: self.stored_max,
            piles: self.piles.ends().collect(),
            older_piles: marks.iter().map(|mark| (mark.number, mark.end)).collect(),
            samples,
            stride,
        }
    }

    /// Restores a saved estimator; `None` if the state is one that no estimator saves.
    #[must_use]
    pub fn restore(saved: &SavedOrder) -> Option<Self> {
        let (total, since) = (saved.total, saved.since_window);
        let pile_count = total.rows.checked_sub(total.k)?;
        let is_part = |part: &Estimate, whole: &Estimate| {
            part.rows <= whole.rows
                && part.k <= whole.k
                && part.rows - part.k <= whole.rows - whole.k
                && part.l <= whole.l
                && part.below_running_max <= whole.below_running_max
                && part.overlapping <= whole.overlapping
        };
        let counts_are_right = total.rows <= COUNT_MAX
            && total.below_running_max.max(total.overlapping) <= total.rows
            && since.k <= since.rows
            && is_part(&since, &total)
            && saved
                .window
                .is_none_or(|window| window.k <= window.rows && is_part(&window, &total))
            && saved.max_arrival <= total.rows
            && (1..=total.rows.max(1) * 2).contains(&saved.stride);
        let lists_are_right = saved.samples.len() <= SAVED_SAMPLES
            && saved.samples.is_sorted()
            // Piles stay sorted only if a key at or above the greatest is at or above their ends.
            && saved.piles.last().is_none_or(|&end| end <= saved.max)
            && saved.runners_up.last().is_none_or(|last| last.key <= saved.max);
        if !counts_are_right || !lists_are_right {
            return None;
        }
        let marks = saved.older_piles.iter();
        let marks: Vec<_> = marks.map(|&(number, end)| Mark { number, end }).collect();
        let mut order = Self {
            rows: total.rows,
            below_running_max: total.below_running_max,
            overlapping: total.overlapping,
            l: total.l,
            max: saved.max,
            stored_max: saved.stored_max,
            max_arrival: saved.max_arrival,
            ahead: Ahead::restore(total.rows, &saved.runners_up)?,
            piles: Piles::restore(pile_count, &saved.piles, &marks)?,
            stride: saved.stride,
            window_start: Estimate {
                l: since.l,
                ..total.since(&since, 0)
            },
            window: saved.window,
            ..Self::with_window(saved.window_rows)
        };
        order.samples.extend_from_slice(&saved.samples);
        order.expect_late();
        order.expect_event();
        Some(order)
    }

    fn observe_below_max(&mut self, key: u64) {
        self.below_running_max += 1;
        self.raise_l(self.rows - self.max_arrival);
        self.ahead.note(key);
        if key >= self.piles.end(1) {
            return self.piles.push(key);
        }
        if let Some(above) = self.piles.place(key) {
            return self.raise_l(above);
        }
        if key < self.late_below {
            self.raise_l(self.piles.kept().max(self.rows_above(key)));
            self.late_below = key;
        }
    }

    /// Returns about how many keys lie above this one.
    fn rows_above(&self, key: u64) -> u64 {
        let below = self.samples.partition_point(|&sample| sample < key);
        let above = (self.samples.len() - below) as u64;
        above.saturating_mul(self.stride).min(self.rows)
    }

    /// Finds below which keys more rows lie above than the L of the window says.
    fn expect_late(&mut self) {
        let above = usize::try_from(self.window_start.l / self.stride).unwrap_or(usize::MAX);
        let first = self.samples.len().checked_sub(above.saturating_add(1));
        self.late_below = first.map_or(0, |first| self.samples[first]);
    }

    #[inline]
    fn raise_l(&mut self, l: u64) {
        self.l = self.l.max(l);
        self.window_start.l = self.window_start.l.max(l);
    }

    #[cold]
    fn note_event(&mut self, key: u64) {
        self.piles.mark();
        if self.rows.is_multiple_of(self.stride) {
            if self.samples.len() == SAMPLES {
                thin(&mut self.samples);
                self.stride *= 2;
            }
            if self.rows.is_multiple_of(self.stride) {
                let place = self.samples.partition_point(|&sample| sample < key);
                self.samples.insert(place, key);
            }
            self.expect_late();
        }
        if self.rows.is_multiple_of(self.window_rows) {
            self.end_window();
        }
        self.expect_event();
    }

    fn expect_event(&mut self) {
        let next_multiple = |of: u64| (self.rows / of + 1).saturating_mul(of);
        self.next_event = next_multiple(self.stride.min(MARK_ROWS)).min(next_multiple(self.window_rows));
    }
}

impl Default for Estimator {
    fn default() -> Self {
        Self::new()
    }
}

/// Removes every second sample.
fn thin(samples: &mut Vec<u64>) {
    let mut odd = false;
    samples.retain(|_| {
        odd = !odd;
        odd
    });
}
