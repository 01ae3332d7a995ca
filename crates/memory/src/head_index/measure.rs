//! Measures how much input is late, and chooses the kind of the head.
//!
//! A key is *late* if it lies below the *mark* of its writer: a key that the writer inserted at
//! least one window before. Keys that are out of order by less are not late: an SB-tree sorts
//! them before they reach a block. Keys that a log takes are never late; of the keys that a lane
//! takes, one stands for all. At the end of each window a writer passes its counts to the
//! *gauge*, unless another thread is doing so.

use super::options::{HeadIndexOptions, HeadKind};

/// Minimum number of writes of one thread in a window.
pub(super) const WINDOW: u64 = if cfg!(any(test, miri, loom)) { 64 } else { 1024 };
/// Consecutive windows that must agree before the head is switched.
const AGREEING: u32 = 8;
/// Windows after a switch before the next is allowed. Doubles with each switch that follows the
/// previous one within `CALM` times as many windows.
const REST_MIN: u32 = 64;
const REST_MAX: u32 = 1 << 16;
const CALM: u32 = 16;
/// Windows over which writers are counted.
const COUNTED: u32 = 64;

/// Counts of one thread's writes in a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteWindow {
    pub(super) writes: u64,
    /// Inserts of late keys.
    pub(super) late: u64,
    /// Removals of recent keys.
    pub(super) removed: u64,
}

/// Running averages over the windows of all writers.
#[derive(Debug)]
pub(super) struct Gauge {
    late: f32,
    removed: f32,
    /// A bit for each writer that ended one of the last windows.
    seen: u64,
    windows: u32,
    writers: u32,
    agreeing: u32,
    since_switch: u32,
    rest: u32,
}

impl Gauge {
    pub(super) const fn new() -> Self {
        Self {
            late: 0.0,
            removed: 0.0,
            seen: 0,
            windows: 0,
            writers: 0,
            agreeing: 0,
            since_switch: REST_MIN,
            rest: REST_MIN,
        }
    }

    /// Returns the late share of the last windows, 0 to 1.
    pub(super) const fn late(&self) -> f32 {
        self.late
    }

    /// Adds a window of this slot; returns the kind to switch to, if it is time.
    pub(super) fn take(
        &mut self,
        slot: usize,
        window: &WriteWindow,
        head: HeadKind,
        options: &HeadIndexOptions,
    ) -> Option<HeadKind> {
        let share = |count: u64| count as f32 / window.writes.max(1) as f32;
        self.late += (share(window.late) - self.late) / 4.0;
        self.removed += (share(window.removed) - self.removed) / 4.0;
        self.seen |= 1 << (slot % 64);
        self.windows += 1;
        if self.windows.is_multiple_of(COUNTED) {
            self.writers = self.seen.count_ones();
            self.seen = 0;
        }
        self.since_switch = self.since_switch.saturating_add(1);
        let wanted = self.wanted(head, options);
        self.agreeing = if wanted == head { 0 } else { self.agreeing + 1 };
        (self.agreeing >= AGREEING && self.since_switch >= self.rest).then_some(wanted)
    }

    fn wanted(&self, head: HeadKind, options: &HeadIndexOptions) -> HeadKind {
        // Hysteresis: true above `enter`, false below `leave`, unchanged in between.
        let holds = |share: f32, (leave, enter): (f32, f32), is_now: bool| {
            share * 100.0 > if is_now { leave } else { enter }
        };
        if holds(self.removed, options.removed_percent, head == HeadKind::BlinkTree) {
            HeadKind::BlinkTree
        } else if self.writers >= options.late_writers_min
            && holds(self.late, options.late_percent, head == HeadKind::BlinkHash)
        {
            HeadKind::BlinkHash
        } else {
            HeadKind::SbTree
        }
    }

    /// Notes a switch. The sooner it followed the previous one, the longer until the next.
    pub(super) fn note_switch(&mut self) {
        let is_calm = self.since_switch >= self.rest.saturating_mul(CALM);
        self.rest = if is_calm {
            REST_MIN
        } else {
            (self.rest * 2).min(REST_MAX)
        };
        self.since_switch = 0;
        self.agreeing = 0;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Feeds windows with these late shares, in percent, of `writers` writers; returns the heads.
    fn heads(gauge: &mut Gauge, writers: usize, shares: impl Iterator<Item = u64>) -> Vec<HeadKind> {
        let options = HeadIndexOptions::new();
        let mut head = HeadKind::SbTree;
        let next = |(number, share): (usize, u64)| {
            let window = WriteWindow {
                writes: WINDOW,
                late: share * WINDOW / 100,
                removed: 0,
            };
            if let Some(wanted) = gauge.take(number % writers, &window, head, &options) {
                gauge.note_switch();
                head = wanted;
            }
            head
        };
        shares.enumerate().map(next).collect()
    }

    fn switches(heads: &[HeadKind]) -> usize {
        heads.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    #[test]
    fn a_lasting_change_is_followed_once() {
        let shares = [5, 90, 5]
            .into_iter()
            .flat_map(|share| std::iter::repeat_n(share, 2_000));
        let heads = heads(&mut Gauge::new(), 8, shares);
        assert_eq!(switches(&heads), 2);
        assert_eq!(heads[1_999], HeadKind::SbTree);
        assert_eq!(heads[2_100], HeadKind::BlinkHash);
        assert_eq!(heads[4_100], HeadKind::SbTree);
    }

    #[test]
    fn few_writers_keep_late_keys_in_blocks() {
        let all_late = || std::iter::repeat_n(100, 2_000);
        assert_eq!(switches(&heads(&mut Gauge::new(), 7, all_late())), 0);
        assert_eq!(switches(&heads(&mut Gauge::new(), 8, all_late())), 1);
    }

    #[test]
    fn what_wavers_between_the_bounds_changes_nothing() {
        let shares = (0..10_000).map(|window| if window % 2 == 0 { 26 } else { 34 });
        assert_eq!(switches(&heads(&mut Gauge::new(), 8, shares)), 0);
    }

    /// Input alternates as fast as the gauge can follow.
    #[test]
    fn seasons_are_followed_less_and_less() {
        let shares = (0..100_000).map(|window| if window / 40 % 2 == 0 { 0 } else { 100 });
        let count = switches(&heads(&mut Gauge::new(), 8, shares));
        assert!((1..=20).contains(&count), "{count} switches in 2,500 seasons");
    }
}
