//! Nearly sorted keys: ingest compared with the floor, and queries without draining the buffer.

use std::collections::BTreeMap;

use bedload_memory::near_sorted::{PackedTree, TreeOptions};
use bedload_testkit::Rng;

use super::by_degree::{
    ByDegree, PLAIN, Turn, TurnWork, buffered, entrant, near_sorted, paper, plain, plain_again,
};
use super::floor;
use super::input::{DEGREES, Input};
use super::turns::{INGEST, per_entry};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::Entrant;
use crate::subjects::names;

/// The fastest way to sort all keys and pack them.
const FLOOR: &str = "floor";

fn entrants(work: TurnWork) -> Vec<Entrant<Turn>> {
    vec![
        near_sorted(work),
        plain(work),
        plain_again(work),
        entrant("fast path", work, |_| {
            PackedTree::with_options(TreeOptions::new().split_percent(80))
        }),
        entrant("sware", work, |entries| buffered(paper(entries))),
        entrant("btree-map", work, |_| BTreeMap::<u64, u64>::new()),
    ]
}

fn floor_entrant() -> Entrant<Turn> {
    Entrant {
        name: FLOOR,
        is_peer: false,
        make: Box::new(|input, _| floor_figures(input)),
    }
}

fn floor_figures(input: &Input) -> Vec<Figure> {
    let mut figures: Vec<Figure> = floor::seconds(&input.keys)
        .into_iter()
        .map(|(way, seconds)| per_entry(&format!("ingest: {way}"), seconds, input.keys.len()))
        .collect();
    let fastest = figures
        .iter()
        .map(|figure| figure.value)
        .fold(f64::INFINITY, f64::min);
    figures.push(Figure::new(INGEST, "ns", fastest));
    figures
}

/// Returns the subjects of these scenarios; ingest has [`FLOOR`] too.
pub(super) fn subjects() -> Vec<&'static str> {
    names(&entrants(TurnWork::Ingest))
}

/// Runs rounds of all subjects at every degree of order. An uncounted first round touches the
/// process's memory for every subject.
fn run(
    scenario: &'static str,
    plan: &Plan,
    baseline: &'static str,
    entrants: Vec<Entrant<Turn>>,
) -> Vec<Record> {
    let by_degree = ByDegree {
        scenario,
        baseline,
        plan,
        entries: plan.entries_of(5_000_000, 50_000_000),
    };
    let mut is_first = true;
    let mut records = Vec::new();
    for degree in DEGREES {
        records.extend(by_degree.at(
            degree,
            |trial, _| trial,
            &entrants,
            |entrant, input, rng| {
                if std::mem::take(&mut is_first) {
                    (entrant.make)(input, &mut Rng::new(0));
                }
                (entrant.make)(input, rng)
            },
        ));
    }
    records
}

pub(super) fn ingest(plan: &Plan) -> Vec<Record> {
    let mut all = entrants(TurnWork::Ingest);
    all.push(floor_entrant());
    run("near-sorted-ingest", plan, FLOOR, all)
}

pub(super) fn lookup(plan: &Plan) -> Vec<Record> {
    run("near-sorted-lookup", plan, PLAIN, entrants(TurnWork::Lookup))
}

pub(super) fn scan(plan: &Plan) -> Vec<Record> {
    run("near-sorted-scan", plan, PLAIN, entrants(TurnWork::Scan))
}

pub(super) fn mixed(plan: &Plan) -> Vec<Record> {
    run("near-sorted-mixed", plan, PLAIN, entrants(TurnWork::Mixed))
}
