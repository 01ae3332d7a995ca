//! The SWARE buffer as published, setting by setting.

use std::hint::black_box;

use bedload_memory::near_sorted::{BPlusTree, NearSortedTree, TreeOptions};
use bedload_memory::swa_buffer::{BufferOptions, Filters, SaTree};
use bedload_sortedness::Sortedness;
use bedload_testkit::Rng;
use quanta::Instant;

use super::near_sorted::mixed_figures;
use crate::near_sorted::input::{Degree, Input, value_of};
use crate::near_sorted::subjects::Mapping;
use crate::record::Record;
use crate::runner::{Figure, Plan, Samples, summarise};

/// A subject: a tree, and a buffer in front of it or none.
struct Setting {
    name: &'static str,
    tree: TreeOptions,
    /// By the number of entries to come.
    buffer: Option<fn(usize) -> BufferOptions>,
}

/// What is done with each subject.
#[derive(Clone, Copy)]
enum Work {
    /// Ingest; then, with the buffer as full as it is, lookups of any key.
    IngestThenLookup,
    /// When 80 % are there, the rest with so many lookups for ten operations.
    Mixed,
}

/// What ratios refer to: the tree below, with the textbook's splits and no buffer.
const PLAIN: &str = "plain";
const PAPER: &str = "paper";
/// The same as [`PLAIN`]: how far its ratio is from 1 is the noise of a run.
const AGAIN: &str = "plain again";
const NEAR_SORTED: &str = "near-sorted";

fn tree(split_percent: usize) -> TreeOptions {
    TreeOptions::new().tail_leaf(false).split_percent(split_percent)
}

/// The paper's buffer: 1 % of the data.
fn paper(entries: usize) -> BufferOptions {
    BufferOptions::new(entries / 100)
}

const fn setting(name: &'static str, tree: TreeOptions, buffer: fn(usize) -> BufferOptions) -> Setting {
    Setting {
        name,
        tree,
        buffer: Some(buffer),
    }
}

fn plain() -> Setting {
    Setting {
        name: PLAIN,
        tree: tree(50),
        buffer: None,
    }
}

fn grid_settings() -> Vec<Setting> {
    vec![plain(), setting(PAPER, tree(80), paper)]
}

/// One thing changed in each: filters (Fig. 17), zone maps, query-driven sorting (Fig. 16), the part that is drained,
/// splits (Table I).
fn ablation_settings() -> Vec<Setting> {
    vec![
        plain(),
        setting(PAPER, tree(80), paper),
        setting("no filters", tree(80), |entries| {
            paper(entries).filters(Filters::None)
        }),
        setting("global filter", tree(80), |entries| {
            paper(entries).filters(Filters::Global)
        }),
        setting("no zone maps", tree(80), |entries| {
            paper(entries).zone_maps(false)
        }),
        setting("sorting at 1 %", tree(80), |entries| {
            paper(entries).query_sorting_percent(1)
        }),
        setting("sorting at 25 %", tree(80), |entries| {
            paper(entries).query_sorting_percent(25)
        }),
        setting("no query sorting", tree(80), |entries| {
            paper(entries).query_sorting_percent(100)
        }),
        setting("drain of 25 %", tree(80), |entries| {
            paper(entries).drain_percent(25)
        }),
        setting("drain of 75 %", tree(80), |entries| {
            paper(entries).drain_percent(75)
        }),
        setting("split at 50:50", tree(50), paper),
        setting("split at 90:10", tree(90), paper),
    ]
}

fn buffer_size_settings() -> Vec<Setting> {
    vec![
        plain(),
        setting("0.5 % buffer", tree(80), |entries| {
            BufferOptions::new(entries / 200)
        }),
        setting("1 % buffer", tree(80), paper),
        setting("2 % buffer", tree(80), |entries| BufferOptions::new(entries / 50)),
        setting("5 % buffer", tree(80), |entries| BufferOptions::new(entries / 20)),
    ]
}

/// Buffers of 0.05 to 1 % (Table III, Fig. 21).
fn receipt_date_settings() -> Vec<Setting> {
    vec![
        plain(),
        setting("0.05 % buffer", tree(80), |entries| {
            BufferOptions::new(entries / 2000)
        }),
        setting("0.1 % buffer", tree(80), |entries| {
            BufferOptions::new(entries / 1000)
        }),
        setting("0.25 % buffer", tree(80), |entries| {
            BufferOptions::new(entries / 400)
        }),
        setting("0.5 % buffer", tree(80), |entries| {
            BufferOptions::new(entries / 200)
        }),
        setting("1 % buffer", tree(80), paper),
    ]
}

fn names(settings: &[Setting]) -> Vec<&'static str> {
    settings.iter().map(|setting| setting.name).collect()
}

pub(super) fn grid_subjects() -> Vec<&'static str> {
    names(&grid_settings())
}

pub(super) fn ablation_subjects() -> Vec<&'static str> {
    names(&ablation_settings())
}

pub(super) fn buffer_size_subjects() -> Vec<&'static str> {
    names(&buffer_size_settings())
}

pub(super) fn receipt_date_subjects() -> Vec<&'static str> {
    let mut names = names(&receipt_date_settings());
    names.extend([AGAIN, NEAR_SORTED]);
    names
}

fn entries(plan: &Plan) -> usize {
    plan.entries_of(1_000_000, 10_000_000)
}

