//! The SWARE buffer as published, setting by setting.

use std::hint::black_box;

use bedload_index::sware::{BPlusTree, BufferOptions, Filters, SaTree, SerialMap, TreeOptions};
use bedload_testkit::Rng;
use quanta::Instant;

use crate::near_sorted::input::{Degree, Input, value_of};
use crate::record::Record;
use crate::runner::{Figure, Plan, Samples, summarise};

/// A subject: a tree, and a buffer in front of it or none.
struct Setting {
    name: &'static str,
    tree: TreeOptions,
    /// By the number of entries to come.
    buffer: Option<fn(usize) -> BufferOptions>,
}

/// What ratios refer to: the tree below, with the textbook's splits and no buffer.
const PLAIN: &str = "plain";
const PAPER: &str = "paper";

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

fn entries(plan: &Plan) -> usize {
    plan.entries_of(1_000_000, 10_000_000)
}

fn run(scenario: &'static str, plan: &Plan, degrees: &[Degree], settings: &[Setting]) -> Vec<Record> {
    let mut records = Vec::new();
    for &degree in degrees {
        let input = Input::new(degree, entries(plan), 7);
        let mut samples = Samples::new();
        for number in 0..plan.rounds().min(3) {
            for setting in settings.iter().filter(|setting| plan.takes(setting.name, PLAIN)) {
                let mut rng = Rng::new(number as u64);
                let figures = match setting.buffer {
                    None => round(BPlusTree::with_options(setting.tree), &input, &mut rng),
                    Some(buffer) => {
                        let base = BPlusTree::with_options(setting.tree);
                        let mut tree = SaTree::new(base, buffer(input.keys.len()));
                        let mut figures = round(&mut tree, &input, &mut rng);
                        figures.push(top_inserts(&tree));
                        figures
                    }
                };
                samples.add(setting.name, figures);
            }
        }
        let params = [
            ("degree", degree.to_string()),
            ("entries", input.keys.len().to_string()),
        ];
        records.extend(summarise(scenario, PLAIN, &params, &samples));
    }
    records
}

/// Ingest; then, with the buffer as full as it is, lookups of any key.
fn round(mut map: impl Mapping, input: &Input, rng: &mut Rng) -> Vec<Figure> {
    let len = input.keys.len();
    let start = Instant::now();
    for &key in &input.keys {
        map.put(key, value_of(key));
    }
    let ingest = start.elapsed().as_secs_f64() * 1e9 / len as f64;
    for &key in input.keys.iter().step_by(101) {
        assert_eq!(map.look_up(key), Some(value_of(key)), "a key is lost");
    }
    let probes: Vec<u64> = (0..len / 5).map(|_| input.keys[rng.index(len)]).collect();
    let start = Instant::now();
    for &key in &probes {
        black_box(map.look_up(key));
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

/// A map whose lookups may sort.
trait Mapping {
    fn put(&mut self, key: u64, value: u64);
    fn look_up(&mut self, key: u64) -> Option<u64>;
}

impl Mapping for BPlusTree {
    fn put(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn look_up(&mut self, key: u64) -> Option<u64> {
        self.get(key)
    }
}

impl Mapping for &mut SaTree<BPlusTree> {
    fn put(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn look_up(&mut self, key: u64) -> Option<u64> {
        if self.wants_preparation() {
            self.prepare_reads();
        }
        self.get(key)
    }
}

pub(super) fn grid(plan: &Plan) -> Vec<Record> {
    let shares = [0.0, 2.0, 10.0, 20.0, 100.0];
    let displacements = [1.0, 5.0, 10.0, 50.0];
    let degrees: Vec<Degree> = shares
        .iter()
        .flat_map(|&k| displacements.iter().map(move |&l| Degree::Nearly(k, l)))
        .collect();
    run("sware-grid", plan, &degrees, &grid_settings())
}

pub(super) fn ablation(plan: &Plan) -> Vec<Record> {
    let degrees = [
        Degree::Nearly(2.0, 1.0),
        Degree::Nearly(20.0, 10.0),
        Degree::Nearly(100.0, 50.0),
    ];
    run("sware-ablation", plan, &degrees, &ablation_settings())
}

pub(super) fn buffer_size(plan: &Plan) -> Vec<Record> {
    run(
        "sware-buffer-size",
        plan,
        &[Degree::Nearly(10.0, 5.0)],
        &buffer_size_settings(),
    )
}
