//! A B+-tree of file pages with a cache of 1 % of the data, with and without a buffer (Fig. 18 of
//! the paper).
//!
//! File I/O bypasses the system's cache if the file system supports it (`direct` in the
//! parameters); set `TMPDIR` to choose the disk.

use std::hint::black_box;
use std::path::Path;

use bedload::{FilePages, FilePagesOptions, PageCounts};
use bedload_memory::ExclusiveMap;
use bedload_memory::swa_buffer::{BufferOptions, PagedTree, SaTree};
use bedload_testkit::Rng;
use bedload_trees::bplus_tree::BPlusTreeOptions;
use quanta::Instant;

use super::by_degree::{ByDegree, PLAIN, paper};
use super::input::{Degree, Input};
use super::turns;
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::Entrant;
use crate::subjects::{SerialSubject, add_entry, get_sorting, names, sum_of_reads, value_of};

/// The split percentage and the buffer, by the number of entries to come.
#[derive(Clone, Copy)]
struct Setting {
    split_percent: u8,
    buffer: Option<fn(usize) -> BufferOptions>,
}

const fn setting(
    name: &'static str,
    split_percent: u8,
    buffer: Option<fn(usize) -> BufferOptions>,
) -> Entrant<Setting> {
    Entrant {
        name,
        is_peer: false,
        make: Setting {
            split_percent,
            buffer,
        },
    }
}

const SETTINGS: &[Entrant<Setting>] = &[
    setting(PLAIN, 50, None),
    setting("fast path", 80, None),
    setting("paper", 80, Some(paper)),
    setting("held", 80, Some(|entries| paper(entries).held_percent(60))),
];

pub(super) fn subjects() -> Vec<&'static str> {
    names(SETTINGS)
}

enum Tree<'p> {
    Plain(Box<PagedTree<&'p FilePages>>),
    Buffered(Box<SaTree<PagedTree<&'p FilePages>>>),
}

impl<'p> Tree<'p> {
    fn new(pages: &'p FilePages, setting: Setting, entries: usize) -> Self {
        let options = BPlusTreeOptions::new().split_percent(setting.split_percent);
        let tree = PagedTree::create(pages, options).expect("an empty tree");
        match setting.buffer {
            None => Self::Plain(Box::new(tree)),
            Some(buffer) => Self::Buffered(Box::new(SaTree::new(tree, buffer(entries)))),
        }
    }
}

impl SerialSubject for Tree<'_> {
    fn insert(&mut self, key: u64, value: u64) {
        match self {
            Self::Plain(tree) => tree.insert(key, value),
            Self::Buffered(tree) => tree.insert(key, value),
        }
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        match self {
            Self::Plain(tree) => tree.get(key),
            Self::Buffered(tree) => get_sorting(tree, key),
        }
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        match self {
            Self::Plain(tree) => sum_of_reads(tree.as_ref(), lower, upper),
            Self::Buffered(tree) => sum_of_reads(tree.as_ref(), lower, upper),
        }
    }

    fn drain(&mut self) {
        if let Self::Buffered(tree) = self {
            tree.drain();
        }
    }
}

/// Checks that every key is there, once.
fn verify(tree: &Tree<'_>, input: &Input) {
    let keys = input.keys.iter();
    let expected = keys.fold((0, 0), |all, &key| add_entry(all, (key, value_of(key))));
    assert_eq!(tree.sum(0, u64::MAX), expected, "a scan differs");
    let base = match tree {
        Tree::Plain(tree) => tree,
        Tree::Buffered(tree) => tree.base(),
    };
    assert!(base.failure().is_none(), "{:?}", base.failure());
}

/// Creates pages in a new file, with a cache of 1 % of the entries' bytes.
fn pages(path: &Path, entries: usize, direct: bool) -> bedload::Result<FilePages> {
    let options = FilePagesOptions::new().cache_bytes(entries * 16 / 100);
    FilePages::create(path, options.direct(direct))
}

/// Returns the bytes read and written per operation between two counts.
fn io_figures(work: &str, before: PageCounts, after: PageCounts, operations: usize) -> Vec<Figure> {
    let each = |bytes: u64| bytes as f64 / operations as f64;
    let (read, written) = (
        each(after.bytes_read - before.bytes_read),
        each(after.bytes_written - before.bytes_written),
    );
    vec![
        Figure::new(format!("{work}, I/O"), "B", read + written),
        Figure::new(format!("{work}, read"), "B", read),
        Figure::new(format!("{work}, written"), "B", written),
    ]
}

fn round(setting: Setting, input: &Input, direct: bool, rng: &mut Rng) -> Vec<Figure> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let len = input.keys.len();
    let store = pages(&dir.path().join("ingest"), len, direct).expect("a fresh file");
    let mut tree = Tree::new(&store, setting, len);
    let start = Instant::now();
    for &key in &input.keys {
        tree.insert(key, value_of(key));
    }
    tree.drain();
    store.sync().expect("writes");
    let seconds = start.elapsed().as_secs_f64();
    let ingested = store.counts();
    let mut figures = vec![Figure::new("ingest", "ns", seconds * 1e9 / len as f64)];
    figures.extend(io_figures("ingest", PageCounts::default(), ingested, len));
    verify(&tree, input);

    let probes: Vec<u64> = (0..len / 20).map(|_| input.keys[rng.index(len)]).collect();
    let (before, start) = (store.counts(), Instant::now());
    for &key in &probes {
        assert_eq!(black_box(tree.get(key)), Some(value_of(key)), "a key is lost");
    }
    let seconds = start.elapsed().as_secs_f64();
    figures.push(Figure::new("lookup", "ns", seconds * 1e9 / probes.len() as f64));
    figures.extend(io_figures("lookup", before, store.counts(), probes.len()));

    let store = pages(&dir.path().join("mixed"), len, direct).expect("a fresh file");
    let mut tree = Tree::new(&store, setting, len);
    figures.extend(turns::mixed(&mut tree, input, rng));
    verify(&tree, input);
    figures
}

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let degrees = [
        Degree::Nearly(0.0, 0.0),
        Degree::Nearly(10.0, 5.0),
        Degree::Nearly(100.0, 50.0),
        Degree::Scrambled,
    ];
    let probe = tempfile::tempdir().expect("a temporary directory");
    let direct = pages(&probe.path().join("probe"), 0, true).is_ok();
    let by_degree = ByDegree {
        scenario: "sware-disk",
        baseline: PLAIN,
        plan,
        entries: plan.entries_of(300_000, 5_000_000),
    };
    let records = degrees.map(|degree| {
        by_degree.at(
            degree,
            |trial, _| trial.param("direct", direct),
            SETTINGS,
            |entrant, input, rng| round(entrant.make, input, direct, rng),
        )
    });
    records.concat()
}