fn run(
    scenario: &'static str,
    plan: &Plan,
    degrees: &[Degree],
    settings: &[Setting],
    work: Work,
) -> Vec<Record> {
    let mut records = Vec::new();
    for &degree in degrees {
        let name = degree.to_string();
        if !plan.takes_degree(&name) {
            continue;
        }
        let input = Input::new(degree, entries(plan), 7);
        let mut samples = Samples::new();
        for number in 0..plan.rounds().min(3) {
            let mut rng = Rng::new(number as u64);
            for setting in settings.iter().filter(|setting| plan.takes(setting.name, PLAIN)) {
                let mut base = BPlusTree::with_options(setting.tree);
                let figures = match setting.buffer {
                    None => round(work, &mut base, &input, &mut rng),
                    Some(buffer) => {
                        let mut tree = SaTree::new(base, buffer(input.keys.len()));
                        let mut figures = round(work, &mut tree, &input, &mut rng);
                        figures.push(top_inserts(&tree));
                        figures
                    }
                };
                samples.add(setting.name, figures);
            }
            if let Work::Mixed = work {
                if plan.takes(NEAR_SORTED, PLAIN) {
                    let figures = round(work, &mut NearSortedTree::new(), &input, &mut rng);
                    samples.add(NEAR_SORTED, figures);
                }
                if plan.takes(AGAIN, PLAIN) {
                    let figures = round(work, &mut BPlusTree::with_options(tree(50)), &input, &mut rng);
                    samples.add(AGAIN, figures);
                }
            }
        }
        let measured = Sortedness::of_keys(&input.keys);
        let percent = |count: u64| format!("{:.2} %", 100.0 * count as f64 / measured.rows as f64);
        let params = [
            ("degree", name),
            ("entries", input.keys.len().to_string()),
            ("K", percent(measured.k)),
            ("L", percent(measured.l)),
        ];
        records.extend(summarise(scenario, PLAIN, &params, &samples));
    }
    records
}

fn round(work: Work, map: &mut impl Mapping, input: &Input, rng: &mut Rng) -> Vec<Figure> {
    match work {
        Work::IngestThenLookup => ingest_then_lookup(map, input, rng),
        Work::Mixed => {
            let figures = mixed_figures(map, input, rng);
            for &key in input.keys.iter().step_by(101) {
                assert_eq!(map.get(key), Some(value_of(key)), "a key is lost");
            }
            figures
        }
    }
}

fn ingest_then_lookup(map: &mut impl Mapping, input: &Input, rng: &mut Rng) -> Vec<Figure> {
    let len = input.keys.len();
    let start = Instant::now();
    for &key in &input.keys {
        map.insert(key, value_of(key));
    }
    let ingest = start.elapsed().as_secs_f64() * 1e9 / len as f64;
    for &key in input.keys.iter().step_by(101) {
        assert_eq!(map.get(key), Some(value_of(key)), "a key is lost");
    }
    let probes: Vec<u64> = (0..len / 5).map(|_| input.keys[rng.index(len)]).collect();
    let start = Instant::now();
    for &key in &probes {
        black_box(map.get(key));
    }
    let lookup = start.elapsed().as_secs_f64() * 1e9 / probes.len() as f64;
    [("ingest", ingest), ("lookup", lookup)]
        .map(|(metric, value)| Figure {
            metric: metric.to_owned(),
            unit: "ns",
            value,
        })
        .to_vec()
}

fn top_inserts(tree: &SaTree<BPlusTree>) -> Figure {
    let drained = tree.drained();
    let all = drained.top_inserts + drained.appended;
    Figure {
        metric: "top inserts".to_owned(),
        unit: "%",
        value: drained.top_inserts as f64 * 100.0 / all.max(1) as f64,
    }
}

pub(super) fn grid(plan: &Plan) -> Vec<Record> {
    let shares = [0.0, 2.0, 10.0, 20.0, 100.0];
    let displacements = [1.0, 5.0, 10.0, 50.0];
    let degrees: Vec<Degree> = shares
        .iter()
        .flat_map(|&k| displacements.iter().map(move |&l| Degree::Nearly(k, l)))
        .collect();
    run(
        "sware-grid",
        plan,
        &degrees,
        &grid_settings(),
        Work::IngestThenLookup,
    )
}

pub(super) fn ablation(plan: &Plan) -> Vec<Record> {
    let degrees = [
        Degree::Nearly(2.0, 1.0),
        Degree::Nearly(20.0, 10.0),
        Degree::Nearly(100.0, 50.0),
    ];
    run(
        "sware-ablation",
        plan,
        &degrees,
        &ablation_settings(),
        Work::IngestThenLookup,
    )
}

pub(super) fn buffer_size(plan: &Plan) -> Vec<Record> {
    run(
        "sware-buffer-size",
        plan,
        &[Degree::Nearly(10.0, 5.0)],
        &buffer_size_settings(),
        Work::IngestThenLookup,
    )
}

/// Real receipt dates, and keys of the degrees that the paper made up for this: the one that it measured on them, and the
/// other extreme.
pub(super) fn receipt_dates(plan: &Plan) -> Vec<Record> {
    let degrees = [
        Degree::ReceiptDates,
        Degree::Nearly(96.67, 0.1),
        Degree::Nearly(5.0, 95.0),
    ];
    run(
        "tpch-receiptdate",
        plan,
        &degrees,
        &receipt_date_settings(),
        Work::Mixed,
    )
}
