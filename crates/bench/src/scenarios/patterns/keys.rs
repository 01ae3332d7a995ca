//! The orders of keys.

use bedload_testkit::Rng;

use super::super::example_data::{minutes_of_departure, seconds_of_authors};
use super::super::zipf::Zipf;

/// An order in which keys arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Ascending, some way apart.
    Ascending,
    /// The same, from the greatest down.
    Reversed,
    /// Ascending runs, each of which begins in the middle of the previous one.
    Sawtooth,
    /// A thousand series whose times ascend, in random order within each tick; the series in the
    /// high bits.
    SeriesFirst,
    /// The same, with the time in the high bits.
    TimeFirst,
    /// Runs of a thousand neighbouring keys, each at a random position.
    Bursts,
    /// Random keys, a few of them most of the time.
    Zipf,
    /// The same key again and again.
    OneKey,
    /// Ascending by 2^20.
    Stride20,
    /// Ascending by 2^32.
    Stride32,
    /// Random.
    Random,
    /// Author times of a repository's commits, in order of commit.
    Git,
    /// Times of departure, in order of schedule.
    Flights,
}

/// Series of the interleaved patterns.
const SERIES: u64 = 1000;
/// Keys of a rising run, and of a burst.
const RUN: u64 = 1000;

impl Pattern {
    pub(super) const ALL: [Self; 13] = [
        Self::Ascending,
        Self::Reversed,
        Self::Sawtooth,
        Self::SeriesFirst,
        Self::TimeFirst,
        Self::Bursts,
        Self::Zipf,
        Self::OneKey,
        Self::Stride20,
        Self::Stride32,
        Self::Random,
        Self::Git,
        Self::Flights,
    ];

    /// Returns its name on the command line and in results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ascending => "ascending",
            Self::Reversed => "reversed",
            Self::Sawtooth => "sawtooth",
            Self::SeriesFirst => "series-first",
            Self::TimeFirst => "time-first",
            Self::Bursts => "bursts",
            Self::Zipf => "zipf",
            Self::OneKey => "one-key",
            Self::Stride20 => "stride-2^20",
            Self::Stride32 => "stride-2^32",
            Self::Random => "random",
            Self::Git => "git",
            Self::Flights => "flights",
        }
    }

    /// Returns this many keys in order of arrival, all of them even, so that odd keys are absent.
    ///
    /// # Panics
    ///
    /// If the data in `examples/data` cannot be read.
    pub(super) fn keys(self, count: usize) -> Vec<u64> {
        let mut rng = Rng::new(0x7061_7474);
        let count = count as u64;
        let mut keys: Vec<u64> = match self {
            Self::Ascending => (0..count).map(|n| n * 64 + rng.below(64)).collect(),
            Self::Reversed => (0..count).rev().map(|n| n * 64 + rng.below(64)).collect(),
            Self::Sawtooth => (0..count)
                .map(|n| {
                    let (run, rank) = (n / RUN, n % RUN);
                    (run * RUN / 2 + rank) * 2 + run % 2
                })
                .collect(),
            Self::SeriesFirst => in_ticks(&mut rng, count, |tick, series| series << 40 | tick),
            Self::TimeFirst => in_ticks(&mut rng, count, |tick, series| tick << 16 | series),
            Self::Bursts => {
                let mut base = 0;
                let mut next = |n: u64| {
                    if n.is_multiple_of(RUN) {
                        base = rng.next_u64() >> 2;
                    }
                    base + n % RUN
                };
                (0..count).map(&mut next).collect()
            }
            Self::Zipf => {
                let zipf = Zipf::new(count.div_ceil(10).max(2));
                // Neighbouring ranks are not neighbouring keys.
                let scatter = |rank: u64| rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2;
                (0..count).map(|_| scatter(zipf.draw(&mut rng))).collect()
            }
            Self::OneKey => vec![1 << 40; to_usize(count)],
            Self::Stride20 => (0..count).map(|n| n << 19).collect(),
            Self::Stride32 => (0..count).map(|n| n << 31).collect(),
            Self::Random => (0..count).map(|_| rng.next_u64() >> 2).collect(),
            Self::Git => {
                let times = seconds_of_authors();
                repeated(times.iter().map(|&time| time.cast_unsigned()).collect(), count)
            }
            Self::Flights => repeated(minutes_of_departure(), count),
        };
        keys.iter_mut().for_each(|key| *key <<= 1);
        keys
    }
}

/// Returns keys of ticks, in each of which every series has one, in random order.
fn in_ticks(rng: &mut Rng, count: u64, key: impl Fn(u64, u64) -> u64) -> Vec<u64> {
    let mut series: Vec<u64> = (0..SERIES).collect();
    let mut keys = Vec::with_capacity(to_usize(count));
    for tick in 0..count.div_ceil(SERIES) {
        rng.shuffle(&mut series);
        keys.extend(series.iter().map(|&series| key(tick, series)));
    }
    keys.truncate(to_usize(count));
    keys
}

/// Repeats times, each repetition after the one before, and tells equal times apart by the order of
/// arrival.
fn repeated(times: Vec<u64>, count: u64) -> Vec<u64> {
    let first = times.iter().min().copied().unwrap_or(0);
    let span = times.iter().max().copied().unwrap_or(0) - first + 1;
    let len = times.len() as u64;
    let of_row = |row: u64| {
        let time = times[to_usize(row % len)] - first + row / len * span;
        time << 20 | row & 0xf_ffff
    };
    (0..count).map(of_row).collect()
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("the benchmarks run where a word is 64 bits")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn patterns_are_what_they_are_called() {
        for pattern in Pattern::ALL {
            let keys = pattern.keys(5000);
            assert_eq!(keys.len(), 5000, "{}", pattern.name());
            assert!(keys.iter().all(|key| key % 2 == 0), "{}", pattern.name());
            let distinct = keys.iter().collect::<BTreeSet<_>>().len();
            match pattern {
                Pattern::OneKey => assert_eq!(distinct, 1),
                Pattern::Zipf => assert!((100..=500).contains(&distinct), "{distinct}"),
                _ => assert_eq!(distinct, 5000, "{}", pattern.name()),
            }
            let ascents = keys.windows(2).filter(|pair| pair[0] < pair[1]).count();
            match pattern {
                Pattern::Ascending | Pattern::Stride20 | Pattern::Stride32 => assert_eq!(ascents, 4999),
                Pattern::Reversed | Pattern::OneKey => assert_eq!(ascents, 0),
                Pattern::Sawtooth => assert_eq!(ascents, 4995),
                _ => assert!((1000..4999).contains(&ascents), "{}: {ascents}", pattern.name()),
            }
        }
    }
}
