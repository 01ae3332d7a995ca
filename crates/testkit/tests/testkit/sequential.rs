use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Bound;

use bedload_testkit::contract::{
    Direction, I64Keys, Key, Keys, OrderedIndex, Plan, Removed, check, check_shrinking, try_check,
};

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    ExcludedStart,
    KeepsFirstValue,
    RemoveForgets,
    BackwardAscends,
    LimitOffByOne,
    LastIsFirst,
    StructureBroken,
}

#[derive(Debug)]
struct Model<K: Keys> {
    keys: K,
    entries: BTreeMap<u64, (K::Key, u64)>,
    fault: Fault,
}

impl<K: Keys> Model<K> {
    fn new(keys: K, fault: Fault) -> Self {
        Self {
            keys,
            entries: BTreeMap::new(),
            fault,
        }
    }

    fn rank(&self, key: &K::Key) -> u64 {
        self.keys.rank(key).expect("the suite gives keys of its own")
    }
}

impl<K: Keys> OrderedIndex for Model<K> {
    type Keys = K;
    type Error = Infallible;

    fn keys(&self) -> &K {
        &self.keys
    }

    fn insert(&mut self, key: &Key<Self>, value: u64) -> Result<(), Infallible> {
        let rank = self.rank(key);
        if self.fault == Fault::KeepsFirstValue && self.entries.contains_key(&rank) {
            return Ok(());
        }
        self.entries.insert(rank, (key.clone(), value));
        Ok(())
    }

    fn get(&mut self, key: &Key<Self>) -> Result<Option<u64>, Infallible> {
        Ok(self.entries.get(&self.rank(key)).map(|entry| entry.1))
    }

    fn remove(&mut self, key: &Key<Self>) -> Result<Removed, Infallible> {
        let rank = self.rank(key);
        if self.fault == Fault::RemoveForgets {
            return Ok(self.entries.get(&rank).map(|entry| entry.1).into());
        }
        Ok(self.entries.remove(&rank).map(|entry| entry.1).into())
    }

    fn range(
        &mut self,
        (lower, upper): (Bound<Key<Self>>, Bound<Key<Self>>),
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Key<Self>, u64)>, Infallible> {
        let inside = |rank: u64| {
            let above = match &lower {
                Bound::Included(key) if self.fault == Fault::ExcludedStart => rank > self.rank(key),
                Bound::Included(key) => rank >= self.rank(key),
                Bound::Excluded(key) => rank > self.rank(key),
                Bound::Unbounded => true,
            };
            above
                && match &upper {
                    Bound::Included(key) => rank <= self.rank(key),
                    Bound::Excluded(key) => rank < self.rank(key),
                    Bound::Unbounded => true,
                }
        };
        let limit = limit.saturating_add(usize::from(self.fault == Fault::LimitOffByOne));
        let entries = self
            .entries
            .iter()
            .filter(|&(&rank, _)| inside(rank))
            .map(|(_, entry)| entry.clone());
        Ok(match direction {
            Direction::Backward if self.fault != Fault::BackwardAscends => {
                entries.rev().take(limit).collect()
            }
            _ => entries.take(limit).collect(),
        })
    }

    fn first(&mut self) -> Result<Option<(Key<Self>, u64)>, Infallible> {
        Ok(self.entries.first_key_value().map(|(_, entry)| entry.clone()))
    }

    fn last(&mut self) -> Result<Option<(Key<Self>, u64)>, Infallible> {
        if self.fault == Fault::LastIsFirst {
            return self.first();
        }
        Ok(self.entries.last_key_value().map(|(_, entry)| entry.clone()))
    }

    fn check_structure(&mut self) -> Result<(), String> {
        if self.fault == Fault::StructureBroken && self.entries.len() > 3 {
            return Err("broken".into());
        }
        Ok(())
    }
}

/// Pairs of a key with several spellings and a tie, as in paged trees: letters compare
/// case-insensitively.
#[derive(Debug, Clone, Copy)]
struct CaselessWithTie;

impl Keys for CaselessWithTie {
    type Key = (Vec<u8>, u64);

    fn rank_max(&self) -> u64 {
        (1 << 34) - 1
    }

    fn key(&self, rank: u64, spelling: u64) -> (Vec<u8>, u64) {
        let first = if spelling.is_multiple_of(2) { b'a' } else { b'A' };
        let letters = (0..8)
            .rev()
            .map(|digit| first + u8::try_from((rank >> 2 >> (4 * digit)) & 15).expect("small"));
        (letters.collect(), rank & 3)
    }

    fn rank(&self, (letters, tie): &(Vec<u8>, u64)) -> Option<u64> {
        let digits = letters.to_ascii_lowercase();
        let high = digits
            .iter()
            .fold(0, |rank, letter| rank << 4 | u64::from(letter - b'a'));
        Some(high << 2 | tie)
    }
}

const PLAN: Plan = Plan {
    seed: 1,
    operations: 20_000,
};

#[test]
fn a_right_index_passes() {
    check(|| Model::new(I64Keys, Fault::None), PLAN);
    check(|| Model::new(CaselessWithTie, Fault::None), PLAN);
    check_shrinking(|| Model::new(CaselessWithTie, Fault::None), PLAN);
}

#[test]
fn every_fault_is_found_and_reported() {
    for fault in [
        Fault::ExcludedStart,
        Fault::KeepsFirstValue,
        Fault::RemoveForgets,
        Fault::BackwardAscends,
        Fault::LimitOffByOne,
        Fault::LastIsFirst,
        Fault::StructureBroken,
    ] {
        let failure = try_check(|| Model::new(I64Keys, fault), PLAN).expect_err("the model is wrong");
        assert_eq!(failure.seed, PLAN.seed, "{fault:?}");
        let report = failure.to_string();
        assert!(
            report.contains(
                "BEDLOAD_TEST_SEED=1 BEDLOAD_TEST_OPERATIONS=20000 cargo test sequential::every_fault"
            ),
            "{report}"
        );
        let again = try_check(|| Model::new(I64Keys, fault), PLAN).expect_err("the model is still wrong");
        assert_eq!(failure, again, "a seed reproduces its failure");
    }
}

#[test]
fn a_failing_sequence_shrinks() {
    let outcome = std::panic::catch_unwind(|| {
        check_shrinking(|| Model::new(I64Keys, Fault::KeepsFirstValue), PLAN);
    });
    let message = *outcome
        .expect_err("the model is wrong")
        .downcast::<String>()
        .expect("a message");
    let shortest = message.split("shortest sequence:").nth(1).expect("a sequence");
    assert!(shortest.matches("Insert").count() == 2, "{message}");
    assert!(shortest.matches("{ rank").count() <= 3, "{message}");
}
