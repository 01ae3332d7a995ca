//! Filters of runs: the same batch written without and with one.

use std::time::{Duration, Instant};

use bedload_pages::Result;
use bedload_trees::run::{Run, RunOptions};
use bedload_trees::{KeyOrder, U64Order};

use super::runs::{reader, write};
use super::workload::{address, ns_each, pages, scattered};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::{Entrant, Trial};

const QUESTIONS: u64 = 1_000_000;

/// Bits for each key.
const BITS: [Entrant<u8>; 4] = [
    Entrant::ours("8 bits", 8),
    Entrant::ours("10 bits", 10),
    Entrant::ours("12 bits", 12),
    Entrant::ours("16 bits", 16),
];

pub(super) fn subjects() -> Vec<&'static str> {
    BITS.iter().map(|entrant| entrant.name).collect()
}

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let entries = plan.entries() as u64;
    Trial::new("run-filters", BITS[0].name, plan)
        .param("entries", entries)
        .run_each(&BITS, |entrant, _| {
            measure(entries, entrant.make).expect("pages in memory do not fail")
        })
}

fn measure(entries: u64, bits: u8) -> Result<Vec<Figure>> {
    let pages = pages();
    let mut batch: Vec<(u64, u64)> = (0..entries).map(|row| (scattered(row), address(row))).collect();
    batch.sort_unstable();
    let timed = |options| -> Result<(Run, Duration)> {
        let start = Instant::now();
        let run = write(&pages, &batch, options)?;
        Ok((run, start.elapsed()))
    };
    let (_, without) = timed(RunOptions::new())?;
    let (run, with) = timed(RunOptions::new().filter_bits(bits))?;
    let reader = reader(&pages, run);
    let may_contain = |row| {
        let hash = U64Order.hash(&U64Order::key(scattered(row)));
        reader.may_contain(hash.expect("numbers have one"))
    };
    for row in 0..entries {
        assert!(may_contain(row)?, "a key that is there is denied");
    }
    let questions = entries.min(QUESTIONS);
    let start = Instant::now();
    let mut admitted = 0;
    for row in entries..entries + questions {
        admitted += u64::from(may_contain(row)?);
    }
    let asking = start.elapsed();
    Ok(vec![
        Figure::new(
            "absent keys admitted",
            "%",
            100.0 * admitted as f64 / questions as f64,
        ),
        Figure::new("write without", "ns", ns_each(without, entries)),
        Figure::new("write with the filter", "ns", ns_each(with, entries)),
        Figure::new("ask", "ns", ns_each(asking, questions)),
    ])
}
