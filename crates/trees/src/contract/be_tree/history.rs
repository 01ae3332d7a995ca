//! The values of every entry, and since when it has had each.

use std::collections::BTreeMap;
use std::ops::Bound;

/// The number of a key, and a tie.
pub(super) type Place = (u64, u64);

/// The value expected at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    Value(u64),
    /// Any value it ever had, or none: it is being deleted in bulk.
    Fading,
}

impl State {
    /// A value, or none.
    pub(super) fn of(value: Option<u64>) -> Self {
        value.map_or(Self::Absent, Self::Value)
    }
}

/// Every state of every place, each with the step since which it was so.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    places: BTreeMap<Place, Vec<(u64, State)>>,
}

impl History {
    /// Notes a state since the present step.
    pub(super) fn set(&mut self, place: Place, step: u64, state: State) {
        self.places.entry(place).or_default().push((step, state));
    }

    pub(super) fn now(&self, place: Place) -> State {
        let states = self.places.get(&place).and_then(|states| states.last());
        states.map_or(State::Absent, |&(_, state)| state)
    }

    /// The states of a place from a step on.
    fn since(&self, place: Place, step: u64) -> impl Iterator<Item = State> + '_ {
        let states = self.places.get(&place).map_or(&[][..], |states| &states[..]);
        let first = states.partition_point(|&(since, _)| since <= step);
        let before = if first == 0 {
            State::Absent
        } else {
            states[first - 1].1
        };
        std::iter::once(before).chain(states[first..].iter().map(|&(_, state)| state))
    }

    /// Whether a value may have been seen at some time since a step.
    pub(super) fn may_be(&self, place: Place, value: u64, step: u64) -> bool {
        self.since(place, step)
            .any(|state| state == State::Fading || state == State::Value(value))
    }

    /// Whether nothing may have been seen at some time since a step.
    pub(super) fn may_be_absent(&self, place: Place, step: u64) -> bool {
        self.since(place, step)
            .any(|state| !matches!(state, State::Value(_)))
    }

    /// The first place within bounds at which there was something all the time since a step.
    pub(super) fn lasting(&self, from: Bound<Place>, to: Bound<Place>, step: u64) -> Option<Place> {
        let is_empty = match (from, to) {
            (Bound::Included(a), Bound::Included(b)) => a > b,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
            _ => false,
        };
        if is_empty {
            return None;
        }
        let mut places = self.places.range((from, to)).map(|(&place, _)| place);
        places.find(|&place| !self.may_be_absent(place, step))
    }

    /// All places at which there is something, or may be.
    pub(super) fn present(&self) -> impl Iterator<Item = (Place, State)> + '_ {
        let now = self.places.keys().map(|&place| (place, self.now(place)));
        now.filter(|&(_, state)| state != State::Absent)
    }
}
