//! Ingest: rows per second, their variation, and the cost in processor time, disk and memory.

use std::time::Duration;

use bedload_testkit::Rng;

use super::arrival::{Arrival, Input};
use super::case::{BATCH_ROWS, Case};
use super::protocol::Request;
use super::stage::{Failed, TableStage, Turns, ask_all};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::{Samples, Trial};
use crate::subjects::tables::{TABLE_BASELINE, TableEntrant, TableOptions, stores, stores_and_files};

/// Ranges, rows and reads timed together after a load.
const RANGES: usize = 200;
const POINTS: usize = 2_000;
/// The fewest batches appended while the newest rows are read.
const BATCHES_BESIDE: usize = 50;
/// Reads of the newest rows meanwhile: ten are beyond the 99th percentile.
pub(super) const READS_BESIDE: usize = 1_100;
/// The longest load in small commits, of which a store may make a few hundred a second.
const SMALL_COMMITS: Duration = Duration::from_secs(3);

const INGEST: [Case; 15] = {
    use Arrival::{InOrder, Scrambled, SecondLate};
    [
        Case::new(InOrder),
        Case::new(SecondLate),
        Case::new(Scrambled),
        Case::new(InOrder).batches_of(1),
        Case::new(InOrder).batches_of(1).writers(4),
        Case::new(InOrder).batches_of(1).writers(16),
        Case::new(InOrder).batches_of(100),
        Case::new(InOrder).batches_of(400_000),
        Case::new(InOrder).relaxed(),
        Case::new(InOrder).batches_of(100).relaxed(),
        Case::new(Scrambled).relaxed(),
        Case::new(InOrder).writers(2),
        Case::new(InOrder).writers(4),
        Case::new(InOrder).batches_of(100).writers(2),
        Case::new(InOrder).batches_of(100).writers(4),
    ]
};

/// Varies batches, durabilities and writers.
pub(super) fn ingest(plan: &Plan) -> Vec<Record> {
    let most = plan.entries_of(2_000_000, 20_000_000);
    let taken = INGEST
        .into_iter()
        .filter(|case| plan.takes_degree(&case.to_string()));
    let of_case = |case: Case| {
        let rows = case.rows(most, plan);
        trial("table-ingest", &case, rows, plan).run(|round, samples| {
            for entrant in by_turns(&stores_and_files(), plan, round) {
                let is_out = !case.is_durable && !entrant.can_relax;
                // A file written once has no small commits or concurrent writers.
                let is_beside = !entrant.is_store && (case.batch_rows < BATCH_ROWS || case.writers > 1);
                if !is_out && !is_beside {
                    load(
                        plan,
                        entrant,
                        &case,
                        case.options(),
                        &case.input(rows, round),
                        samples,
                    );
                }
            }
        })
    };
    taken.flat_map(of_case).collect()
}

/// Varies the order of arrival, and reads after each load.
pub(super) fn late(plan: &Plan) -> Vec<Record> {
    let rows = plan.entries_of(1_000_000, 10_000_000);
    let arrivals = [
        Arrival::InOrder,
        Arrival::SecondLate,
        Arrival::MinutesLate,
        Arrival::Flights,
        Arrival::Git,
        Arrival::Backfills,
        Arrival::Scrambled,
    ];
    let taken = arrivals.map(Case::new);
    let taken = taken
        .into_iter()
        .filter(|case| plan.takes_degree(&case.to_string()));
    let of_case = |case: Case| {
        trial("table-late", &case, rows, plan).run(|round, samples| {
            for entrant in by_turns(&stores(), plan, round) {
                let loaded = load(
                    plan,
                    entrant,
                    &case,
                    case.options(),
                    &case.input(rows, round),
                    samples,
                );
                let Some((stage, _dir)) = loaded else { continue };
                read(plan, stage, rows, samples);
            }
        })
    };
    taken.flat_map(of_case).collect()
}

