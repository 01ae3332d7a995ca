//! Measures runs: to sort a batch, to write it as a run, to merge runs, to look up, to have a
//! filter; for 8-byte random keys, each with a row address, on pages of 8 KiB in memory.
//!
//! ```sh
//! cargo run --release -p bedload-trees --example run_costs -- [ENTRIES]
//! ```

use std::hint::black_box;
use std::time::Instant;

use bedload_pages::{HeapPages, Result};
use bedload_trees::run::{Run, RunBuilder, RunEntry, RunOptions, RunReader, merge};
use bedload_trees::{Entry, KeyOrder, NoRow, Row, U64Order};

const PAGE_BYTES: usize = 8192;
/// The bytes of each page that a database server keeps for itself.
const HEADER_BYTES: usize = 24;
const ROWS_PER_PAGE: u64 = 200;

fn main() -> Result<()> {
    let entries: u64 = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(2_000_000);
    for runs in [1, 2, 8] {
        measure(entries, runs)?;
    }
    measure_filter(entries)
}

/// Spreads numbers over all of the keys, none twice.
fn key(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Where a row stands: the number of its page, then its number in the page.
fn address(row: u64) -> u64 {
    ((row / ROWS_PER_PAGE) << 16) | (row % ROWS_PER_PAGE)
}

fn per_entry(start: Instant, entries: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / entries as f64
}

fn measure(entries: u64, runs: u64) -> Result<()> {
    let pages = HeapPages::new(PAGE_BYTES - HEADER_BYTES);
    let each = entries / runs;
    let (mut sort_ns, mut write_ns) = (0.0, 0.0);
    let mut readers = Vec::new();
    for run in 0..runs {
        let mut batch: Vec<(u64, u64)> = (run * each..(run + 1) * each)
            .map(|row| (key(row), address(row)))
            .collect();
        let start = Instant::now();
        batch.sort_unstable();
        sort_ns += per_entry(start, each * runs);
        let start = Instant::now();
        let run = write(&pages, &batch, RunOptions::new())?;
        write_ns += per_entry(start, each * runs);
        readers.push(reader(&pages, run));
    }
    println!("{runs} runs of {each}: sort {sort_ns:.1} ns an entry, write {write_ns:.1}");
    let start = Instant::now();
    let merged = merge(&pages, &readers, U64Order, NoRow, RunOptions::new(), false)?.expect("it has entries");
    let merge_ns = per_entry(start, merged.entries);
    assert_eq!(merged.entries, each * runs);
    let bytes = f64::from(merged.pages) * PAGE_BYTES as f64 / merged.entries as f64;

    let reader = reader(&pages, merged);
    let lookups = merged.entries.min(100_000);
    let start = Instant::now();
    for lookup in 0..lookups {
        let row = lookup * (merged.entries / lookups);
        let view = |entry: RunEntry<'_, _, _>| black_box(entry.prefix());
        let found = reader.get_with(&U64Order::key(key(row)), address(row), view)?;
        assert_eq!(found, Some(key(row)));
    }
    let get_ns = per_entry(start, lookups);
    println!("  merged: {merge_ns:.1} ns an entry, {bytes:.2} bytes an entry; a lookup {get_ns:.0} ns");
    Ok(())
}

/// The same batch as a run without and with a filter: the difference is what the filter costs.
fn measure_filter(entries: u64) -> Result<()> {
    let pages = HeapPages::new(PAGE_BYTES - HEADER_BYTES);
    let mut batch: Vec<(u64, u64)> = (0..entries).map(|row| (key(row), address(row))).collect();
    batch.sort_unstable();
    let timed = |config| -> Result<(Run, f64)> {
        let start = Instant::now();
        let run = write(&pages, &batch, config)?;
        Ok((run, per_entry(start, entries)))
    };
    for bits in [8, 10, 12, 16] {
        let (_, plain_ns) = timed(RunOptions::new())?;
        let (run, ns) = timed(RunOptions::new().filter_bits(bits))?;
        let reader = reader(&pages, run);
        let may_contain = |row| {
            let hash = U64Order.hash(&U64Order::key(key(row)));
            reader.may_contain(hash.expect("numbers have one"))
        };
        for row in 0..entries {
            assert!(may_contain(row)?, "a key that is there is denied");
        }
        let questions = entries.min(1_000_000);
        let start = Instant::now();
        let mut admitted = 0;
        for row in entries..entries + questions {
            admitted += u64::from(may_contain(row)?);
        }
        let ask_ns = per_entry(start, questions);
        println!(
            "filter of {bits} bits: {:.1} ns an entry to build, {ask_ns:.0} to ask; admits {:.2} % of absent keys",
            ns - plain_ns,
            100.0 * admitted as f64 / questions as f64
        );
    }
    Ok(())
}

fn write(pages: &HeapPages, batch: &[(u64, u64)], config: RunOptions) -> Result<Run> {
    let mut builder = RunBuilder::new(pages, U64Order, NoRow, config)?;
    for &(key, tie) in batch {
        builder.push(Entry {
            key: &U64Order::key(key),
            tie,
            row: Row::default(),
        })?;
    }
    Ok(builder.finish()?.expect("it has entries"))
}

fn reader(pages: &HeapPages, run: Run) -> RunReader<U64Order, NoRow, &HeapPages> {
    RunReader::new(pages, U64Order, NoRow, RunOptions::new(), run)
}
