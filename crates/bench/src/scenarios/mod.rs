//! What is measured.

#[cfg(feature = "coherence")]
mod coherence;
mod delayed;
mod factors;
mod latency;
mod memory;
mod motivation;
mod near_sorted;
mod newest_scan;
mod segment;
mod sparse;
mod sparse_growth;
mod splits;
mod sware;
mod sware_disk;
mod sware_scale;
mod time_series;
mod ycsb;
mod zipf;

use crate::record::Record;
use crate::runner::Plan;
use crate::stores;
use crate::subjects;

/// Something to measure.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// The names of its subjects.
    pub subjects: fn() -> Vec<&'static str>,
    /// Runs it.
    pub run: fn(&Plan) -> Vec<Record>,
}

fn concurrent_subjects() -> Vec<&'static str> {
    subjects::INDEXES.iter().map(|entrant| entrant.name).collect()
}

/// Of scenarios of variants of one index, what all of them are compared with.
fn baseline() -> Vec<&'static str> {
    vec![subjects::BASELINE]
}

/// Every scenario.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "timeseries-insert",
        about: "ascending keys, stamped just before the insert, from every thread",
        subjects: concurrent_subjects,
        run: time_series::insert,
    },
    Scenario {
        name: "timeseries-lookup",
        about: "every loaded key once, shuffled",
        subjects: concurrent_subjects,
        run: time_series::lookup,
    },
    Scenario {
        name: "timeseries-scan",
        about: "0 to 99 entries from a uniformly random key",
        subjects: concurrent_subjects,
        run: time_series::scan,
    },
    Scenario {
        name: "timeseries-mixed",
        about: "half inserts, and scans and lookups, in both readings of the published mix",
        subjects: concurrent_subjects,
        run: time_series::mixed,
    },
    Scenario {
        name: "timeseries",
        about: "the four before, of one load: for sizes that take long to load",
        subjects: concurrent_subjects,
        run: time_series::all,
    },
    Scenario {
        name: "timeseries-latency",
        about: "latencies of inserts, and of queries under the mix, beside an empty operation",
        subjects: concurrent_subjects,
        run: latency::run,
    },
    Scenario {
        name: "newest-scan",
        about: "50 entries from a hundred keys back while keys arrive, against 50 old ones",
        subjects: concurrent_subjects,
        run: newest_scan::run,
    },
    Scenario {
        name: "segment",
        about: "what an SB-tree converts, how far it walks, and where the time goes",
        subjects: segment::subjects,
        run: segment::run,
    },
    Scenario {
        name: "motivation",
        about: "random and ascending inserts, beside a hash table",
        subjects: concurrent_subjects,
        run: motivation::run,
    },
    Scenario {
        name: "delayed",
        about: "inserts of late keys: by 1 us to 1 s, and by shares, beside buffered straw men",
        subjects: concurrent_subjects,
        run: delayed::run,
    },
    Scenario {
        name: "delayed-mixed",
        about: "the mix, mostly of long scans, with inserts late by 1 us to 1 s, beside buffered straw men",
        subjects: concurrent_subjects,
        run: delayed::mixed,
    },
    Scenario {
        name: "ycsb",
        about: "Load, A, B, C and E, with integers and with e-mail addresses, with latencies",
        subjects: concurrent_subjects,
        run: ycsb::run,
    },
    Scenario {
        name: "memory",
        about: "bytes for each entry, and where they go, for 8- and 32-byte keys",
        subjects: concurrent_subjects,
        run: memory::run,
    },
    Scenario {
        name: "factor-analysis",
        about: "from B-link tree to Blink-hash, one step after another",
        subjects: baseline,
        run: factors::factor_analysis,
    },
    Scenario {
        name: "blink-hash-tuning",
        about: "Blink-hash with one parameter changed at a time",
        subjects: baseline,
        run: factors::tuning,
    },
    Scenario {
        name: "blink-hash-splits",
        about: "how far from the middle sampled medians divide hash leaves, and how full those were",
        subjects: splits::subjects,
        run: splits::run,
    },
    #[cfg(feature = "coherence")]
    Scenario {
        name: "coherence",
        about: "cache lines that 1 to 64 simulated writers of ascending keys take from one another",
        subjects: baseline,
        run: coherence::run,
    },
    Scenario {
        name: "near-sorted-ingest",
        about: "keys by degree of order, drained within the clock, against sorting and packing them",
        subjects: near_sorted::subjects,
        run: near_sorted::ingest,
    },
    Scenario {
        name: "near-sorted-lookup",
        about: "lookups of any key and of recent ones, with all that is buffered left where it is",
        subjects: near_sorted::subjects,
        run: near_sorted::lookup,
    },
    Scenario {
        name: "near-sorted-scan",
        about: "scans of 0.01 to 10 % of the keys, and of the newest, likewise",
        subjects: near_sorted::subjects,
        run: near_sorted::scan,
    },
    Scenario {
        name: "near-sorted-mixed",
        about: "inserts and lookups in turn, when 80 % of the keys are there",
        subjects: near_sorted::subjects,
        run: near_sorted::mixed,
    },
    Scenario {
        name: "sware-grid",
        about: "the published buffer at 20 degrees of order",
        subjects: sware::grid_subjects,
        run: sware::grid,
    },
    Scenario {
        name: "sware-ablation",
        about: "the published buffer with one of its settings changed",
        subjects: sware::ablation_subjects,
        run: sware::ablation,
    },
    Scenario {
        name: "sware-buffer-size",
        about: "the published buffer by its size, of 0.5 to 5 % of the keys",
        subjects: sware::buffer_size_subjects,
        run: sware::buffer_size,
    },
    Scenario {
        name: "sware-disk",
        about: "trees of pages in a file with a cache of 1 % of the data, with and without a buffer; bytes counted",
        subjects: sware_disk::subjects,
        run: sware_disk::run,
    },
    Scenario {
        name: "sware-scale",
        about: "inserts and lookups in turn by the amount of data, and what of the buffer lookups scan",
        subjects: sware_scale::subjects,
        run: sware_scale::run,
    },
    Scenario {
        name: "tpch-receiptdate",
        about: "inserts and lookups in turn, of receipt dates in the order of ship dates",
        subjects: sware::receipt_date_subjects,
        run: sware::receipt_dates,
    },
    Scenario {
        name: "sparse-latency",
        about: "single rows of durable stores: read warm among few and many, written over",
        subjects: stores::names,
        run: sparse::latency,
    },
    Scenario {
        name: "sparse-growth",
        about: "what reading a row costs in tables of 100,000 rows and more, with as many places read",
        subjects: sparse_growth::subjects,
        run: sparse_growth::growth,
    },
    Scenario {
        name: "sparse-throughput",
        about: "durable batches of 1 to 65536 rows, and ranges into Arrow",
        subjects: sparse::throughput_subjects,
        run: sparse::throughput,
    },
    Scenario {
        name: "sparse-density",
        about: "bytes on the disk, by how many of the seconds have a row",
        subjects: stores::names,
        run: sparse::density,
    },
];

/// The scenario of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<Scenario> {
    ALL.iter().find(|scenario| scenario.name == name).copied()
}