/// Loads a table many times as large as the caches of the stores; the system may cache all of it.
pub(super) fn beyond_memory(plan: &Plan) -> Vec<Record> {
    let rows = plan.entries_of(4_000_000, 50_000_000);
    // A constant share of the rows at each scale: 64 MiB for 50 M rows.
    let share = |bytes: usize| bytes / 1_000 * rows / 50_000;
    let cases = [Arrival::InOrder, Arrival::Scrambled].map(Case::new);
    let taken = cases
        .into_iter()
        .filter(|case| plan.takes_degree(&case.to_string()));
    let of_case = |case: Case| {
        let options = TableOptions {
            cache_bytes: share(64 << 20).max(1 << 20),
            buffer_bytes: share(32 << 20).max(1 << 20),
            ..case.options()
        };
        let trial = trial("table-beyond-memory", &case, rows, plan).param("cache bytes", options.cache_bytes);
        trial.run(|round, samples| {
            for entrant in by_turns(&stores(), plan, round) {
                let loaded = load(plan, entrant, &case, options, &case.input(rows, round), samples);
                let Some((stage, _dir)) = loaded else { continue };
                read(plan, stage, rows, samples);
            }
        })
    };
    taken.flat_map(of_case).collect()
}

pub(super) fn trial<'p>(scenario: &'static str, case: &Case, rows: usize, plan: &'p Plan) -> Trial<'p> {
    Trial::new(scenario, TABLE_BASELINE, plan)
        .param("degree", case)
        .param("rows", rows)
        .param("batch", case.batch_of(rows, plan))
}

/// Returns the selected stores, in another order in each round.
pub(super) fn by_turns(entrants: &[TableEntrant], plan: &Plan, round: u64) -> Vec<TableEntrant> {
    let taken = entrants
        .iter()
        .filter(|entrant| plan.takes(entrant.name, TABLE_BASELINE));
    let mut taken: Vec<TableEntrant> = taken.copied().collect();
    // Random, so that no store always follows the same one.
    Rng::new(round).shuffle(&mut taken);
    taken
}

/// Loads a fresh store, checks it, and adds its figures to the samples.
pub(super) fn load(
    plan: &Plan,
    entrant: TableEntrant,
    case: &Case,
    options: TableOptions,
    input: &Input,
    samples: &mut Samples,
) -> Option<(TableStage, tempfile::TempDir)> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let request = Request::Load {
        input: *input,
        batch_rows: case.batch_of(input.rows, plan),
        writers: case.writers,
        flushes: true,
        most: case.is_small().then_some(SMALL_COMMITS),
    };
    let measure = || -> Result<(TableStage, Vec<Figure>), Failed> {
        let (mut stage, _) = TableStage::open(plan, entrant, &dir, options, None)?;
        let figures = stage.ask(&request)?;
        stage.ask(&Request::Check)?;
        Ok((stage, figures))
    };
    let (stage, figures) = measure().ok()?;
    samples.add(entrant.name, figures);
    Some((stage, dir))
}

/// Reads from a loaded store.
fn read(plan: &Plan, stage: TableStage, rows: usize, samples: &mut Samples) {
    let (ranges, points) = (plan.tiny_or(2, RANGES), plan.tiny_or(2, POINTS));
    let mut stages = vec![stage];
    let once = || Turns { turns: 1, warm: 1 };
    let length = 1000.min(rows / 2).max(1);
    ask_all(&mut stages, samples, once(), |seed| Request::Ranges {
        rows: length,
        ranges,
        seed,
    });
    ask_all(&mut stages, samples, once(), |seed| Request::Points {
        rows: points,
        seed,
    });
    let batches = plan.tiny_or(1, BATCHES_BESIDE);
    let cold = Turns { turns: 1, warm: 0 };
    let reads = plan.tiny_or(1, READS_BESIDE);
    ask_all(&mut stages, samples, cold, |_| Request::NewestBeside {
        rows: length,
        batches,
        reads,
    });
}
