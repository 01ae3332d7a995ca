//! Batches of random keys, each with a row address, written as one or several runs and merged.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bedload_pages::{HeapPages, Result};
use bedload_trees::run::{Run, RunBuilder, RunEntry, RunOptions, RunReader, merge};
use bedload_trees::{Entry, NoRow, Row, U64Order};

use super::workload::{PAGE_BYTES, address, ns_each, pages, scattered};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::{Entrant, Trial};

const LOOKUPS: u64 = 100_000;

/// The number of runs into which the entries are divided.
const RUNS: [Entrant<u64>; 3] = [
    Entrant::ours("1 run", 1),
    Entrant::ours("2 runs", 2),
    Entrant::ours("8 runs", 8),
];

pub(super) fn subjects() -> Vec<&'static str> {
    RUNS.iter().map(|entrant| entrant.name).collect()
}

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let entries = plan.entries() as u64;
    Trial::new("runs", RUNS[0].name, plan)
        .param("entries", entries)
        .run_each(&RUNS, |entrant, _| {
            measure(entries, entrant.make).expect("pages in memory do not fail")
        })
}

fn measure(entries: u64, runs: u64) -> Result<Vec<Figure>> {
    let pages = pages();
    let each = entries / runs;
    let [mut sorting, mut writing] = [Duration::ZERO; 2];
    let mut readers = Vec::new();
    for run in 0..runs {
        let mut batch: Vec<(u64, u64)> = (run * each..(run + 1) * each)
            .map(|row| (scattered(row), address(row)))
            .collect();
        let start = Instant::now();
        batch.sort_unstable();
        sorting += start.elapsed();
        let start = Instant::now();
        let run = write(&pages, &batch, RunOptions::new())?;
        writing += start.elapsed();
        readers.push(reader(&pages, run));
    }
    let written = each * runs;
    let start = Instant::now();
    let merged = merge(&pages, &readers, U64Order, NoRow, RunOptions::new(), false)?.expect("it has entries");
    let merging = start.elapsed();
    assert_eq!(merged.entries, written);
    let bytes = f64::from(merged.pages) * PAGE_BYTES as f64 / merged.entries as f64;

    let reader = reader(&pages, merged);
    let lookups = merged.entries.min(LOOKUPS);
    let start = Instant::now();
    for lookup in 0..lookups {
        let row = lookup * (merged.entries / lookups);
        let view = |entry: RunEntry<'_, _, _>| black_box(entry.prefix());
        let found = reader.get_with(&U64Order::key(scattered(row)), address(row), view)?;
        assert_eq!(found, Some(scattered(row)));
    }
    let looking_up = start.elapsed();
    Ok(vec![
        Figure::new("sort", "ns", ns_each(sorting, written)),
        Figure::new("write", "ns", ns_each(writing, written)),
        Figure::new("merge", "ns", ns_each(merging, written)),
        Figure::new("merged run", "B", bytes),
        Figure::new("lookup", "ns", ns_each(looking_up, lookups)),
    ])
}

pub(super) fn write(pages: &HeapPages, batch: &[(u64, u64)], options: RunOptions) -> Result<Run> {
    let mut builder = RunBuilder::new(pages, U64Order, NoRow, options)?;
    for &(key, tie) in batch {
        builder.push(Entry {
            key: &U64Order::key(key),
            tie,
            row: Row::default(),
        })?;
    }
    Ok(builder.finish()?.expect("it has entries"))
}

pub(super) fn reader(pages: &HeapPages, run: Run) -> RunReader<U64Order, NoRow, &HeapPages> {
    RunReader::new(pages, U64Order, NoRow, RunOptions::new(), run)
}
