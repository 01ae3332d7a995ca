//! Rows of a condition on a column, which few meet.

use super::arrival::Arrival;
use super::case::Case;
use super::ingest::{by_turns, load, trial};
use super::protocol::Request;
use super::stage::{Turns, ask_all};
use crate::plan::Plan;
use crate::record::Record;
use crate::subjects::tables::stores_and_files;

/// Times that each store reads all rows, and those of the condition, in turn with the others.
const TURNS: usize = 5;

/// Measures reading the coldest thousandth of the rows. Temperatures follow the time of day, so
/// that the least and greatest of neighbouring rows tell where they are.
pub(super) fn filter(plan: &Plan) -> Vec<Record> {
    let rows = plan.entries_of(4_000_000, 20_000_000);
    let case = Case::new(Arrival::SecondLate);
    trial("table-filter", &case, rows, plan).run(|round, samples| {
        let input = case.input(rows, round);
        let entrants = by_turns(&stores_and_files(), plan, round).into_iter();
        let loaded =
            entrants.filter_map(|entrant| load(plan, entrant, &case, case.options(), &input, samples));
        let (mut stages, _dirs): (Vec<_>, Vec<_>) = loaded.unzip();
        let turns = Turns {
            turns: plan.tiny_or(1, TURNS),
            warm: 1,
        };
        ask_all(&mut stages, samples, turns, |_| Request::Filter);
    })
}
