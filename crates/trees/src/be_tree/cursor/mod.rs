//! Ranges in either direction, one leaf interval at a time.

mod announce;
mod gather;

use std::cmp::Ordering;
use std::ops::Bound;

use crate::be_tree::descend::{Interval, IntervalTarget};
use crate::be_tree::node::may_meet;
use crate::be_tree::tree::BeTree;
use crate::entry::{Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::{Point, PointBuf};
use crate::run::{Run, RunCursor, RunEdge, RunEntry};
use bedload_pages::{Error, PageRead, Result};

/// Entries of a range of a [`BeTree`], in either direction.
///
/// A cursor holds no latch between calls. It takes the runs of each leaf's interval as they are
/// when it enters that interval: every entry present throughout is given once, in order, and no
/// entry that never existed. If a run is merged away meanwhile, the cursor goes on in its
/// replacement.
///
/// A leaf of a run is unpacked a few entries at a time, and ever more: those that were unpacked are
/// given, even if a vacuum deletes them meanwhile.
pub struct Cursor<'t, O, L, S> {
    tree: &'t BeTree<O, L, S>,
    is_ascending: bool,
    skips_dead: bool,
    expected: usize,
    /// The rest of the range. One end follows the entries that were given.
    from: Bound<PointBuf>,
    to: Bound<PointBuf>,
    /// Where the range began, in the cursor's direction, when the present interval was entered.
    start: Bound<PointBuf>,
    /// The hash of the one key that the range is about, for the filters of runs.
    hash: Option<u64>,
    /// Those of the present interval, the newest first; none before the first interval, and behind
    /// the last.
    sources: Vec<Source<'t, O, L, S>>,
    /// For each source the entry that comes next, or, until the run has been read, its first entry,
    /// before which there is none. Apart, as each entry of the range is a look at them all.
    heads: Vec<RunEdge>,
    /// How many sources were not read yet.
    unread: usize,
    /// The source of the entry that was given last, whose head is that entry still.
    passed: Option<usize>,
    /// Whether sources that were read may have nothing at hand.
    has_unfilled: bool,
    /// Where the present interval ends, in the cursor's direction.
    fence: Option<PointBuf>,
    state: CursorState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CursorState {
    /// The interval must be entered.
    Before,
    Within,
    Over,
}

/// A run of the present interval.
struct Source<'t, O, L, S> {
    cursor: RunCursor<O, L, &'t S>,
    is_read: bool,
}

impl<O: KeyOrder, L: RowLayout, S: PageRead> BeTree<O, L, S> {
    /// The entries between two bounds, ascending.
    ///
    /// # Errors
    ///
    /// The key of a bound has not the order's width.
    pub fn range(&self, from: Bound<Position<'_>>, to: Bound<Position<'_>>) -> Result<Cursor<'_, O, L, S>> {
        Cursor::new(self, from, to, true)
    }

    /// The entries between two bounds, descending: `from` is the lower bound all the same.
    ///
    /// # Errors
    ///
    /// As for [`range`](Self::range).
    pub fn range_back(
        &self,
        from: Bound<Position<'_>>,
        to: Bound<Position<'_>>,
    ) -> Result<Cursor<'_, O, L, S>> {
        Cursor::new(self, from, to, false)
    }
}

