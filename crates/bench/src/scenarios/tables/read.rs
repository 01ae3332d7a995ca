//! Reading: ranges into Arrow, rows, the newest, counts, deletion; and opening after a kill.

use super::arrival::{Arrival, Input};
use super::case::Case;
use super::ingest::{READS_BESIDE, by_turns};
use super::protocol::Request;
use super::stage::{Failed, TableStage, Turns, ask_all};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::{Samples, Trial};
use crate::subjects::tables::{TABLE_BASELINE, TableEntrant, stores_and_files};

/// Turns of each store at a task per round; many short turns even out changes of the machine.
const TURNS: usize = 8;

/// Rows of a range, and ranges timed per turn.
const RANGES: [(usize, usize); 3] = [(1, 400), (1_000, 100), (100_000, 3)];
/// Rows read per turn.
const POINTS: usize = 1_000;
/// Newest rows read, and reads per turn.
const NEWEST: [(usize, usize); 2] = [(100, 200), (1_000, 50)];
/// The fewest batches of 1,000 rows appended while the newest rows are read.
const BATCHES_BESIDE: usize = 50;

/// Reads rows that arrived up to a second late in all ways.
pub(super) fn read(plan: &Plan) -> Vec<Record> {
    let rows = plan.entries_of(2_000_000, 20_000_000);
    let case = Case::new(Arrival::SecondLate);
    let trial = Trial::new("table-read", TABLE_BASELINE, plan)
        .param("degree", case)
        .param("rows", rows);
    trial.run(|round, samples| {
        let input = case.input(rows, round);
        let entrants = by_turns(&stores_and_files(), plan, round);
        let loaded = entrants.iter().filter_map(|&entrant| {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let stage = load(plan, entrant, &case, &dir, input, true).ok()?;
            Some((stage, dir))
        });
        let (mut stages, _dirs): (Vec<TableStage>, Vec<_>) = loaded.unzip();
        read_all(plan, &mut stages, rows, samples);
        drop(stages);
        for entrant in entrants.into_iter().filter(|entrant| entrant.is_store) {
            if let Ok(figures) = open_after_kill(plan, entrant, &case, input) {
                samples.add(entrant.name, figures);
            }
        }
    })
}

fn load(
    plan: &Plan,
    entrant: TableEntrant,
    case: &Case,
    dir: &tempfile::TempDir,
    input: Input,
    flushes: bool,
) -> Result<TableStage, Failed> {
    let (mut stage, _) = TableStage::open(plan, entrant, dir, case.options(), None)?;
    stage.ask(&Request::Load {
        input,
        batch_rows: case.batch_of(input.rows, plan),
        writers: 1,
        flushes,
        most: None,
    })?;
    if flushes {
        stage.ask(&Request::Check)?;
    }
    Ok(stage)
}

fn read_all(plan: &Plan, stages: &mut Vec<TableStage>, rows: usize, samples: &mut Samples) {
    let turns = plan.tiny_or(1, TURNS);
    let some = || Turns { turns, warm: 1 };
    let times = |times: usize| plan.tiny_or(1, times);
    for (length, ranges) in RANGES {
        let (length, ranges) = (length.min(rows / 2), times(ranges));
        ask_all(stages, samples, some(), |seed| Request::Ranges {
            rows: length,
            ranges,
            seed,
        });
    }
    let whole = Turns {
        turns: turns.div_ceil(2),
        warm: 1,
    };
    ask_all(stages, samples, whole, |seed| Request::Ranges {
        rows,
        ranges: 1,
        seed,
    });
    ask_all(stages, samples, some(), |seed| Request::Points {
        rows: times(POINTS),
        seed,
    });
    for (length, often) in NEWEST {
        let (length, often) = (length.min(rows), times(often));
        ask_all(stages, samples, some(), |_| Request::Newest {
            rows: length,
            times: often,
        });
    }
    ask_all(stages, samples, some(), |seed| Request::Count { seed });
    // A file written once cannot be appended to concurrently.
    stages.retain(|stage| stage.entrant.is_store);
    let once = || Turns { turns: 1, warm: 0 };
    ask_all(stages, samples, once(), |_| Request::DeleteOlderHalf);
    // The last, as stores append different numbers of rows beside their reads.
    let (batches, reads) = (plan.tiny_or(1, BATCHES_BESIDE), plan.tiny_or(1, READS_BESIDE));
    ask_all(stages, samples, once(), |_| Request::NewestBeside {
        rows: 1_000.min(rows / 2),
        batches,
        reads,
    });
}

/// Loads a store in durable batches, kills it, and opens it again: all rows must be there.
fn open_after_kill(
    plan: &Plan,
    entrant: TableEntrant,
    case: &Case,
    input: Input,
) -> Result<Vec<Figure>, Failed> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    load(plan, entrant, case, &dir, input, false)?.kill();
    let (mut stage, opened) = TableStage::open(plan, entrant, &dir, case.options(), Some(input))?;
    stage.ask(&Request::Check)?;
    let of_open = opened.into_iter().filter(|figure| figure.unit == "ms");
    let renamed = of_open.map(|figure| Figure {
        metric: format!("{} after a kill", figure.metric),
        ..figure
    });
    Ok(renamed.collect())
}
