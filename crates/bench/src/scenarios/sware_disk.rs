//! The B+-tree of pages in a file, behind a cache of 1 % of the data, with and without a buffer (Fig. 18 of the paper).
//!
//! Files are read and written past the system's cache where the file system can (`direct` in the parameters); set `TMPDIR` to
//! choose the disk.

use std::hint::black_box;
use std::path::Path;

use bedload::{FilePages, FilePagesOptions, PageCounts};
use bedload_memory::ExclusiveMap;
use bedload_memory::swa_buffer::{BufferOptions, PagedTree, SaTree};
use bedload_testkit::Rng;
use bedload_trees::bplus_tree::BPlusTreeOptions;
use quanta::Instant;

use super::near_sorted::mixed_figures;
use crate::near_sorted::input::{Degree, Input, value_of};
use crate::near_sorted::subjects::{Mapping, add_entry};
use crate::record::Record;
use crate::runner::{Figure, Plan, Samples, summarise};

const PLAIN: &str = "plain";

/// The subjects: how full nodes are split, and the buffer, by the number of entries to come.
type Setting = (&'static str, u8, Option<fn(usize) -> BufferOptions>);

const SETTINGS: &[Setting] = &[
    (PLAIN, 50, None),
    ("fast path", 80, None),
    ("paper", 80, Some(|entries| BufferOptions::new(entries / 100))),
    (
        "held",
        80,
        Some(|entries| BufferOptions::new(entries / 100).held_percent(60)),
    ),
];

pub(super) fn subjects() -> Vec<&'static str> {
    SETTINGS.iter().map(|setting| setting.0).collect()
}

enum Tree<'p> {
    Plain(Box<PagedTree<&'p FilePages>>),
    Buffered(Box<SaTree<PagedTree<&'p FilePages>>>),
}

impl<'p> Tree<'p> {
    fn new(pages: &'p FilePages, setting: &Setting, entries: usize) -> Self {
        let config = BPlusTreeOptions::new().split_percent(setting.1);
        let tree = PagedTree::create(pages, config).expect("an empty tree");
        match setting.2 {
            None => Self::Plain(Box::new(tree)),
            Some(buffer) => Self::Buffered(Box::new(SaTree::new(tree, buffer(entries)))),
        }
    }

    fn drain(&mut self) {
        if let Self::Buffered(tree) = self {
            tree.drain();
        }
    }

    fn read_up(&self, lower: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        match self {
            Self::Plain(tree) => tree.read_up(lower, u64::MAX, entries),
            Self::Buffered(tree) => tree.read_up(lower, u64::MAX, entries),
        }
    }

    /// Everything must be there, once.
    fn verify(&self, input: &Input) {
        let (mut all, mut entries, mut from) = ((0, 0), Vec::new(), Some(0));
        while let Some(lower) = from {
            entries.clear();
            from = self.read_up(lower, &mut entries);
            all = entries.iter().fold(all, |all, &entry| add_entry(all, entry));
        }
        let keys = input.keys.iter();
        let expected = keys.fold((0, 0), |all, &key| add_entry(all, (key, value_of(key))));
        assert_eq!(all, expected, "a scan differs");
        let base = match self {
            Self::Plain(tree) => tree,
            Self::Buffered(tree) => tree.base(),
        };
        assert!(base.failure().is_none(), "{:?}", base.failure());
    }
}

impl Mapping for Tree<'_> {
    fn insert(&mut self, key: u64, value: u64) {
        match self {
            Self::Plain(tree) => tree.insert(key, value),
            Self::Buffered(tree) => tree.insert(key, value),
        }
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        match self {
            Self::Plain(tree) => tree.get(key),
            Self::Buffered(tree) => {
                if tree.wants_preparation() {
                    tree.prepare_reads();
                }
                tree.get(key)
            }
        }
    }
}

/// Pages in a fresh file, with a cache of 1 % of the entries' bytes.
fn pages(path: &Path, entries: usize, direct: bool) -> bedload::Result<FilePages> {
    let options = FilePagesOptions::new().cache_bytes(entries * 16 / 100);
    FilePages::create(path, options.direct(direct))
}

fn figure(metric: &str, unit: &'static str, value: f64) -> Figure {
    Figure {
        metric: metric.to_owned(),
        unit,
        value,
    }
}

/// Bytes read and written between two counts, for each operation.
fn io_figures(work: &str, before: PageCounts, after: PageCounts, operations: usize) -> Vec<Figure> {
    let each = |bytes: u64| bytes as f64 / operations as f64;
    let (read, written) = (
        each(after.bytes_read - before.bytes_read),
        each(after.bytes_written - before.bytes_written),
    );
    vec![
        figure(&format!("{work}, I/O"), "B", read + written),
        figure(&format!("{work}, read"), "B", read),
        figure(&format!("{work}, written"), "B", written),
    ]
}

fn round(setting: &Setting, input: &Input, direct: bool, rng: &mut Rng) -> Vec<Figure> {
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
    let mut figures = vec![figure("ingest", "ns", seconds * 1e9 / len as f64)];
    figures.extend(io_figures("ingest", PageCounts::default(), ingested, len));
    tree.verify(input);

    let probes: Vec<u64> = (0..len / 20).map(|_| input.keys[rng.index(len)]).collect();
    let (before, start) = (store.counts(), Instant::now());
    for &key in &probes {
        assert_eq!(black_box(tree.get(key)), Some(value_of(key)), "a key is lost");
    }
    let seconds = start.elapsed().as_secs_f64();
    figures.push(figure("lookup", "ns", seconds * 1e9 / probes.len() as f64));
    figures.extend(io_figures("lookup", before, store.counts(), probes.len()));

    let store = pages(&dir.path().join("mixed"), len, direct).expect("a fresh file");
    let mut tree = Tree::new(&store, setting, len);
    figures.extend(mixed_figures(&mut tree, input, rng));
    tree.verify(input);
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
    let entries = plan.entries_of(300_000, 5_000_000);
    let mut records = Vec::new();
    for degree in degrees {
        let name = degree.to_string();
        if !plan.takes_degree(&name) {
            continue;
        }
        let input = Input::new(degree, entries, 7);
        let mut samples = Samples::new();
        for number in 0..plan.rounds().min(3) {
            for setting in SETTINGS.iter().filter(|setting| plan.takes(setting.0, PLAIN)) {
                let figures = round(setting, &input, direct, &mut Rng::new(number as u64));
                samples.add(setting.0, figures);
            }
        }
        let params = [
            ("degree", name),
            ("entries", input.keys.len().to_string()),
            ("direct", direct.to_string()),
        ];
        records.extend(summarise("sware-disk", PLAIN, &params, &samples));
    }
    records
}
