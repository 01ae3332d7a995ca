//! The SWARE buffer as published, setting by setting.

use bedload_memory::swa_buffer::{BufferOptions, Filters, SaTree};
use bedload_sortedness::Sortedness;

use super::by_degree::{
    ByDegree, PLAIN, Turn, TurnWork, buffered, entrant, near_sorted, paper, plain, plain_again, tree,
};
use super::input::Degree;
use crate::plan::Plan;
use crate::record::Record;
use crate::runner::Entrant;
use crate::subjects::names;

const PAPER: &str = "paper";
const PAPER_OF_5_PERCENT: &str = "5 % buffer";

/// The buffer of 1 % (Fig. 14a to c) and of 5 % (Fig. 14d).
fn grid_entrants(work: TurnWork) -> Vec<Entrant<Turn>> {
    vec![
        plain(work),
        entrant(PAPER, work, |entries| buffered(paper(entries))),
        entrant(PAPER_OF_5_PERCENT, work, |entries| {
            buffered(BufferOptions::new(entries / 20))
        }),
    ]
}

/// Each entrant changes one setting: filters (Fig. 17), zone maps, query-driven sorting (Fig. 16),
/// the share that is drained, splits (Table I).
fn ablation_entrants(work: TurnWork) -> Vec<Entrant<Turn>> {
    vec![
        plain(work),
        entrant(PAPER, work, |entries| buffered(paper(entries))),
        entrant("no filters", work, |entries| {
            buffered(paper(entries).filters(Filters::None))
        }),
        entrant("global filter", work, |entries| {
            buffered(paper(entries).filters(Filters::Global))
        }),
        entrant("no zone maps", work, |entries| {
            buffered(paper(entries).zone_maps(false))
        }),
        entrant("sorting at 1 %", work, |entries| {
            buffered(paper(entries).query_sorting_percent(1))
        }),
        entrant("sorting at 5 %", work, |entries| {
            buffered(paper(entries).query_sorting_percent(5))
        }),
        entrant("sorting at 25 %", work, |entries| {
            buffered(paper(entries).query_sorting_percent(25))
        }),
        entrant("no query sorting", work, |entries| {
            buffered(paper(entries).query_sorting_percent(100))
        }),
        entrant("drain of 25 %", work, |entries| {
            buffered(paper(entries).drain_percent(25))
        }),
        entrant("drain of 75 %", work, |entries| {
            buffered(paper(entries).drain_percent(75))
        }),
        entrant("split at 50:50", work, |entries| {
            SaTree::new(tree(50), paper(entries))
        }),
        entrant("split at 60:40", work, |entries| {
            SaTree::new(tree(60), paper(entries))
        }),
        entrant("split at 70:30", work, |entries| {
            SaTree::new(tree(70), paper(entries))
        }),
        entrant("split at 90:10", work, |entries| {
            SaTree::new(tree(90), paper(entries))
        }),
    ]
}

fn buffer_size_entrants(work: TurnWork) -> Vec<Entrant<Turn>> {
    vec![
        plain(work),
        entrant("0.5 % buffer", work, |entries| {
            buffered(BufferOptions::new(entries / 200))
        }),
        entrant("1 % buffer", work, |entries| buffered(paper(entries))),
        entrant("2 % buffer", work, |entries| {
            buffered(BufferOptions::new(entries / 50))
        }),
        entrant(PAPER_OF_5_PERCENT, work, |entries| {
            buffered(BufferOptions::new(entries / 20))
        }),
    ]
}

/// Buffers of 0.05 to 1 % (Table III, Fig. 21).
fn receipt_date_entrants(work: TurnWork) -> Vec<Entrant<Turn>> {
    vec![
        plain(work),
        entrant("0.05 % buffer", work, |entries| {
            buffered(BufferOptions::new(entries / 2000))
        }),
        entrant("0.1 % buffer", work, |entries| {
            buffered(BufferOptions::new(entries / 1000))
        }),
        entrant("0.25 % buffer", work, |entries| {
            buffered(BufferOptions::new(entries / 400))
        }),
        entrant("0.5 % buffer", work, |entries| {
            buffered(BufferOptions::new(entries / 200))
        }),
        entrant("1 % buffer", work, |entries| buffered(paper(entries))),
        near_sorted(work),
        plain_again(work),
    ]
}

pub(super) fn grid_subjects() -> Vec<&'static str> {
    names(&grid_entrants(TurnWork::MixedSampled))
}

pub(super) fn ablation_subjects() -> Vec<&'static str> {
    names(&ablation_entrants(TurnWork::Both))
}

pub(super) fn buffer_size_subjects() -> Vec<&'static str> {
    names(&buffer_size_entrants(TurnWork::IngestThenLookup))
}

pub(super) fn receipt_date_subjects() -> Vec<&'static str> {
    names(&receipt_date_entrants(TurnWork::MixedSampled))
}

fn run(scenario: &'static str, plan: &Plan, degrees: &[Degree], entrants: &[Entrant<Turn>]) -> Vec<Record> {
    let by_degree = ByDegree {
        scenario,
        baseline: PLAIN,
        plan,
        entries: plan.entries_of(1_000_000, 10_000_000),
    };
    let records = degrees.iter().map(|&degree| {
        by_degree.at(
            degree,
            |trial, input| {
                let measured = Sortedness::of_keys(&input.keys);
                let percent = |count: u64| format!("{:.2} %", 100.0 * count as f64 / measured.rows as f64);
                trial
                    .param("K", percent(measured.k))
                    .param("L", percent(measured.l))
            },
            entrants,
            |entrant, input, rng| (entrant.make)(input, rng),
        )
    });
    records.flatten().collect()
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
        &grid_entrants(TurnWork::MixedSampled),
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
        &ablation_entrants(TurnWork::Both),
    )
}

pub(super) fn buffer_size(plan: &Plan) -> Vec<Record> {
    run(
        "sware-buffer-size",
        plan,
        &[Degree::Nearly(10.0, 5.0)],
        &buffer_size_entrants(TurnWork::IngestThenLookup),
    )
}

/// Real receipt dates, and generated keys of two degrees: the one that the paper measured on them,
/// and the other extreme.
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
        &receipt_date_entrants(TurnWork::MixedSampled),
    )
}
