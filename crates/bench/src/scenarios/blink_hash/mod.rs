//! The Blink-hash paper (Cha et al., PVLDB 2023), whose scenarios the SB-tree paper repeats.

mod conversion;
mod delayed;
mod factors;
mod latency;
mod memory;
mod motivation;
mod newest_scan;
mod splits;
pub(super) mod time_series;
mod ycsb;

use super::scenario::Scenario;
use crate::subjects::{BASELINE, CONVERTING, INDEXES, OF_ADDRESSES, names};

/// The scenarios of this paper.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "timeseries-insert",
        about: "ascending keys, stamped just before the insert, from every thread",
        subjects: || names(INDEXES),
        run: time_series::insert,
    },
    Scenario {
        name: "timeseries-lookup",
        about: "every loaded key once, shuffled",
        subjects: || names(INDEXES),
        run: time_series::lookup,
    },
    Scenario {
        name: "timeseries-scan",
        about: "0 to 99 entries from a uniformly random key",
        subjects: || names(INDEXES),
        run: time_series::scan,
    },
    Scenario {
        name: "timeseries-mixed",
        about: "half inserts, and scans and lookups, in both readings of the published mix",
        subjects: || names(INDEXES),
        run: time_series::mixed,
    },
    Scenario {
        name: "timeseries",
        about: "the four before, of one load: for sizes that take long to load",
        subjects: || names(INDEXES),
        run: time_series::all,
    },
    Scenario {
        name: "timeseries-latency",
        about: "latencies of inserts, and of queries under the mix, beside an empty operation",
        subjects: || names(INDEXES),
        run: latency::run,
    },
    Scenario {
        name: "newest-scan",
        about: "50 entries from a hundred keys back while keys arrive, against 50 old ones",
        subjects: || names(INDEXES),
        run: newest_scan::run,
    },
    Scenario {
        name: "blink-hash-conversion",
        about: "scans that convert hash leaves, the same scans after that, and of one entry",
        subjects: || names(CONVERTING),
        run: conversion::run,
    },
    Scenario {
        name: "motivation",
        about: "random and ascending inserts, beside a hash table",
        subjects: || names(INDEXES),
        run: motivation::run,
    },
    Scenario {
        name: "delayed",
        about: "inserts of late keys: by 1 us to 1 s, and by shares, beside buffered straw men",
        subjects: || names(INDEXES),
        run: delayed::run,
    },
    Scenario {
        name: "delayed-mixed",
        about: "the mix, mostly of long scans, with inserts late by 1 us to 1 s, beside buffered straw men",
        subjects: || names(INDEXES),
        run: delayed::mixed,
    },
    Scenario {
        name: "ycsb",
        about: "Load, A, B, C and E, with integers, with latencies",
        subjects: || names(INDEXES),
        run: ycsb::integers,
    },
    Scenario {
        name: "ycsb-addresses",
        about: "the same with e-mail addresses",
        subjects: || names(OF_ADDRESSES),
        run: ycsb::addresses,
    },
    Scenario {
        name: "memory",
        about: "bytes for each entry, and where they go, for 8- and 32-byte keys",
        subjects: || names(INDEXES),
        run: memory::run,
    },
    Scenario {
        name: "factor-analysis",
        about: "from B-link tree to Blink-hash, one step after another",
        subjects: || vec![BASELINE],
        run: factors::factor_analysis,
    },
    Scenario {
        name: "blink-hash-tuning",
        about: "Blink-hash with one parameter changed at a time",
        subjects: || vec![BASELINE],
        run: factors::tuning,
    },
    Scenario {
        name: "blink-hash-splits",
        about: "how far from the middle sampled medians divide hash leaves, and how full those were",
        subjects: splits::subjects,
        run: splits::run,
    },
];