impl<'t, O: KeyOrder, L: RowLayout, S: PageRead> Cursor<'t, O, L, S> {
    fn new(
        tree: &'t BeTree<O, L, S>,
        from: Bound<Position<'_>>,
        to: Bound<Position<'_>>,
        is_ascending: bool,
    ) -> Result<Self> {
        let owned = |bound: Bound<Position<'_>>| {
            if let Bound::Included(position) | Bound::Excluded(position) = bound {
                position.check_width(&tree.order)?;
            }
            Ok::<_, Error>(bound.map(|position| tree.point_buf(position.key, position.tie)))
        };
        let (low, high) = (owned(from)?, owned(to)?);
        let hash = match (from, to) {
            (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to))
                if tree.order.compare(from.key, to.key).is_eq() =>
            {
                tree.order.hash(from.key)
            }
            _ => None,
        };
        Ok(Self {
            from: low,
            to: high,
            start: Bound::Unbounded,
            hash,
            tree,
            is_ascending,
            skips_dead: false,
            expected: 0,
            sources: Vec::new(),
            heads: Vec::new(),
            unread: 0,
            passed: None,
            has_unfilled: false,
            fence: None,
            state: CursorState::Before,
        })
    }

    /// Passes over entries that have a hint ([`BeTree::hint_dead`]) in what is read from now on.
    pub fn skip_dead(&mut self) {
        self.skips_dead = true;
    }

    /// Unpacks about so many entries of each run at first that is entered from now on, and then
    /// more and more at a time. Default: few, as many ranges are short.
    pub fn expect_entries(&mut self, entries: usize) {
        self.expected = entries;
    }

    /// The next entry in the cursor's direction.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged. The cursor stands where it stood.
    pub fn next_entry(&mut self) -> Result<Option<RunEntry<'_, O, L>>> {
        loop {
            match self.state {
                CursorState::Over => return Ok(None),
                CursorState::Before => {
                    let interval = self.descend()?;
                    self.enter(interval)?;
                }
                CursorState::Within => match self.take() {
                    Ok(Some((index, false))) => return Ok(Some(self.sources[index].cursor.passed())),
                    Ok(Some((_, true))) => {}
                    Ok(None) => self.leave(),
                    Err((run, error)) => self.descend_unless_named(&run, error)?,
                },
            }
        }
    }

    /// Descends again if a run that could not be read is not named any more: it may have been
    /// merged into another since, and its pages may have begun other lives.
    fn descend_unless_named(&mut self, run: &Run, error: Error) -> Result<()> {
        // A damaged run may have entries before the interval. No run of the interval is named where
        // those lie, so the cursor would come back to this one for ever.
        if self.has_gone_back() {
            return Err(error);
        }
        self.state = CursorState::Before;
        let interval = self.descend()?;
        if interval.runs.iter().any(|live| live.run.is(run)) {
            return Err(error);
        }
        self.enter(interval)
    }

    /// Whether the entry that was given last lies before the present interval.
    fn has_gone_back(&self) -> bool {
        let at = if self.is_ascending { &self.from } else { &self.to };
        match (at, &self.start) {
            (Bound::Included(at) | Bound::Excluded(at), Bound::Included(start) | Bound::Excluded(start)) => {
                let ordering = at.as_point().cmp(&self.tree.order, &start.as_point());
                self.direct(ordering).is_lt()
            }
            _ => false,
        }
    }

    /// Has the range begin behind an entry, in an order whose prefixes are exact.
    fn set_passed(&mut self, prefix: u64, tie: u64) {
        let bound = if self.is_ascending {
            &mut self.from
        } else {
            &mut self.to
        };
        *bound = Bound::Excluded(PointBuf {
            prefix,
            tie,
            key: Vec::new(),
        });
    }

    /// Has the range begin behind the entry that a source has passed last.
    fn note_passed(&mut self, source: usize) {
        let entry = self.sources[source].cursor.passed();
        let (prefix, tie) = (entry.prefix(), entry.tie());
        if self.tree.order.prefix_is_exact() {
            self.set_passed(prefix, tie);
            return;
        }
        let mut scratch = Vec::new();
        let key = entry.key(&mut scratch);
        let point = Point { prefix, tie, key };
        let bound = if self.is_ascending {
            &mut self.from
        } else {
            &mut self.to
        };
        match bound {
            Bound::Excluded(passed) => passed.set(point),
            _ => *bound = Bound::Excluded(point.to_buf()),
        }
    }

    fn descend(&self) -> Result<Interval> {
        let target = if self.is_ascending {
            match &self.from {
                Bound::Unbounded => IntervalTarget::First,
                Bound::Included(point) | Bound::Excluded(point) => IntervalTarget::At(point.as_point()),
            }
        } else {
            match &self.to {
                Bound::Unbounded => IntervalTarget::Last,
                Bound::Included(point) => IntervalTarget::At(point.as_point()),
                Bound::Excluded(point) => IntervalTarget::Before(point.as_point()),
            }
        };
        let order = &self.tree.order;
        let is_wanted = |edges| meets(order, edges, &self.from, &self.to);
        let interval = self.tree.interval_of(target, is_wanted, |_, _| {})?;
        // So that a cursor comes to an end whatever the pages hold.
        let lies_ahead = match (self.is_ascending, &self.from, &self.to) {
            (true, Bound::Included(from) | Bound::Excluded(from), _) => interval
                .high
                .as_ref()
                .is_none_or(|high| high.as_point().cmp(order, &from.as_point()).is_gt()),
            (false, _, Bound::Included(to)) => interval
                .low
                .as_ref()
                .is_none_or(|low| low.as_point().cmp(order, &to.as_point()).is_le()),
            (false, _, Bound::Excluded(to)) => interval
                .low
                .as_ref()
                .is_none_or(|low| low.as_point().cmp(order, &to.as_point()).is_lt()),
            _ => true,
        };
        if lies_ahead {
            Ok(interval)
        } else {
            Err(Error::Corrupt {
                page: interval.leaf,
                reason: "the pivots above it do not ascend",
            })
        }
    }

    /// Begins to read an interval.
    fn enter(&mut self, interval: Interval) -> Result<()> {
        self.sources.clear();
        self.heads.clear();
        self.passed = None;
        self.has_unfilled = false;
        let order = &self.tree.order;
        let later = |low: &PointBuf, bound: &Bound<PointBuf>| match bound {
            Bound::Unbounded => true,
            Bound::Included(from) | Bound::Excluded(from) => {
                low.as_point().cmp(order, &from.as_point()).is_gt()
            }
        };
        let earlier = |high: &PointBuf, bound: &Bound<PointBuf>| match bound {
            Bound::Unbounded => true,
            Bound::Included(to) => high.as_point().cmp(order, &to.as_point()).is_le(),
            Bound::Excluded(to) => high.as_point().cmp(order, &to.as_point()).is_lt(),
        };
        let from = match interval.low {
            Some(ref low) if later(low, &self.from) => Bound::Included(low.clone()),
            _ => self.from.clone(),
        };
        let to = match interval.high {
            Some(ref high) if earlier(high, &self.to) => Bound::Excluded(high.clone()),
            _ => self.to.clone(),
        };
        // Filters leave one run of most lookups.
        if self.hash.is_none() {
            self.sources.reserve(interval.runs.len());
        }
        self.heads.reserve(interval.runs.len());
        let meeting = || {
            interval
                .runs
                .iter()
                .filter(|live| meets(order, live.edges(), &from, &to))
        };
        let reads_wait = self.tree.store.reads_wait();
        let mut announced = Vec::new();
        if reads_wait && let Some(hash) = self.hash {
            announced = self.announce_filters(meeting().map(|live| live.run), hash, (&from, &to));
        }
        for live in meeting() {
            // Where a filter cannot be read, neither can the run, or it is for the run to say.
            let lacks = |hash| matches!(live.run.may_contain(&self.tree.store, hash), Ok(false));
            if self.hash.is_some_and(lacks) {
                continue;
            }
            let mut cursor = self.run_cursor(live.run, (&from, &to))?;
            let head = if self.is_ascending {
                live.run.first
            } else {
                live.run.last
            };
            if self.skips_dead {
                cursor.skip_dead();
            }
            cursor.expect_entries(self.expected);
            self.sources.reserve_exact(1);
            self.sources.push(Source {
                cursor,
                is_read: false,
            });
            self.heads.push(head);
        }
        self.unread = self.sources.len();
        if reads_wait {
            self.announce_leaves(if self.is_ascending { &from } else { &to }, &announced);
        }
        self.start = if self.is_ascending { from } else { to };
        self.fence = if self.is_ascending {
            interval.high
        } else {
            interval.low
        };
        self.state = CursorState::Within;
        Ok(())
    }

    fn run_cursor(
        &self,
        run: Run,
        (from, to): (&Bound<PointBuf>, &Bound<PointBuf>),
    ) -> Result<RunCursor<O, L, &'t S>> {
        RunCursor::between(
            self.tree.reader(run),
            (from.clone(), to.clone()),
            self.is_ascending,
        )
    }

    /// Behind the last entry of an interval: on to the next one, unless the range ends.
    fn leave(&mut self) {
        self.state = CursorState::Over;
        let order = &self.tree.order;
        let Some(fence) = self.fence.take() else { return };
        let compare = |point: &PointBuf| point.as_point().cmp(order, &fence.as_point());
        let goes_on = match (self.is_ascending, &self.from, &self.to) {
            (true, _, Bound::Included(to)) => compare(to).is_ge(),
            (true, _, Bound::Excluded(to)) => compare(to).is_gt(),
            (false, Bound::Included(from) | Bound::Excluded(from), _) => compare(from).is_lt(),
            _ => true,
        };
        if goes_on {
            self.state = CursorState::Before;
            if self.is_ascending {
                self.from = Bound::Included(fence);
            } else {
                self.to = Bound::Excluded(fence);
            }
        }
    }

    /// Passes the next entry: its source, and whether it is a tombstone. `None` at the end of the
    /// interval.
    fn take(&mut self) -> Result<Option<(usize, bool)>, (Run, Error)> {
        let Some(least) = self.least()? else {
            return Ok(None);
        };
        // Entries of the same key and tie in older runs are passed over, and so are the runs that
        // end with them.
        let mut other = least + 1;
        while other < self.sources.len() {
            if self.heads[other].prefix == self.heads[least].prefix
                && self.sources[other].is_read
                && self.compare(other, least).is_eq()
            {
                self.sources[other].cursor.pass();
                if !self.refresh(other)? {
                    continue;
                }
            }
            other += 1;
        }
        let cursor = &mut self.sources[least].cursor;
        let is_tombstone = cursor.present().is_tombstone();
        cursor.pass();
        self.note_passed(least);
        self.passed = Some(least);
        Ok(Some((least, is_tombstone)))
    }

    /// The source with the next entry in the cursor's direction; of equals the newest. Only runs
    /// that might have it are read.
    fn least(&mut self) -> Result<Option<usize>, (Run, Error)> {
        if let Some(passed) = self.passed.take() {
            self.refresh(passed)?;
        }
        if self.has_unfilled {
            for index in (0..self.sources.len()).rev() {
                let source = &self.sources[index];
                if source.is_read && source.cursor.edge().is_none() {
                    self.refresh(index)?;
                }
            }
            self.has_unfilled = false;
        }
        let mut least = self.least_read();
        while self.unread > 0 {
            // The run that begins first among those that were not read yet.
            let unread = (0..self.sources.len())
                .filter(|&index| !self.sources[index].is_read)
                .reduce(|nearest, index| {
                    if self.direct(self.heads[index].cmp(&self.heads[nearest])).is_lt() {
                        index
                    } else {
                        nearest
                    }
                });
            let unread = unread.filter(|&index| {
                least.is_none_or(|least| {
                    let (first, next) = (self.heads[index], self.heads[least]);
                    self.direct(first.prefix.cmp(&next.prefix)).is_le()
                })
            });
            let Some(unread) = unread else { break };
            self.sources[unread].is_read = true;
            self.unread -= 1;
            if !self.refresh(unread)? {
                least = least.map(|least| least - usize::from(least > unread));
            } else if least.is_none_or(|least| self.compare(unread, least).then(unread.cmp(&least)).is_lt()) {
                least = Some(unread);
            }
        }
        Ok(least)
    }

    /// The source with the next entry among those that were read; the newest of equals.
    fn least_read(&self) -> Option<usize> {
        let candidates =
            || (0..self.sources.len()).filter(|&at| self.unread == 0 || self.sources[at].is_read);
        let heads = &self.heads;
        match (self.tree.order.prefix_is_exact(), self.is_ascending) {
            (true, true) => {
                candidates().reduce(|least, at| if heads[at] < heads[least] { at } else { least })
            }
            (true, false) => {
                candidates().reduce(|least, at| if heads[at] > heads[least] { at } else { least })
            }
            (false, _) => candidates().reduce(|least, at| {
                if self.compare(at, least).is_lt() {
                    at
                } else {
                    least
                }
            }),
        }
    }

    /// Ensures that a source that was read has its next entry unpacked; returns `false` and removes
    /// the source if it has none.
    fn refresh(&mut self, index: usize) -> Result<bool, (Run, Error)> {
        let source = &mut self.sources[index];
        match source.cursor.fill() {
            Ok(true) => {
                let entry = source.cursor.present();
                self.heads[index] = RunEdge {
                    prefix: entry.prefix(),
                    tie: entry.tie(),
                };
                Ok(true)
            }
            Ok(false) => {
                self.sources.remove(index);
                self.heads.remove(index);
                Ok(false)
            }
            Err(error) => Err((*source.cursor.run(), error)),
        }
    }

    /// Compares the next entries of two sources that were read, in the cursor's direction.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let heads = (self.heads[a], self.heads[b]);
        let ordering = if self.tree.order.prefix_is_exact() || heads.0.prefix != heads.1.prefix {
            heads.0.cmp(&heads.1)
        } else {
            let (a, b) = (&self.sources[a].cursor, &self.sources[b].cursor);
            a.present().compare(&b.present())
        };
        self.direct(ordering)
    }

    fn direct(&self, ordering: Ordering) -> Ordering {
        if self.is_ascending {
            ordering
        } else {
            ordering.reverse()
        }
    }
}

/// Whether entries between the bounds might be in a run with these edges.
fn meets(
    order: &impl KeyOrder,
    edges: (RunEdge, RunEdge),
    from: &Bound<PointBuf>,
    to: &Bound<PointBuf>,
) -> bool {
    let low = match from {
        Bound::Unbounded => None,
        Bound::Included(point) | Bound::Excluded(point) => Some(point.as_point()),
    };
    match to {
        Bound::Unbounded => may_meet(order, edges, low, None),
        Bound::Excluded(point) => may_meet(order, edges, low, Some(point.as_point())),
        Bound::Included(point) => may_meet(order, edges, low, None) && edges.0.prefix <= point.prefix,
    }
}
