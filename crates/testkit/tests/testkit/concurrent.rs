use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use bedload_testkit::contract::{
    ConcurrentIndex, Direction, OneThread, Plan, Removed, U64Keys, check, check_ascending_writers,
    check_disjoint_writers, check_histories, check_ranges_over_writers,
};

/// A fault that shows only under concurrency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Reads the old value, lets other threads run, and writes the new one, which undoes a removal
    /// in between.
    RemovesInTwoSteps,
    /// Forgets its position between two parts of a range.
    RangeRestarts,
    /// Begins a backward range before the newest key.
    NewestIsStale,
}

/// Changes by other threads during a pause of a range that restarts: enough that some probably lie
/// in its first part.
const CHANGES_WITHIN_A_RANGE: u64 = 2_000;
/// The longest wait for these changes, in case no thread makes any.
const WAIT_FOR_CHANGES: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct Locked {
    entries: Mutex<BTreeMap<u64, u64>>,
    changes: AtomicU64,
    fault: Fault,
}

impl Locked {
    fn new(fault: Fault) -> Self {
        Self {
            entries: Mutex::default(),
            changes: AtomicU64::new(0),
            fault,
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.entries.lock().expect("nobody panics under the lock")
    }

    fn let_others_change(&self, changes: u64) {
        let until = self.changes.load(Ordering::Relaxed) + changes;
        let begin = Instant::now();
        while self.changes.load(Ordering::Relaxed) < until && begin.elapsed() < WAIT_FOR_CHANGES {
            thread::yield_now();
        }
    }

    fn part(&self, bounds: (Bound<u64>, Bound<u64>), direction: Direction, limit: usize) -> Vec<(u64, u64)> {
        let entries = self.entries();
        let inside = entries
            .iter()
            .filter(|(key, _)| std::ops::RangeBounds::contains(&bounds, key))
            .map(|(&key, &value)| (key, value));
        match direction {
            Direction::Forward => inside.take(limit).collect(),
            Direction::Backward => inside.rev().take(limit).collect(),
        }
    }
}

impl ConcurrentIndex for Locked {
    type Keys = U64Keys;

    fn keys(&self) -> &U64Keys {
        &U64Keys
    }

    fn insert(&self, key: &u64, value: u64) {
        self.entries().insert(*key, value);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self, key: &u64) -> Option<u64> {
        self.entries().get(key).copied()
    }

    fn remove(&self, key: &u64) -> Removed {
        self.changes.fetch_add(1, Ordering::Relaxed);
        if self.fault == Fault::RemovesInTwoSteps {
            let seen = self.get(key);
            thread::yield_now();
            self.entries().remove(key);
            return seen.into();
        }
        self.entries().remove(key).into()
    }

    fn range(&self, bounds: (Bound<u64>, Bound<u64>), direction: Direction, limit: usize) -> Vec<(u64, u64)> {
        if self.fault == Fault::RangeRestarts && direction == Direction::Forward {
            let mut first = self.part(bounds, direction, limit.min(10));
            let Some(&(last, _)) = first.last() else {
                return first;
            };
            let position = first.len();
            self.let_others_change(CHANGES_WITHIN_A_RANGE);
            let everything = self.part(bounds, direction, limit);
            first.extend(
                everything
                    .into_iter()
                    .skip(position)
                    .filter(|&(key, _)| key > last),
            );
            return first;
        }
        if self.fault == Fault::NewestIsStale && direction == Direction::Backward {
            return self.part(bounds, direction, limit.saturating_add(1)).split_off(1);
        }
        self.part(bounds, direction, limit)
    }

    fn first(&self) -> Option<(u64, u64)> {
        self.entries()
            .first_key_value()
            .map(|(&key, &value)| (key, value))
    }

    fn last(&self) -> Option<(u64, u64)> {
        self.entries().last_key_value().map(|(&key, &value)| (key, value))
    }

    fn check_structure(&self) -> Result<(), String> {
        Ok(())
    }
}

fn plan(operations: usize) -> Plan {
    Plan { seed: 2, operations }
}

#[test]
fn a_right_index_passes() {
    let right = || Locked::new(Fault::None);
    check(|| OneThread(right()), plan(5_000));
    check_disjoint_writers(right, 4, plan(20_000));
    check_ascending_writers(right, 4, plan(2_000));
    check_ranges_over_writers(right, 2, 2, plan(4_000));
    check_histories(right, 8, plan(10_000));
}

#[test]
fn a_removal_in_two_steps_is_no_linearizable_removal() {
    let wrong = || Locked::new(Fault::RemovesInTwoSteps);
    let outcome = catch_unwind(AssertUnwindSafe(|| check_histories(wrong, 8, plan(200_000))));
    assert!(outcome.is_err());
}

#[test]
fn a_range_that_loses_its_place_is_found() {
    let wrong = || Locked::new(Fault::RangeRestarts);
    // On a loaded machine readers and writers may hardly meet.
    let is_found = (0..10).any(|seed| {
        let plan = Plan {
            seed,
            operations: 200_000,
        };
        catch_unwind(AssertUnwindSafe(|| check_ranges_over_writers(wrong, 2, 2, plan))).is_err()
    });
    assert!(is_found);
}

#[test]
fn a_scan_from_the_end_that_misses_the_newest_key_is_found() {
    let wrong = || Locked::new(Fault::NewestIsStale);
    for threads in [1, 4] {
        // On a loaded machine the threads may run one after the other.
        let is_found = (0..10).any(|seed| {
            let plan = Plan {
                seed,
                operations: 20_000,
            };
            catch_unwind(AssertUnwindSafe(|| check_ascending_writers(wrong, threads, plan))).is_err()
        });
        assert!(is_found, "{threads} threads");
    }
}
