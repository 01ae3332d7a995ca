//! Batches into a Bε-tree with default settings, reads of the tree as they left it, and the I/O of
//! both.

use std::hint::black_box;
use std::ops::Bound;
use std::time::{Duration, Instant};

use bedload_pages::{FaultyPages, PageStore, Result};
use bedload_trees::be_tree::{BeTree, BeTreeOptions, Pressure, Progress};
use bedload_trees::{Entry, NoRow, Position, Row, U64Order};

use super::workload::{PAGE_BYTES, address, ns_each, pages, scattered};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::{Entrant, Trial};

const BATCH: usize = 100_000;
const LOOKUPS: u64 = 100_000;
/// Bits of a filter for each key.
const FILTER_BITS: u8 = 12;

/// An order of keys, and whether runs have filters.
#[derive(Debug, Clone, Copy)]
struct Setting {
    key: fn(u64) -> u64,
    has_filters: bool,
}

const SETTINGS: [Entrant<Setting>; 3] = [
    Entrant::ours(
        "random",
        Setting {
            key: scattered,
            has_filters: false,
        },
    ),
    Entrant::ours(
        "random, filters",
        Setting {
            key: scattered,
            has_filters: true,
        },
    ),
    Entrant::ours(
        "in order",
        Setting {
            key: |number| number << 8,
            has_filters: false,
        },
    ),
];

pub(super) fn subjects() -> Vec<&'static str> {
    SETTINGS.iter().map(|entrant| entrant.name).collect()
}

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let entries = plan.entries() as u64;
    Trial::new("be-tree", SETTINGS[0].name, plan)
        .param("entries", entries)
        .run_each(&SETTINGS, |entrant, _| {
            measure(entries, entrant.make).expect("pages in memory do not fail")
        })
}

fn measure(entries: u64, Setting { key, has_filters }: Setting) -> Result<Vec<Figure>> {
    let mut options = BeTreeOptions::new();
    if has_filters {
        options = options.filter_bits(FILTER_BITS);
    }
    let pages = FaultyPages::new(pages(), []);
    let tree = BeTree::create(&pages, U64Order, NoRow, options)?;
    let mut maintainer = tree.maintainer();
    let [mut sorting, mut writing, mut maintaining] = [Duration::ZERO; 3];
    let mut batch = Vec::new();
    for first in (0..entries).step_by(BATCH) {
        batch.clear();
        batch.extend((first..entries.min(first + BATCH as u64)).map(|row| (key(row), address(row))));
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
    let report = tree.verify()?;
    assert!(report.is_sound(), "{:?}", report.problems);
    let written = 1.0 + maintainer.done().entries_written as f64 / entries as f64;
    let bytes = report.pages.len() as f64 * PAGE_BYTES as f64 / entries as f64;

    let rows = || (0..entries).step_by(usize::try_from((entries / LOOKUPS).max(1)).unwrap_or(usize::MAX));
    let count = rows().count() as u64;
    let pages_each = |before: u64| (pages.calls().reads - before) as f64 / count as f64;
    let (before, start) = (pages.calls().reads, Instant::now());
    for row in rows() {
        let found = tree.get_with(&U64Order::key(key(row)), address(row), |entry| entry.prefix())?;
        assert_eq!(found, Some(key(row)));
    }
    let (looking_up, pages_of_lookup) = (start.elapsed(), pages_each(before));

    let (before, start) = (pages.calls().reads, Instant::now());
    for row in rows() {
        let from = U64Order::key(key(row));
        let position = Position { key: &from, tie: 0 };
        let mut cursor = tree.range(Bound::Included(position), Bound::Unbounded)?;
        for _ in 0..10 {
            black_box(cursor.next_entry()?.map(|entry| entry.prefix()));
        }
    }
    let (ranging, pages_of_range) = (start.elapsed(), pages_each(before));

    let start = Instant::now();
    let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded)?;
    let mut scanned = 0;
    while let Some(entry) = cursor.next_entry()? {
        black_box(entry.prefix());
        scanned += 1;
    }
    assert_eq!(scanned, entries);
    let scanning = start.elapsed();
    Ok(vec![
        Figure::new("sort", "ns", ns_each(sorting, entries)),
        Figure::new("write", "ns", ns_each(writing, entries)),
        Figure::new("maintain", "ns", ns_each(maintaining, entries)),
        Figure::new("times an entry is written", "", written),
        Figure::new("bytes an entry", "B", bytes),
        Figure::new("lookup", "ns", ns_each(looking_up, count)),
        Figure::new("pages of a lookup", "", pages_of_lookup),
        Figure::new("range of ten", "ns", ns_each(ranging, count)),
        Figure::new("pages of a range of ten", "", pages_of_range),
        Figure::new("scan", "ns", ns_each(scanning, entries)),
    ])
}
