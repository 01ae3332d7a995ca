//! Measures a Bε-tree: to sort a batch, to write it, to push it down; what is written, and what a
//! lookup and a short range read; for 8-byte keys, each with a row address, on pages of 8 KiB in
//! memory.
//!
//! ```sh
//! cargo run --release -p bedload-trees --example be_tree_costs -- [ENTRIES] [ENTRIES_PER_BATCH]
//! ```

use std::hint::black_box;
use std::ops::Bound;
use std::time::{Duration, Instant};

use bedload_pages::{FaultyPages, HeapPages, PageStore, Result};
use bedload_trees::be_tree::{BeTree, BeTreeOptions, Pressure, Progress};
use bedload_trees::{Entry, NoRow, Position, Row, U64Order};

const PAGE_BYTES: usize = 8192;
/// The bytes of each page that a database server keeps for itself.
const HEADER_BYTES: usize = 24;
const ROWS_PER_PAGE: u64 = 200;
const LOOKUPS: u64 = 100_000;

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map_while(|text| text.parse().ok());
    let entries: u64 = numbers.next().unwrap_or(5_000_000);
    let per_batch: u64 = numbers.next().unwrap_or(100_000);
    let plain = BeTreeOptions::new();
    measure("random keys", plain, entries, per_batch, scattered)?;
    let with_filters = plain.filter_bits(12);
    measure(
        "random keys, filters of 12 bits",
        with_filters,
        entries,
        per_batch,
        scattered,
    )?;
    measure("keys in order", plain, entries, per_batch, |number| number << 8)
}

/// Spreads numbers over all of the keys, none twice.
fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Where a row stands: the number of its page, then its number in the page.
fn address(row: u64) -> u64 {
    ((row / ROWS_PER_PAGE) << 16) | (row % ROWS_PER_PAGE)
}

fn measure(
    what: &str,
    config: BeTreeOptions,
    entries: u64,
    per_batch: u64,
    key: impl Fn(u64) -> u64,
) -> Result<()> {
    let pages = FaultyPages::new(HeapPages::new(PAGE_BYTES - HEADER_BYTES), []);
    let tree = BeTree::create(&pages, U64Order, NoRow, config)?;
    let mut maintainer = tree.maintainer();
    let [mut sorting, mut writing, mut maintaining] = [Duration::ZERO; 3];
    let mut batch = Vec::new();
    let mut row = 0;
    while row < entries {
        let until = (row + per_batch).min(entries);
        batch.clear();
        batch.extend((row..until).map(|row| (key(row), address(row))));
        row = until;
        let start = Instant::now();
        batch.sort_unstable();
        sorting += start.elapsed();
        let start = Instant::now();
        let mut sorted = tree.batch()?;
        for &(key, tie) in &batch {
            let (key, row) = (U64Order::key(key), Row::default());
            sorted.put(Entry { key: &key, tie, row })?;
        }
        let pressure = sorted.publish()?;
        writing += start.elapsed();
        let start = Instant::now();
        if pressure != Pressure::None {
            while maintainer.work(1024)? == Progress::Paused {}
        }
        pages.reclaim()?;
        maintaining += start.elapsed();
    }
    let per_entry = |time: Duration, entries: u64| time.as_nanos() as f64 / entries.max(1) as f64;
    let done = maintainer.done();
    println!("{what}, {entries} in batches of {per_batch}");
    println!(
        "  an entry: sort {:.1} ns, write {:.1}, maintain {:.1}; {:.1} for each that maintenance writes",
        per_entry(sorting, entries),
        per_entry(writing, entries),
        per_entry(maintaining, entries),
        per_entry(maintaining, done.entries_written),
    );
    let report = tree.verify()?;
    assert!(report.is_sound(), "{:?}", report.problems);
    println!(
        "  written {:.2} times ({} push-downs, {} merges, {} splits); {:.2} runs' entries and {:.1} bytes for each; \
         height {}, {} leaves, {} runs above them",
        1.0 + done.entries_written as f64 / entries as f64,
        done.push_downs,
        done.merges,
        done.splits,
        report.entries as f64 / entries as f64,
        report.pages.len() as f64 * PAGE_BYTES as f64 / entries as f64,
        report.height,
        report.leaves,
        report.runs_above,
    );
    let step = (entries / LOOKUPS).max(1);
    let rows = || (0..entries).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let (before, start) = (pages.calls().reads, Instant::now());
    for row in rows() {
        let found = tree.get_with(&U64Order::key(key(row)), address(row), |entry| entry.prefix())?;
        assert_eq!(found, Some(key(row)));
    }
    let count = rows().count() as u64;
    println!(
        "  a lookup: {:.0} ns, {:.1} pages",
        per_entry(start.elapsed(), count),
        (pages.calls().reads - before) as f64 / count as f64
    );
    let (before, start) = (pages.calls().reads, Instant::now());
    for row in rows() {
        let from = U64Order::key(key(row));
        let position = Position { key: &from, tie: 0 };
        let mut cursor = tree.range(Bound::Included(position), Bound::Unbounded)?;
        for _ in 0..10 {
            black_box(cursor.next_entry()?.map(|entry| entry.prefix()));
        }
    }
    println!(
        "  a range of ten: {:.0} ns, {:.1} pages",
        per_entry(start.elapsed(), count),
        (pages.calls().reads - before) as f64 / count as f64
    );
    let start = Instant::now();
    let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded)?;
    let mut scanned = 0;
    while let Some(entry) = cursor.next_entry()? {
        black_box(entry.prefix());
        scanned += 1;
    }
    assert_eq!(scanned, entries);
    println!(
        "  a scan of all: {:.1} ns an entry",
        per_entry(start.elapsed(), entries)
    );
    Ok(())
}
