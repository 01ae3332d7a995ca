//! Rounds of the concurrent indexes, for every number of threads.

use std::cell::Cell;

use bedload_testkit::Rng;

use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::{Entrant, Samples, Trial};
use crate::subjects::{BASELINE, Make, Subject};

/// Runs `round` for every entrant in turn, in the plan's rounds, for every number of threads; in
/// another order in each round. One turn that does not count goes before them: the first takes its
/// memory from the system, and the others what the ones before gave back.
pub(super) fn rounds<K>(
    scenario: &'static str,
    plan: &Plan,
    entrants: &[Entrant<Make<K>>],
    round: impl Fn(&dyn Subject<K>, usize, u64) -> Vec<Figure>,
) -> Vec<Record> {
    let is_warm = Cell::new(false);
    rounds_of_all(scenario, plan, entrants, |entrants, threads, number, samples| {
        let mut entrants = entrants.to_vec();
        Rng::new(number).shuffle(&mut entrants);
        if let (Some(first), false) = (entrants.first(), is_warm.replace(true)) {
            first.unless_it_panics(|| round((first.make)().as_ref(), threads, number));
        }
        for entrant in entrants {
            let figures = entrant.unless_it_panics(|| round((entrant.make)().as_ref(), threads, number));
            samples.add(entrant.name, figures.unwrap_or_default());
        }
    })
}

/// Runs `round`, which measures all entrants, in the plan's rounds, for every number of threads.
pub(super) fn rounds_of_all<K>(
    scenario: &'static str,
    plan: &Plan,
    entrants: &[Entrant<Make<K>>],
    round: impl Fn(&[&Entrant<Make<K>>], usize, u64, &mut Samples),
) -> Vec<Record> {
    let rounds_of = |threads: usize| {
        let mut trial = Trial::new(scenario, BASELINE, plan)
            .param("threads", threads)
            .param("entries", plan.entries());
        if let Some(most) = plan.operations_max() {
            trial = trial.param("operations at most", most);
        }
        let taken: Vec<_> = entrants.iter().filter(|entrant| trial.takes(entrant)).collect();
        trial.run(|number, samples| round(&taken, threads, number, samples))
    };
    plan.threads().into_iter().flat_map(rounds_of).collect()
}
