//! The XStore paper: durable stores of rows at fixed intervals.

mod growth;
mod rows;

use super::scenario::Scenario;
use crate::subjects::{ROW_STORES, names};

/// The scenarios of this paper.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "sparse-latency",
        about: "single rows of durable stores: read warm among few and many, written over",
        subjects: || names(ROW_STORES),
        run: rows::latency,
    },
    Scenario {
        name: "sparse-growth",
        about: "what reading a row costs in tables of 100,000 rows and more, with as many places read",
        subjects: growth::subjects,
        run: growth::growth,
    },
    Scenario {
        name: "sparse-throughput",
        about: "durable batches of 1 to 65536 rows, and ranges into Arrow",
        subjects: rows::throughput_subjects,
        run: rows::throughput,
    },
    Scenario {
        name: "sparse-density",
        about: "bytes on the disk, by how many of the seconds have a row",
        subjects: || names(ROW_STORES),
        run: rows::density,
    },
];
