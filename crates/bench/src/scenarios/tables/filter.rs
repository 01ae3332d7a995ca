//! Rows of a condition on a column, which few meet.

use std::time::Duration;

use super::arrival::Arrival;
use super::case::Case;
use super::ingest::{by_turns, load, trial};
use super::oracle::Oracle;
use super::stage::{Turns, ask_all};
use super::worker::{Request, milliseconds};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::subjects::tables::{Checksum, TableStore, stores_and_files, timed};

/// One of so many rows meets the condition.
const ONE_OF: usize = 1_000;

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

/// Reads all rows, and those of the condition.
pub(super) fn read(store: &dyn TableStore, oracle: &Oracle, name: &str) -> Vec<Figure> {
    let (celsius, expected) = oracle.cold(ONE_OF);
    let mut rows = 0;
    let ((), all) = timed(|| {
        store.range(i64::MIN, i64::MAX, &mut |batch| rows += batch.num_rows() as u64);
    });
    assert_eq!(rows, oracle.len() as u64, "{name}: all rows");
    let mut found = Vec::new();
    let ((), cold): ((), Duration) = timed(|| store.cold(celsius, &mut |batch| found.push(batch.clone())));
    let mut sum = Checksum::default();
    found.iter().for_each(|batch| sum.add(batch));
    assert_eq!(sum, expected, "{name}: rows of at most {celsius} degrees");
    let times = all.as_secs_f64() / cold.as_secs_f64();
    vec![
        Figure::new("all rows", "ms", milliseconds(all)),
        Figure::new("a thousandth by temperature", "ms", milliseconds(cold)),
        Figure::new("all rows to the thousandth", "times", times),
    ]
}
