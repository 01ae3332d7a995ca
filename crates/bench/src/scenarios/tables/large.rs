//! One large table: memory during the ingest, opening, and the deletion of half of it.

use super::arrival::Arrival;
use super::case::Case;
use super::ingest::{by_turns, load, trial};
use super::protocol::Request;
use super::stage::{Turns, ask_all};
use crate::plan::Plan;
use crate::record::Record;
use crate::subjects::tables::stores;

/// Ranges, rows and reads of the newest rows that are timed together.
const READS: usize = 500;
/// Openings and counts, each timed by itself.
const TURNS: usize = 5;

/// Loads a table of a hundred million rows, reads from it, opens it again, and deletes half of it.
pub(super) fn large(plan: &Plan) -> Vec<Record> {
    let rows = plan.entries_of(2_000_000, 100_000_000);
    let case = Case::new(Arrival::SecondLate);
    trial("table-large", &case, rows, plan).run(|round, samples| {
        for entrant in by_turns(&stores(), plan, round) {
            let input = case.input(rows, round);
            let loaded = load(plan, entrant, &case, case.options(), &input, samples);
            let Some((stage, _dir)) = loaded else { continue };
            let (mut stages, reads) = (vec![stage], plan.tiny_or(1, READS));
            let some = || Turns {
                turns: plan.tiny_or(1, TURNS),
                warm: 1,
            };
            let once = || Turns { turns: 1, warm: 0 };
            ask_all(&mut stages, samples, some(), |_| Request::Reopen);
            ask_all(&mut stages, samples, once(), |seed| Request::Ranges {
                rows: 1_000.min(rows / 2),
                ranges: reads,
                seed,
            });
            ask_all(&mut stages, samples, once(), |seed| Request::Points {
                rows: reads,
                seed,
            });
            ask_all(&mut stages, samples, some(), |seed| Request::Count { seed });
            ask_all(&mut stages, samples, once(), |_| Request::DeleteOlderHalf);
        }
    })
}
