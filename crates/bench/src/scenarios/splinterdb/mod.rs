//! Sorted runs, their filters, and the Bε-tree over them, on pages in memory.

mod be_tree;
mod filters;
mod runs;
mod workload;

use crate::scenarios::Scenario;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "runs",
        about: "sorting a batch, writing it as runs, merging these, and lookups in the merged run",
        subjects: runs::subjects,
        run: runs::run,
    },
    Scenario {
        name: "run-filters",
        about: "filters of runs by their bits for each key",
        subjects: filters::subjects,
        run: filters::run,
    },
    Scenario {
        name: "be-tree",
        about: "batches into a Bε-tree, what maintenance writes, and the pages that reads need",
        subjects: be_tree::subjects,
        run: be_tree::run,
    },
];
