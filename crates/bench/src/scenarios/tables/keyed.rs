//! Tables with a key, a time and a sensor: rows take the place of those with the same key.

use super::arrival::Arrival;
use super::case::Case;
use super::ingest::by_turns;
use super::protocol::Request;
use super::stage::{Failed, TableStage};
use super::upserts::{Kind, Upserts};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::Trial;
use crate::subjects::tables::{TABLE_BASELINE, TableOptions, stores};

/// Varies which rows are put.
pub(super) fn keyed(plan: &Plan) -> Vec<Record> {
    let rows = plan.entries_of(1_000_000, 10_000_000);
    let kinds = [
        Kind::Corrections,
        Kind::SingleCorrections,
        Kind::Scattered,
        Kind::Again,
    ];
    let taken = kinds
        .into_iter()
        .filter(|kind| plan.takes_degree(&kind.to_string()));
    let of_kind = |kind: Kind| {
        let upserts = |seed| Upserts { kind, rows, seed };
        let trial = Trial::new("table-keyed", TABLE_BASELINE, plan)
            .param("degree", kind)
            .param("rows", rows)
            .param("batch", upserts(0).batch_rows());
        trial.run(|round, samples| {
            for entrant in by_turns(&stores(), plan, round) {
                let dir = tempfile::tempdir().expect("a temporary directory");
                let options = TableOptions {
                    has_key: true,
                    ..Case::new(Arrival::InOrder).options()
                };
                let measure = || -> Result<Vec<Figure>, Failed> {
                    let (mut stage, _) = TableStage::open(plan, entrant, &dir, options, None)?;
                    stage.ask(&Request::Upsert(upserts(round)))
                };
                if let Ok(figures) = measure() {
                    samples.add(entrant.name, figures);
                }
            }
        })
    };
    taken.flat_map(of_kind).collect()
}
