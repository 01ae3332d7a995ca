//! The search for a linearization.
//!
//! The checker visits stamps in order. Between them it knows every *configuration* that explains
//! the returns so far: the register's value, and which pending operations have taken effect. At a
//! return it lets pending operations take effect in every order that fits their answers, and keeps
//! the configurations in which the returning operation has taken effect ("just-in-time
//! linearization": Lowe, "Testing for linearizability", 2017). There are at most (values ×
//! 2^threads) configurations, whatever the history's length.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use super::{Action, Event};

/// The history of a key has no linearization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The key.
    pub key: u64,
    /// The first operation, by return, that no order explains.
    pub at: Event,
    /// The operations on the key that overlap it or came shortly before, by call.
    pub around: Vec<Event>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "key {}: no order explains {:?}", self.key, self.at)?;
        for event in &self.around {
            writeln!(
                f,
                "  {:>8}..{:<8} thread {} {:?}",
                event.invoked, event.responded, event.thread, event.action
            )?;
        }
        Ok(())
    }
}

/// The number of operations shown before a violation.
const AROUND: usize = 24;

/// Checks the events of all threads. Every key is absent at first.
///
/// # Errors
///
/// A key whose history has no linearization.
///
/// # Panics
///
/// If more than 64 operations on one key are pending at once.
pub fn check(events: &[Event]) -> Result<(), Violation> {
    let mut by_key: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    for event in events {
        by_key.entry(event.key).or_default().push(*event);
    }
    by_key.into_values().try_for_each(|events| check_key(&events))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Configuration {
    value: Option<u64>,
    /// The slots of pending operations that have taken effect.
    effected: u64,
}

fn check_key(events: &[Event]) -> Result<(), Violation> {
    let mut stamps: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * events.len());
    for (number, event) in events.iter().enumerate() {
        stamps.push((event.invoked, false, number));
        stamps.push((event.responded, true, number));
    }
    stamps.sort_unstable();

    let start = Configuration {
        value: None,
        effected: 0,
    };
    let mut configurations = HashSet::from([start]);
    let mut under_way: [Option<usize>; 64] = [None; 64];
    for (_, is_return, number) in stamps {
        if !is_return {
            let free = under_way.iter_mut().find(|slot| slot.is_none());
            *free.expect("at most 64 operations on a key are under way at once") = Some(number);
            continue;
        }
        let slot = under_way
            .iter()
            .position(|&slot| slot == Some(number))
            .expect("a return follows its call");
        configurations = let_take_effect(&configurations, &under_way, events, slot);
        if configurations.is_empty() {
            return Err(violation(events, number));
        }
        under_way[slot] = None;
    }
    Ok(())
}

/// Returns every configuration reachable by effects of pending operations in which the operation of
/// `slot` has taken effect, with that slot freed.
fn let_take_effect(
    from: &HashSet<Configuration>,
    under_way: &[Option<usize>; 64],
    events: &[Event],
    slot: usize,
) -> HashSet<Configuration> {
    let mut reached = from.clone();
    let mut to_visit: Vec<Configuration> = from.iter().copied().collect();
    let mut kept = HashSet::new();
    while let Some(configuration) = to_visit.pop() {
        if configuration.effected & (1 << slot) != 0 {
            kept.insert(Configuration {
                effected: configuration.effected & !(1 << slot),
                ..configuration
            });
            continue;
        }
        for (other, number) in under_way.iter().enumerate() {
            let Some(number) = number else { continue };
            if configuration.effected & (1 << other) != 0 {
                continue;
            }
            if let Some(value) = effect(events[*number].action, configuration.value) {
                let next = Configuration {
                    value,
                    effected: configuration.effected | (1 << other),
                };
                if reached.insert(next) {
                    to_visit.push(next);
                }
            }
        }
    }
    kept
}

