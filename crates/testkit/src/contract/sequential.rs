//! The sequential suite.

use std::fmt::Debug;
use std::ops::Bound;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::operation::{self, Operations};
use super::oracle::{Answer, Oracle};
use super::{Direction, Failure, Keys, Operation, OrderedIndex, Profile};
use crate::stride;

/// The length and seed of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The same seed gives the same operations.
    pub seed: u64,
    /// Operations in total, shared by all [profiles](Profile), in a thorough run; an everyday run
    /// makes some of them ([`stride`]).
    pub operations: usize,
}

impl Plan {
    /// Returns this plan with as many operations as the run is to make, or with seed and operations
    /// as `BEDLOAD_TEST_SEED` and `BEDLOAD_TEST_OPERATIONS` ask for them, to reproduce a failure or
    /// to run for longer.
    #[must_use]
    pub fn or_environment(self) -> Self {
        fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
            std::env::var(name).ok()?.parse().ok()
        }
        Self {
            seed: number("BEDLOAD_TEST_SEED").unwrap_or(self.seed),
            operations: number("BEDLOAD_TEST_OPERATIONS").unwrap_or(self.operations.div_ceil(stride())),
        }
    }
}

/// Operations between two checks of the structure.
const STRUCTURE_CHECK_EVERY: usize = 4096;

/// Drives fresh indexes through every [`Profile`] and compares every answer with the oracle's.
///
/// # Panics
///
/// If the contract is broken, with the seed and how to reproduce it.
pub fn check<I: OrderedIndex>(make: impl FnMut() -> I, plan: Plan) {
    if let Err(failure) = try_check(make, plan.or_environment()) {
        failure.report();
    }
}

/// Like [`check`], but ignores the environment and returns a failure instead of panicking.
///
/// # Errors
///
/// The contract is broken.
pub fn try_check<I: OrderedIndex>(mut make: impl FnMut() -> I, plan: Plan) -> Result<(), Failure> {
    for profile in Profile::ALL {
        let mut index = make();
        let mut operations = Operations::new(profile, index.keys().rank_max(), plan.seed);
        let mut oracle = Oracle::default();
        let count = plan.operations.div_ceil(Profile::ALL.len());
        for number in 0..count {
            let operation = operations.next_operation();
            let mut outcome = step(&mut index, &mut oracle, &operation);
            if outcome.is_ok() && (number % STRUCTURE_CHECK_EVERY == 0 || number + 1 == count) {
                outcome = index.check_structure();
            }
            outcome.map_err(|what| Failure {
                seed: plan.seed,
                operations: plan.operations,
                what: format!("{profile:?}, operation {number}, {operation:?}: {what}"),
            })?;
        }
    }
    Ok(())
}

/// Applies a list of operations to a fresh index and the oracle, then checks the structure.
///
/// # Errors
///
/// The actual and the expected answer.
pub fn replay<I: OrderedIndex>(mut index: I, operations: &[Operation]) -> Result<(), String> {
    let mut oracle = Oracle::default();
    for (number, operation) in operations.iter().enumerate() {
        step(&mut index, &mut oracle, operation)
            .map_err(|what| format!("operation {number}, {operation:?}: {what}"))?;
    }
    index.check_structure()
}

/// Runs `plan.operations` operations in generated sequences of up to 400; a failing sequence is
/// shrunk before it is reported.
///
/// # Panics
///
/// If the contract is broken, with the shortest sequence found.
pub fn check_shrinking<I: OrderedIndex>(make: impl Fn() -> I, plan: Plan) {
    const LEN_MAX: usize = 400;
    let plan = plan.or_environment();
    let config = Config {
        cases: u32::try_from(plan.operations.div_ceil(LEN_MAX / 2)).unwrap_or(u32::MAX),
        failure_persistence: None,
        ..Config::default()
    };
    let mut seed_bytes = [0; 32];
    seed_bytes[..8].copy_from_slice(&plan.seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes);
    let strategy = proptest::collection::vec(operation::strategy(make().keys().rank_max()), 1..LEN_MAX);
    let outcome = TestRunner::new_with_rng(config, rng).run(&strategy, |operations| {
        replay(make(), &operations).map_err(TestCaseError::fail)
    });
    let what = match outcome {
        Ok(()) => return,
        Err(TestError::Fail(reason, shortest)) => format!("{reason}\nshortest sequence: {shortest:?}"),
        Err(TestError::Abort(reason)) => format!("no sequence could be generated: {reason}"),
    };
    let failure = Failure {
        seed: plan.seed,
        operations: plan.operations,
        what,
    };
    failure.report();
}

