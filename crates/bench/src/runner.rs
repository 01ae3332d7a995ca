//! The harness of every scenario: runs the entrants in turns, round by round, and summarises their
//! figures.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use bedload_testkit::Rng;

use crate::plan::Plan;
use crate::record::{Figure, Record};

/// A participant of a scenario: a name, and a way to create or measure it.
#[derive(Debug, Clone, Copy)]
pub struct Entrant<M> {
    /// Its name in reports.
    pub name: &'static str,
    /// Whether it is a third party's: a peer that panics is reported and excluded.
    pub is_peer: bool,
    /// Creates an empty one, or measures one.
    pub make: M,
}

impl<M> Entrant<M> {
    /// Creates one that is no third party's.
    #[must_use]
    pub const fn ours(name: &'static str, make: M) -> Self {
        Self {
            name,
            is_peer: false,
            make,
        }
    }

    /// Returns the result of `measure`; `None` if the entrant is a peer and panics, which is
    /// reported.
    pub fn unless_it_panics<T>(&self, measure: impl FnOnce() -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(measure)) {
            Ok(answer) => Some(answer),
            Err(_) if self.is_peer => {
                eprintln!("{} panicked", self.name);
                None
            }
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// A scenario under one setting: rounds in which every entrant has a turn, and ratios to a
/// baseline.
#[derive(Debug)]
pub struct Trial<'p> {
    scenario: &'static str,
    baseline: &'static str,
    plan: &'p Plan,
    rounds_max: usize,
    params: BTreeMap<Cow<'static, str>, String>,
}

impl<'p> Trial<'p> {
    /// Creates a run with the plan's number of rounds.
    #[must_use]
    pub fn new(scenario: &'static str, baseline: &'static str, plan: &'p Plan) -> Self {
        let revision = option_env!("BEDLOAD_REVISION").unwrap_or("unknown").to_owned();
        Self {
            scenario,
            baseline,
            plan,
            rounds_max: usize::MAX,
            params: BTreeMap::from([("machine".into(), machine()), ("revision".into(), revision)]),
        }
    }

    /// Limits the number of rounds.
    #[must_use]
    pub const fn rounds_max(mut self, rounds: usize) -> Self {
        self.rounds_max = rounds;
        self
    }

    /// Adds a parameter to every record.
    #[must_use]
    pub fn param(mut self, name: &'static str, value: impl ToString) -> Self {
        self.params.insert(name.into(), value.to_string());
        self
    }

    /// Runs rounds that measure all entrants, and summarises them.
    pub fn run(&self, mut round: impl FnMut(u64, &mut Samples)) -> Vec<Record> {
        let mut samples = Samples::default();
        for number in 0..self.plan.rounds().min(self.rounds_max) {
            round(number as u64, &mut samples);
        }
        self.summarise(&samples)
    }

    /// Runs rounds that measure the selected entrants one after another, in another order in each
    /// round.
    pub fn run_each<M>(
        &self,
        entrants: &[Entrant<M>],
        mut turn: impl FnMut(&Entrant<M>, u64) -> Vec<Figure>,
    ) -> Vec<Record> {
        let mut taken: Vec<_> = entrants.iter().filter(|entrant| self.takes(entrant)).collect();
        self.run(|number, samples| {
            // Random, so that no entrant always follows the same one.
            Rng::new(number).shuffle(&mut taken);
            for entrant in &taken {
                samples.add(entrant.name, turn(entrant, number));
            }
        })
    }

    /// Returns whether the plan selects an entrant.
    pub fn takes<M>(&self, entrant: &Entrant<M>) -> bool {
        self.plan.takes(entrant.name, self.baseline)
    }

    /// Returns medians, extremes, and ratios to the baseline.
    fn summarise(&self, samples: &Samples) -> Vec<Record> {
        let of_baseline = |metric: &str| {
            let mut kinds = samples.kinds.iter();
            let found = kinds.find(|(name, figure, _)| *name == self.baseline && figure.metric == metric);
            found.map_or(f64::NAN, |(_, _, values)| median(values))
        };
        let record = |(subject, figure, values): &(&'static str, Figure, Vec<f64>)| Record {
            scenario: self.scenario.into(),
            subject: Cow::Borrowed(*subject),
            metric: figure.metric.clone(),
            unit: figure.unit.clone(),
            median: median(values),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            rounds: values.len(),
            baseline: self.baseline.into(),
            ratio: median(values) / of_baseline(&figure.metric),
            params: self.params.clone(),
        };
        samples.kinds.iter().map(record).collect()
    }
}

/// Figures of several rounds by subject and metric, in order of first occurrence.
#[derive(Debug, Default)]
pub struct Samples {
    kinds: Vec<(&'static str, Figure, Vec<f64>)>,
}

impl Samples {
    /// Adds the figures of a round.
    pub fn add(&mut self, subject: &'static str, figures: Vec<Figure>) {
        for figure in figures {
            let known = self
                .kinds
                .iter_mut()
                .find(|(name, known, _)| *name == subject && known.metric == figure.metric);
            match known {
                Some((_, _, values)) => values.push(figure.value),
                None => {
                    let values = vec![figure.value];
                    self.kinds.push((subject, figure, values));
                }
            }
        }
    }
}

/// Returns the median; of an even number of values, the mean of the middle two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => f64::NAN,
        Some(&upper) if sorted.len() % 2 == 1 => upper,
        Some(&upper) => (sorted[middle - 1] + upper) / 2.0,
    }
}

fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{} {}, {cores} threads",
        std::env::consts::ARCH,
        std::env::consts::OS
    )
}