/// Returns the register after `action`, if its answer fits the register's value.
fn effect(action: Action, value: Option<u64>) -> Option<Option<u64>> {
    match action {
        Action::Insert(new) => Some(Some(new)),
        Action::Get(seen) => (seen == value).then_some(value),
        Action::Remove(seen) => (seen == value).then_some(None),
        Action::RemoveBlind => Some(None),
    }
}

fn violation(events: &[Event], number: usize) -> Violation {
    let at = events[number];
    let mut around: Vec<Event> = events
        .iter()
        .filter(|event| event.invoked <= at.responded)
        .copied()
        .collect();
    around.sort_unstable_by_key(|event| event.invoked);
    let skipped = around.len().saturating_sub(AROUND);
    Violation {
        key: at.key,
        at,
        around: around.split_off(skipped),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Action::{Get, Insert, Remove, RemoveBlind};

    fn event(thread: usize, invoked: u64, responded: u64, action: Action) -> Event {
        Event {
            thread,
            key: 1,
            action,
            invoked,
            responded,
        }
    }

    #[test]
    fn sequential_histories_pass() {
        let history = [
            event(0, 0, 1, Get(None)),
            event(0, 2, 3, Insert(5)),
            event(0, 4, 5, Get(Some(5))),
            event(0, 6, 7, Insert(6)),
            event(0, 8, 9, Remove(Some(6))),
            event(0, 10, 11, Remove(None)),
        ];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn overlapping_operations_may_take_effect_in_any_order() {
        let history = [
            event(0, 0, 10, Insert(1)),
            event(1, 1, 9, Insert(2)),
            event(2, 2, 3, Get(Some(2))),
            event(2, 4, 5, Get(Some(1))),
            event(2, 11, 12, Get(Some(1))),
        ];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn a_lost_update_is_found() {
        let history = [
            event(0, 0, 1, Insert(1)),
            event(1, 2, 3, Insert(2)),
            event(0, 4, 5, Get(Some(1))),
        ];
        let violation = check(&history).expect_err("reads a value that was overwritten");
        assert_eq!(violation.at, history[2]);
    }

    #[test]
    fn a_value_from_nowhere_is_found() {
        assert!(check(&[event(0, 0, 1, Insert(1)), event(1, 0, 3, Get(Some(9)))]).is_err());
    }

    #[test]
    fn a_value_that_flickers_is_found() {
        let history = [
            event(0, 0, 20, Insert(1)),
            event(1, 1, 2, Get(Some(1))),
            event(1, 3, 4, Get(None)),
        ];
        assert!(check(&history).is_err());
    }

    #[test]
    fn two_removals_of_one_value_are_found() {
        let history = [
            event(0, 0, 1, Insert(1)),
            event(0, 2, 8, Remove(Some(1))),
            event(1, 3, 9, Remove(Some(1))),
        ];
        assert!(check(&history).is_err());
        let fits = [history[0], history[1], event(1, 3, 9, Remove(None))];
        assert_eq!(check(&fits), Ok(()));
    }

    #[test]
    fn a_removed_key_stays_removed() {
        let history = [
            event(0, 0, 1, Insert(1)),
            event(1, 2, 3, RemoveBlind),
            event(0, 4, 5, Get(Some(1))),
        ];
        assert!(check(&history).is_err());
    }

    #[test]
    fn a_value_not_seen_in_time_is_found() {
        let history = [event(0, 0, 1, Insert(1)), event(1, 2, 3, Get(None))];
        assert!(check(&history).is_err());
    }

    #[test]
    fn keys_are_independent() {
        let mut other = event(1, 2, 3, Get(None));
        other.key = 2;
        assert_eq!(check(&[event(0, 0, 1, Insert(1)), other]), Ok(()));
    }

    #[test]
    fn long_histories_take_little_time() {
        let mut history = Vec::new();
        for round in 0..3_000_u64 {
            let thread = usize::try_from(round % 8).expect("small");
            history.push(event(thread, 10 * round, 10 * round + 75, Insert(round)));
        }
        assert_eq!(check(&history), Ok(()));
    }
}
