//! Scans beside many deletions of a few rows each.

use super::arrival::Arrival;
use super::case::Case;
use super::ingest::{by_turns, load, trial};
use super::protocol::Request;
use super::stage::{Turns, ask_all};
use crate::plan::Plan;
use crate::record::Record;
use crate::subjects::tables::{TableEntrant, stores};

/// Deletions that no flush has applied yet.
const DELETIONS: usize = 10_000;

fn entrants() -> Vec<TableEntrant> {
    let stores = stores().into_iter();
    // Each deletion is a commit, and the time of a sync is not what is measured.
    stores.filter(|entrant| entrant.can_relax).collect()
}

/// Returns the names of the stores that take part.
pub(super) fn subjects() -> Vec<&'static str> {
    entrants().iter().map(|entrant| entrant.name).collect()
}

/// Measures reading all rows before and after 10,000 deletions.
pub(super) fn deletions(plan: &Plan) -> Vec<Record> {
    let rows = plan.entries_of(2_000_000, 20_000_000);
    let case = Case::new(Arrival::SecondLate).relaxed();
    trial("table-deletions", &case, rows, plan).run(|round, samples| {
        let input = case.input(rows, round);
        for entrant in by_turns(&entrants(), plan, round) {
            let loaded = load(plan, entrant, &case, case.options(), &input, samples);
            let Some((stage, _dir)) = loaded else { continue };
            let ranges = plan.tiny_or(10, DELETIONS);
            let once = Turns { turns: 1, warm: 0 };
            ask_all(&mut vec![stage], samples, once, |_| Request::DeleteFew { ranges });
        }
    })
}
