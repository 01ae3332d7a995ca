//! Looking up one entry, in the runs along the way to its leaf.

use super::descend::IntervalTarget;
use super::node::{LiveRun, may_hold};
use super::tree::BeTree;
use crate::entry::{Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::Point;
use crate::run::RunEntry;
use bedload_pages::{PageRead, Result};

impl<O: KeyOrder, L: RowLayout, S: PageRead> BeTree<O, L, S> {
    /// Shows an entry to `view` and returns its result; `None` if there is no such entry. Reads a
    /// few pages for each level and for each run that might hold the entry, until one does; one or
    /// two pages for a run whose filter excludes it.
    ///
    /// # Errors
    ///
    /// The key has not the order's width, the store failed, or a page on the way is damaged.
    pub fn get_with<R>(
        &self,
        key: &[u8],
        tie: u64,
        view: impl FnOnce(RunEntry<'_, O, L>) -> R,
    ) -> Result<Option<R>> {
        let position = Position { key, tie };
        let point = Point::new(&self.order, position)?;
        let mut view = Some(view);
        let mut runs = self.runs_at(&point)?;
        let hash = self.order.hash(key);
        let mut next = 0;
        while let Some(live) = runs.get(next) {
            let may_contain = hash.map_or(Ok(true), |hash| live.run.may_contain(&self.store, hash));
            let seen = match may_contain {
                Ok(true) => self.reader(live.run).get_with(key, tie, |entry| {
                    let view = if entry.is_tombstone() { None } else { view.take() };
                    view.map(|view| view(entry))
                }),
                other => other.map(|_| None),
            };
            match seen {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => next += 1,
                // The run may have been merged into another since, and its pages may have begun
                // other lives.
                Err(error) => {
                    let now = self.runs_at(&point)?;
                    if now.iter().any(|other| other.run.is(&live.run)) {
                        return Err(error);
                    }
                    (runs, next) = (now, 0);
                }
            }
        }
        Ok(None)
    }

    /// The runs that might hold an entry, the newest first.
    fn runs_at(&self, point: &Point<'_>) -> Result<Vec<LiveRun>> {
        let may_hold = |edges| may_hold(&self.order, edges, point);
        let interval = self.interval_of(IntervalTarget::At(*point), may_hold, |_, _| {})?;
        Ok(interval.runs)
    }
}
