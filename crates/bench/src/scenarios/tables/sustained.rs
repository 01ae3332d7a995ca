//! A long ingest beside readers: how long appends wait.

use super::arrival::Arrival;
use super::case::Case;
use super::ingest::by_turns;
use super::protocol::Request;
use super::stage::{Failed, TableStage};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::Trial;
use crate::subjects::tables::{TABLE_BASELINE, stores};

/// Appends at full speed, with durable commits, while a thread reads the newest and other rows.
pub(super) fn sustained(plan: &Plan) -> Vec<Record> {
    let milliseconds = plan.milliseconds_of(10_000, 600_000);
    let cases = [Arrival::SecondLate, Arrival::Scrambled].map(Case::new);
    let taken = cases
        .into_iter()
        .filter(|case| plan.takes_degree(&case.to_string()));
    let of_case = |case: Case| {
        let trial = Trial::new("table-sustained", TABLE_BASELINE, plan)
            .param("degree", case)
            .param("seconds", milliseconds as f64 / 1e3);
        trial.run(|round, samples| {
            for entrant in by_turns(&stores(), plan, round) {
                let dir = tempfile::tempdir().expect("a temporary directory");
                let measure = || -> Result<Vec<Figure>, Failed> {
                    let (mut stage, _) = TableStage::open(plan, entrant, &dir, case.options(), None)?;
                    stage.ask(&Request::Sustain {
                        arrival: case.arrival,
                        batch_rows: plan.tiny_or(100, case.batch_rows),
                        milliseconds,
                    })
                };
                if let Ok(figures) = measure() {
                    samples.add(entrant.name, figures);
                }
            }
        })
    };
    taken.flat_map(of_case).collect()
}
