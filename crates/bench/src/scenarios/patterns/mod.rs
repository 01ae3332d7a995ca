//! Orders of keys that no paper and no design here was tuned to.

mod keys;
mod subjects;
mod turns;

use self::keys::Pattern;
use self::subjects::{BASELINE, entrants};
use super::scenario::Scenario;
use crate::plan::Plan;
use crate::record::Record;
use crate::runner::Trial;
use crate::subjects::names;

/// The scenarios of this folder.
pub(super) const SCENARIOS: &[Scenario] = &[Scenario {
    name: NAME,
    about: "inserts, hits, misses and full scans of orders of keys that nothing was tuned to, one thread",
    subjects: || names(&entrants()),
    run,
}];

const NAME: &str = "patterns";

fn run(plan: &Plan) -> Vec<Record> {
    let entries = plan.entries_of(1_000_000, 5_000_000);
    let taken = Pattern::ALL
        .into_iter()
        .filter(|pattern| plan.takes_degree(pattern.name()));
    let mut records = Vec::new();
    for pattern in taken {
        let input = turns::Input::new(pattern, entries);
        let trial = Trial::new(NAME, BASELINE, plan)
            .param("degree", pattern.name())
            .param("rows", entries);
        records.extend(trial.run_each(&entrants(), |entrant, _| {
            let turn = entrant.unless_it_panics(|| (entrant.make)(&input));
            turn.unwrap_or_default()
        }));
    }
    records
}
