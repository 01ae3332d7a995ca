//! Orders of arrival of readings.

use std::fmt;

use bedload_testkit::Rng;
use serde::{Deserialize, Serialize};

use super::super::example_data::{minutes_of_departure, seconds_of_authors};

/// A second in ticks of the time column.
const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const YEAR_SECONDS: i64 = 365 * 86_400;
/// The approximate time of the first reading: November 2023.
const EPOCH: i64 = 1_700_000_000 * SECOND;
/// The average distance between readings.
const STEP: i64 = 1_000;

/// An order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Arrival {
    /// A reading each millisecond, in order.
    InOrder,
    /// Like `InOrder`, each up to a second late.
    SecondLate,
    /// Like `InOrder`, a tenth of them one to ten minutes late.
    MinutesLate,
    /// The departures of 2013 from New York in order of schedule, repeated for further years.
    Flights,
    /// The author times of a repository's commits in order of commit, repeated for further decades.
    Git,
    /// Half in order; then two earlier ranges of a quarter each, each in order, alternating every
    /// 10,000 rows.
    Backfills,
    /// Uniformly random over a year.
    Scrambled,
}

impl Arrival {
    /// Returns by how much times advance in so many rows.
    pub(super) fn advance(self, rows: usize) -> i64 {
        match self {
            Self::Scrambled => 0,
            _ => i64::try_from(rows).expect("fewer than 2^63") * STEP,
        }
    }

    /// Draws a range that has about `rows` of the first `arrived` rows of an order without repeats.
    pub(super) fn range_of(self, rows: u64, arrived: u64, rng: &mut Rng) -> (i64, i64) {
        let span = match self {
            Self::Scrambled => YEAR_SECONDS * SECOND,
            _ => arrived.cast_signed() * STEP,
        };
        let share = u128::from(span.cast_unsigned()) * u128::from(rows) / u128::from(arrived.max(1));
        let width = i64::try_from(share).unwrap_or(span).clamp(1, span);
        let from = EPOCH + rng.below((span - width + 1).cast_unsigned()).cast_signed();
        (from, from + width)
    }
}

impl fmt::Display for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InOrder => "in-order",
            Self::SecondLate => "second-late",
            Self::MinutesLate => "minutes-late",
            Self::Flights => "flights",
            Self::Git => "git",
            Self::Backfills => "backfills",
            Self::Scrambled => "scrambled",
        })
    }
}

/// Rows of one backfill before the other continues.
const BACKFILL_ROWS: i64 = 10_000;

/// Readings in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Input {
    pub(super) arrival: Arrival,
    pub(super) rows: usize,
    pub(super) seed: u64,
}

impl Input {
    /// Returns their times.
    ///
    /// # Panics
    ///
    /// If the data in `examples/data` cannot be read.
    pub(super) fn times(&self) -> Vec<i64> {
        let rows = i64::try_from(self.rows).expect("fewer than 2^63");
        let mut rng = Rng::new(self.seed);
        let mut draw = |end: i64| rng.below(end.cast_unsigned()).cast_signed();
        let beginning = |row: i64| EPOCH + row * STEP;
        match self.arrival {
            Arrival::InOrder => (0..rows).map(|row| beginning(row) + draw(STEP)).collect(),
            Arrival::SecondLate => (0..rows)
                .map(|row| beginning(row) + draw(STEP) - draw(SECOND))
                .collect(),
            Arrival::MinutesLate => (0..rows)
                .map(|row| {
                    let late = if draw(10) == 0 {
                        MINUTE + draw(9 * MINUTE)
                    } else {
                        0
                    };
                    beginning(row) + draw(STEP) - late
                })
                .collect(),
            Arrival::Backfills => {
                let quarter = rows / 4;
                let mut order: Vec<i64> = (2 * quarter..rows).collect();
                for turn in 0..=quarter / BACKFILL_ROWS {
                    let rows = turn * BACKFILL_ROWS..quarter.min((turn + 1) * BACKFILL_ROWS);
                    order.extend(rows.clone());
                    order.extend(rows.map(|row| quarter + row));
                }
                order.into_iter().map(|row| beginning(row) + draw(STEP)).collect()
            }
            Arrival::Scrambled => (0..rows).map(|_| EPOCH + draw(YEAR_SECONDS * SECOND)).collect(),
            Arrival::Flights => {
                let minutes = minutes_of_departure().into_iter();
                let times: Vec<i64> = minutes.map(|minute| minute.cast_signed() * MINUTE).collect();
                again_and_again(&times, self.rows)
            }
            Arrival::Git => {
                let seconds = seconds_of_authors().into_iter();
                let times: Vec<i64> = seconds.map(|second| second * SECOND).collect();
                again_and_again(&times, self.rows)
            }
        }
    }
}

/// Repeats the times, each time after the latest one, until there are `rows`.
fn again_and_again(times: &[i64], rows: usize) -> Vec<i64> {
    let ends = times.iter().max().zip(times.iter().min());
    let span = ends.map_or(0, |(last, first)| last - first + 1);
    (0..)
        .flat_map(|number: i64| times.iter().map(move |time| time + number * span))
        .take(rows)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Input, MINUTE, SECOND};

    fn times(arrival: Arrival) -> Vec<i64> {
        let (rows, seed) = (100_000, 3);
        let times = Input { arrival, rows, seed }.times();
        assert_eq!(times.len(), rows, "{arrival}");
        times
    }

    /// Yields how late each time is compared with the latest before it.
    fn lateness(times: &[i64]) -> impl Iterator<Item = i64> {
        let mut latest = i64::MIN;
        times.iter().map(move |&time| {
            latest = latest.max(time);
            latest - time
        })
    }

    #[test]
    fn arrivals_are_as_late_as_they_say() {
        assert!(times(Arrival::InOrder).is_sorted());
        let late = lateness(&times(Arrival::SecondLate)).max();
        assert!(late.is_some_and(|late| (SECOND / 2..2 * SECOND).contains(&late)));
        let minutes = times(Arrival::MinutesLate);
        let late = lateness(&minutes).filter(|&late| late >= MINUTE).count();
        assert!((8_000..12_000).contains(&late), "{late} of 100,000");
        let mut backfilled = times(Arrival::Backfills);
        assert!(backfilled[..50_000].is_sorted() && !backfilled.is_sorted());
        backfilled.sort_unstable();
        backfilled.dedup();
        assert_eq!(backfilled.len(), 100_000, "no row is filled in twice");
        for arrival in [Arrival::Flights, Arrival::Git, Arrival::Scrambled] {
            let late = lateness(&times(arrival)).filter(|&late| late > 0).count();
            assert!(late > 20_000, "{arrival}: {late} of 100,000");
        }
    }
}
