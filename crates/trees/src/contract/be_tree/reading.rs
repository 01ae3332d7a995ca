//! A cursor under way, and what it may give.

use std::ops::Bound;

use super::history::{History, Place};
use super::rows::Rows;
use crate::be_tree::Cursor;

/// A cursor, and how far it has come in its range.
pub(super) struct Reading<'t, O, S> {
    pub(super) cursor: Cursor<'t, O, Rows, S>,
    pub(super) is_back: bool,
    /// The step at which it was begun.
    pub(super) since: u64,
    pub(super) from: Place,
    pub(super) to: Place,
    pub(super) last: Option<Place>,
}

impl<O, S> Reading<'_, O, S> {
    /// Checks the entry that the cursor gave next: in its range and in order, with a value that the
    /// place had since the cursor was begun, and with nothing skipped that was there throughout.
    pub(super) fn check(&mut self, history: &History, place: Place, value: u64) {
        assert!((self.from..self.to).contains(&place), "{place:?} is out of range");
        assert!(
            history.may_be(place, value, self.since),
            "{place:?} is {value}, and was never since step {}; it is {:?}",
            self.since,
            history.now(place)
        );
        let (low, high) = self.rest();
        let skipped = if self.is_back {
            assert!(
                self.last.is_none_or(|last| place < last),
                "{place:?} is not before {:?}",
                self.last
            );
            history.lasting(Bound::Excluded(place), high, self.since)
        } else {
            assert!(
                self.last.is_none_or(|last| last < place),
                "{place:?} is not behind {:?}",
                self.last
            );
            history.lasting(low, Bound::Excluded(place), self.since)
        };
        assert_eq!(skipped, None, "was skipped on the way to {place:?}");
        self.last = Some(place);
    }

    /// The cursor gave nothing more.
    pub(super) fn check_end(&self, history: &History) {
        let (low, high) = self.rest();
        let skipped = history.lasting(low, high, self.since);
        assert_eq!(skipped, None, "was skipped at the end");
    }

    /// The part of the range that is still to come.
    fn rest(&self) -> (Bound<Place>, Bound<Place>) {
        match self.last {
            Some(last) if self.is_back => (Bound::Included(self.from), Bound::Excluded(last)),
            Some(last) => (Bound::Excluded(last), Bound::Excluded(self.to)),
            None => (Bound::Included(self.from), Bound::Excluded(self.to)),
        }
    }
}
