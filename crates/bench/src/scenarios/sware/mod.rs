//! The SWARE paper (Raman et al., ICDE 2023): its buffer, and our near-sorted tree.

mod be_tree;
mod by_degree;
mod disk;
mod floor;
mod input;
mod near_sorted;
mod parts;
mod scale;
mod settings;
mod turns;

use super::scenario::Scenario;

/// The scenarios of this paper.
pub(super) const SCENARIOS: &[Scenario] = &[
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
        name: "sware-parts",
        about: "inserts and lookups with the published buffer, with the buffer alone, and without",
        subjects: parts::subjects,
        run: parts::run,
    },
    Scenario {
        name: "sware-grid",
        about: "inserts and lookups in turn with published buffers at 20 degrees of order",
        subjects: settings::grid_subjects,
        run: settings::grid,
    },
    Scenario {
        name: "sware-ablation",
        about: "the published buffer with one of its settings changed",
        subjects: settings::ablation_subjects,
        run: settings::ablation,
    },
    Scenario {
        name: "sware-buffer-size",
        about: "the published buffer by its size, of 0.5 to 5 % of the keys",
        subjects: settings::buffer_size_subjects,
        run: settings::buffer_size,
    },
    Scenario {
        name: "sware-disk",
        about: "trees of pages in a file with a cache of 1 % of the data, with and without a buffer; bytes counted",
        subjects: disk::subjects,
        run: disk::run,
    },
    Scenario {
        name: "sware-be-tree",
        about: "a Bε-tree of pages in memory with and without a buffer: inserts and lookups in turn",
        subjects: be_tree::subjects,
        run: be_tree::run,
    },
    Scenario {
        name: "sware-scale",
        about: "inserts and lookups in turn by the amount of data, and what of the buffer lookups scan",
        subjects: scale::subjects,
        run: scale::run,
    },
    Scenario {
        name: "tpch-receiptdate",
        about: "inserts and lookups in turn, of receipt dates in the order of ship dates",
        subjects: settings::receipt_date_subjects,
        run: settings::receipt_dates,
    },
];
