//! Keys by degree of order.

use std::fmt;

use bedload_testkit::workload::{NearlySorted, scattered, scrambled};
use tpchgen::generators::LineItemGenerator;

use super::super::example_data::minutes_of_departure;

/// A degree of order: K and L of the generator in percent, or a data set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Degree {
    /// K and L: the share of keys that are swapped, and their largest displacement.
    Nearly(f64, f64),
    /// In random order.
    Scrambled,
    /// A year of departures from New York in order of schedule, repeated for further years: 328,521
    /// a year, K 47.8 and L 0.23 %.
    Flights,
    /// The receipt dates of TPC-H's `lineitem` in the order of its ship dates.
    ReceiptDates,
}

/// The degrees of the scenarios.
pub(super) const DEGREES: [Degree; 8] = [
    Degree::Nearly(0.0, 0.0),
    Degree::Nearly(10.0, 5.0),
    Degree::Nearly(20.0, 10.0),
    Degree::Nearly(50.0, 25.0),
    Degree::Nearly(5.0, 95.0),
    Degree::Nearly(100.0, 50.0),
    Degree::Scrambled,
    Degree::Flights,
];

impl fmt::Display for Degree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nearly(k, l) => write!(f, "{k}/{l}"),
            Self::Scrambled => write!(f, "scrambled"),
            Self::Flights => write!(f, "flights"),
            Self::ReceiptDates => write!(f, "receipt-dates"),
        }
    }
}

/// Distinct keys in order of insertion; a key's value is computed from it.
#[derive(Debug)]
pub(super) struct Input {
    /// Sparse keys.
    pub(super) keys: Vec<u64>,
}

impl Input {
    /// Creates `len` keys, or about as many receipt dates.
    ///
    /// # Panics
    ///
    /// If the flights in `examples/data` cannot be read.
    #[must_use]
    pub(super) fn new(degree: Degree, len: usize, seed: u64) -> Self {
        let keys_of = |ranks: Vec<u64>| ranks.into_iter().map(key_of).collect();
        let keys = match degree {
            Degree::Scrambled => keys_of(scrambled(len, seed)),
            Degree::Nearly(k, l) => {
                let spec = NearlySorted {
                    swapped_percent: k,
                    displacement_percent: l,
                    ..NearlySorted::new(len, seed)
                };
                keys_of(spec.generate().keys)
            }
            Degree::Flights => distinct(flights(len)),
            Degree::ReceiptDates => distinct(receipt_dates(len)),
        };
        Self { keys }
    }

    /// Returns the keys in ascending order.
    #[must_use]
    pub(super) fn sorted(&self) -> Vec<u64> {
        let mut sorted = self.keys.clone();
        sorted.sort_unstable();
        sorted
    }
}

/// Makes distinct keys of equal times, in order of arrival.
fn distinct(times: Vec<u64>) -> Vec<u64> {
    times
        .into_iter()
        .zip(0..)
        .map(|(time, arrival)| time << 32 | arrival)
        .collect()
}

/// Returns minutes of departure.
fn flights(len: usize) -> Vec<u64> {
    let year = minutes_of_departure();
    let span = year
        .iter()
        .max()
        .zip(year.iter().min())
        .map(|(max, min)| max - min + 1);
    (0..)
        .flat_map(|number: u64| year.iter().map(move |minute| minute + number * span.unwrap_or(0)))
        .take(len)
        .collect()
}

/// Returns days of receipt.
fn receipt_dates(len: usize) -> Vec<u64> {
    const ROWS_AT_SCALE_1: f64 = 6_001_215.0;
    let rows = LineItemGenerator::new(len as f64 / ROWS_AT_SCALE_1, 1, 1);
    let mut dates: Vec<(i32, i32)> = rows
        .iter()
        .map(|row| (row.l_shipdate.into_inner(), row.l_receiptdate.into_inner()))
        .collect();
    dates.sort_by_key(|dates| dates.0);
    let days = |date: i32| u64::try_from(date).expect("dates are counted from 1992 on");
    dates.into_iter().map(|dates| days(dates.1)).collect()
}

/// Returns the key of a rank: keys keep the order of ranks, at varying distances.
const fn key_of(rank: u64) -> u64 {
    rank << 20 | scattered(rank) & 0xf_ffff
}