fn step<I: OrderedIndex>(index: &mut I, oracle: &mut Oracle, operation: &Operation) -> Result<(), String> {
    let answer = answer(index, operation)?;
    let expected = oracle.apply(operation);
    if answer.agrees_with(&expected) {
        Ok(())
    } else {
        Err(format!("answered {answer:?}, expected {expected:?}"))
    }
}

fn answer<I: OrderedIndex>(index: &mut I, operation: &Operation) -> Result<Answer, String> {
    let keys = index.keys().clone();
    match *operation {
        Operation::Insert {
            rank,
            spelling,
            value,
        } => {
            index.insert(&keys.key(rank, spelling), value).map_err(failed)?;
            Ok(Answer::Done)
        }
        Operation::Get { rank, spelling } => {
            let value = index.get(&keys.key(rank, spelling)).map_err(failed)?;
            Ok(Answer::Value(value))
        }
        Operation::Remove { rank, spelling } => {
            let removed = index.remove(&keys.key(rank, spelling)).map_err(failed)?;
            Ok(Answer::Removed(removed))
        }
        Operation::Range {
            lower,
            upper,
            direction,
            limit,
        } => {
            let entries = index
                .range(bounds(&keys, lower, upper), direction, limit)
                .map_err(failed)?;
            Ok(Answer::Entries(
                entries
                    .iter()
                    .map(|entry| ranked(&keys, entry))
                    .collect::<Result<_, _>>()?,
            ))
        }
        Operation::First => {
            let entry = index.first().map_err(failed)?;
            Ok(Answer::Entry(
                entry.map(|entry| ranked(&keys, &entry)).transpose()?,
            ))
        }
        Operation::Last => {
            let entry = index.last().map_err(failed)?;
            Ok(Answer::Entry(
                entry.map(|entry| ranked(&keys, &entry)).transpose()?,
            ))
        }
    }
}

fn failed(error: impl Debug) -> String {
    format!("failed: {error:?}")
}

fn ranked<K: Keys>(keys: &K, (key, value): &(K::Key, u64)) -> Result<(u64, u64), String> {
    match keys.rank(key) {
        Some(rank) => Ok((rank, *value)),
        None => Err(format!("answered with a key that was never given: {key:?}")),
    }
}

pub(super) fn bounds<K: Keys>(
    keys: &K,
    lower: Bound<u64>,
    upper: Bound<u64>,
) -> (Bound<K::Key>, Bound<K::Key>) {
    (
        lower.map(|rank| keys.key(rank, 0)),
        upper.map(|rank| keys.key(rank, 1)),
    )
}

/// Returns the entries of a range by rank, for tests over any index.
pub(super) fn ranked_range<K: Keys>(
    keys: &K,
    entries: &[(K::Key, u64)],
    direction: Direction,
) -> Result<Vec<(u64, u64)>, String> {
    let ranked: Vec<_> = entries
        .iter()
        .map(|entry| ranked(keys, entry))
        .collect::<Result<_, _>>()?;
    let in_order = |pair: &[(u64, u64)]| match direction {
        Direction::Forward => pair[0].0 < pair[1].0,
        Direction::Backward => pair[0].0 > pair[1].0,
    };
    match ranked.windows(2).find(|pair| !in_order(pair)) {
        None => Ok(ranked),
        Some(pair) => Err(format!(
            "{direction:?} range yields {:?} before {:?}",
            pair[0], pair[1]
        )),
    }
}
