//! Tables: durable stores of time-stamped rows, from Arrow to Arrow.
//!
//! Each store runs in its own process, so that its memory, I/O and processor time are measured
//! separately; stores take turns. Every answer is checked before it is timed, and all rows are
//! checked after each load.

mod arrival;
mod case;
mod command;
mod deletions;
mod filter;
mod ingest;
mod keyed;
mod large;
mod oracle;
pub(super) mod process;
mod protocol;
mod read;
mod stage;
mod sustained;
mod upserts;
mod waits;
mod worker;

pub use stage::WORKER;
pub use worker::serve;

use super::scenario::Scenario;
use crate::subjects::tables::{TableEntrant, stores, stores_and_files};

fn names(entrants: &[TableEntrant]) -> Vec<&'static str> {
    entrants.iter().map(|entrant| entrant.name).collect()
}

/// The scenarios of tables.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "table-ingest",
        about: "rows in order, a second late and scrambled, in batches of 1 to 400,000, durable and relaxed, of 1 to 16 writers",
        subjects: || names(&stores_and_files()),
        run: ingest::ingest,
    },
    Scenario {
        name: "table-late",
        about: "rows that are minutes, months or years late: ingest, then ranges, rows and the newest beside a writer",
        subjects: || names(&stores()),
        run: ingest::late,
    },
    Scenario {
        name: "table-keyed",
        about: "tables with a key: corrections by the thousand and one by one, scattered times, the same rows again",
        subjects: || names(&stores()),
        run: keyed::keyed,
    },
    Scenario {
        name: "table-beyond-memory",
        about: "stores with small caches: each tenth of an ingest in order and scrambled, then ranges and rows",
        subjects: || names(&stores()),
        run: ingest::beyond_memory,
    },
    Scenario {
        name: "table-read",
        about: "ranges of 1 row to all into Arrow, rows, newest, counts, deletion, opening after a kill",
        subjects: || names(&stores_and_files()),
        run: read::read,
    },
    Scenario {
        name: "table-filter",
        about: "the thousandth of the rows that a condition on a column selects, beside all rows",
        subjects: || names(&stores_and_files()),
        run: filter::filter,
    },
    Scenario {
        name: "table-deletions",
        about: "all rows before and after 10,000 deletions of a few rows each",
        subjects: deletions::subjects,
        run: deletions::deletions,
    },
    Scenario {
        name: "table-sustained",
        about: "ingest at full speed for some seconds beside a reader: how long appends and reads wait",
        subjects: || names(&stores()),
        run: sustained::sustained,
    },
    Scenario {
        name: "table-command",
        about: "the command: a CSV file into a store, the store into a Parquet file",
        subjects: command::subjects,
        run: command::command,
    },
    Scenario {
        name: "table-large",
        about: "many rows: memory, opening, ranges, rows, and the deletion of half of them",
        subjects: || names(&stores()),
        run: large::large,
    },
];
