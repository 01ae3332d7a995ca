//! What is measured.

mod latency;
mod newest_scan;
mod time_series;

use crate::record::Record;
use crate::runner::Plan;

/// Something to measure.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// Runs it.
    pub run: fn(&Plan) -> Vec<Record>,
}

/// Every scenario.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "timeseries-insert",
        about: "ascending keys, stamped just before the insert, from every thread",
        run: time_series::insert,
    },
    Scenario {
        name: "timeseries-lookup",
        about: "every loaded key once, shuffled",
        run: time_series::lookup,
    },
    Scenario {
        name: "timeseries-scan",
        about: "0 to 99 entries from a uniformly random key",
        run: time_series::scan,
    },
    Scenario {
        name: "timeseries-mixed",
        about: "half inserts, and scans and lookups, in both readings of the published mix",
        run: time_series::mixed,
    },
    Scenario {
        name: "timeseries-latency",
        about: "latencies of inserts, and of queries under the mix, beside an empty operation",
        run: latency::run,
    },
    Scenario {
        name: "newest-scan",
        about: "50 entries from a hundred keys back while keys arrive, against 50 old ones",
        run: newest_scan::run,
    },
];

/// The scenario of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<Scenario> {
    ALL.iter().find(|scenario| scenario.name == name).copied()
}
