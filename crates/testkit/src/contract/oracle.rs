//! A trivially correct index.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{Direction, Operation, Removed};

/// An answer, with keys given by rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    Value(Option<u64>),
    Removed(Removed),
    Entry(Option<(u64, u64)>),
    Entries(Vec<(u64, u64)>),
}

impl Answer {
    /// Returns whether the answer `self` keeps the contract if the oracle's is `expected`.
    pub(super) fn agrees_with(&self, expected: &Self) -> bool {
        matches!(
            (self, expected),
            (Self::Removed(Removed::Blind), Self::Removed(_))
        ) || self == expected
    }
}

/// Entries by rank.
#[derive(Debug, Clone, Default)]
pub(super) struct Oracle {
    entries: BTreeMap<u64, u64>,
}

impl Oracle {
    pub(super) fn apply(&mut self, operation: &Operation) -> Answer {
        match *operation {
            Operation::Insert { rank, value, .. } => {
                self.entries.insert(rank, value);
                Answer::Done
            }
            Operation::Get { rank, .. } => Answer::Value(self.entries.get(&rank).copied()),
            Operation::Remove { rank, .. } => Answer::Removed(self.entries.remove(&rank).into()),
            Operation::Range {
                lower,
                upper,
                direction,
                limit,
            } => Answer::Entries(self.range(lower, upper, direction, limit)),
            Operation::First => Answer::Entry(
                self.entries
                    .first_key_value()
                    .map(|(&rank, &value)| (rank, value)),
            ),
            Operation::Last => {
                Answer::Entry(self.entries.last_key_value().map(|(&rank, &value)| (rank, value)))
            }
        }
    }

    fn range(
        &self,
        lower: Bound<u64>,
        upper: Bound<u64>,
        direction: Direction,
        limit: usize,
    ) -> Vec<(u64, u64)> {
        if is_empty(lower, upper) {
            return Vec::new();
        }
        let entries = self
            .entries
            .range((lower, upper))
            .map(|(&rank, &value)| (rank, value));
        match direction {
            Direction::Forward => entries.take(limit).collect(),
            Direction::Backward => entries.rev().take(limit).collect(),
        }
    }
}

/// Returns whether the bounds are empty or inverted, as `BTreeMap::range` panics on some of these.
fn is_empty(lower: Bound<u64>, upper: Bound<u64>) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        (
            Bound::Excluded(lower) | Bound::Included(lower),
            Bound::Excluded(upper) | Bound::Included(upper),
        ) => lower >= upper,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_inverted_bounds_yield_nothing() {
        let mut oracle = Oracle::default();
        for rank in 0..10 {
            let insert = Operation::Insert {
                rank,
                spelling: 0,
                value: rank,
            };
            oracle.apply(&insert);
        }
        let all = |lower, upper| oracle.range(lower, upper, Direction::Backward, 100).len();
        use Bound::{Excluded, Included, Unbounded};
        assert_eq!(all(Unbounded, Unbounded), 10);
        assert_eq!(all(Included(3), Included(3)), 1);
        assert_eq!(all(Included(3), Excluded(3)), 0);
        assert_eq!(all(Excluded(3), Excluded(3)), 0);
        assert_eq!(all(Excluded(3), Excluded(4)), 0);
        assert_eq!(all(Included(7), Included(2)), 0);
    }
}
