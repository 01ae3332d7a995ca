//! What is measured.

#[cfg(feature = "coherence")]
mod coherence;
mod delayed;
mod factors;
mod latency;
mod memory;
mod motivation;
mod newest_scan;
mod time_series;
mod ycsb;
mod zipf;

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
    Scenario {
        name: "motivation",
        about: "random and ascending inserts, beside a hash table",
        run: motivation::run,
    },
    Scenario {
        name: "delayed",
        about: "inserts of late keys: by 1 us to 1 s, and by shares, beside buffered straw men",
        run: delayed::run,
    },
    Scenario {
        name: "ycsb",
        about: "Load, A, B, C and E, with integers and with e-mail addresses, with latencies",
        run: ycsb::run,
    },
    Scenario {
        name: "memory",
        about: "bytes for each entry, and where they go, for 8- and 32-byte keys",
        run: memory::run,
    },
    Scenario {
        name: "factor-analysis",
        about: "from B-link tree to Blink-hash, one step after another",
        run: factors::factor_analysis,
    },
    Scenario {
        name: "blink-hash-tuning",
        about: "Blink-hash with one parameter changed at a time",
        run: factors::tuning,
    },
    #[cfg(feature = "coherence")]
    Scenario {
        name: "coherence",
        about: "cache lines that 1 to 64 simulated writers of ascending keys take from one another",
        run: coherence::run,
    },
];

/// The scenario of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<Scenario> {
    ALL.iter().find(|scenario| scenario.name == name).copied()
}
