//! Ranges of a run, in either direction.

use std::ops::{Bound, Range};

use super::columns::RunColumns;
use super::entry::RunEntry;
use super::page::RunPage;
use super::reader::{RunReader, child_at};
use super::top::Top;
use super::{Run, RunEdge};
use crate::entry::{Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::PointBuf;
use bedload_pages::ReadAhead;
use bedload_pages::{Error, PageId, PageRead, Result};

impl<O: KeyOrder, L: RowLayout, S: PageRead> RunReader<O, L, S> {
    /// The entries between two bounds, tombstones included, ascending.
    ///
    /// # Errors
    ///
    /// A key has not the order's width.
    pub fn range(&self, from: Bound<Position<'_>>, to: Bound<Position<'_>>) -> Result<RunCursor<O, L, S>>
    where
        S: Clone,
    {
        RunCursor::new(self.clone(), from, to, true)
    }

    /// The entries between two bounds, descending: `from` is the lower bound all the same.
    ///
    /// # Errors
    ///
    /// As for [`range`](Self::range).
    pub fn range_back(&self, from: Bound<Position<'_>>, to: Bound<Position<'_>>) -> Result<RunCursor<O, L, S>>
    where
        S: Clone,
    {
        RunCursor::new(self.clone(), from, to, false)
    }
}

/// A cursor first unpacks this few entries of its first leaf, then more and more at a time: a short
/// range should not pay for a whole leaf.
const FIRST_WINDOW: usize = 4;
/// Leaves of a range that spans at most this many are announced when it begins.
const FEW_LEAVES: usize = 3;
/// By how much more.
const WINDOW_GROWTH: usize = 4;

/// Entries of a range of a run, in either direction.
pub struct RunCursor<O, L, S> {
    reader: RunReader<O, L, S>,
    is_ascending: bool,
    /// The page to be read next, before any of `way`: the root, or the first child of the node that
    /// was entered last.
    first: Option<(PageId, u8)>,
    /// The path to the present leaf: of each node above it the children, and which one is next.
    way: Vec<Children>,
    /// Entries of the present leaf, and which of them are still to come.
    columns: RunColumns,
    next: usize,
    end: usize,
    /// The present leaf, and which of its entries are to be unpacked later.
    leaf: Option<(PageId, Range<usize>)>,
    /// Whether the range ends in the leaf that was looked at last.
    ends_here: bool,
    /// How many are unpacked next.
    window: usize,
    skips_dead: bool,
    ahead: ReadAhead,
    /// How many more pages the run may have.
    pages_left: u32,
    from: Bound<PointBuf>,
    to: Bound<PointBuf>,
}

/// The children of a node after its first one, which most ranges do not reach: they are taken from
/// the node when the first one is passed.
#[derive(Debug)]
struct Children {
    node: PageId,
    level: u8,
    /// Slots of children that are not in `pages` yet.
    slots: Range<usize>,
    pages: Vec<PageId>,
    /// Children still to come: those from the front, or up to the back.
    next: usize,
    end: usize,
}

impl<O: KeyOrder, L: RowLayout, S: PageRead> RunCursor<O, L, S> {
    fn new(
        reader: RunReader<O, L, S>,
        from: Bound<Position<'_>>,
        to: Bound<Position<'_>>,
        is_ascending: bool,
    ) -> Result<Self> {
        let is_exact = reader.order.prefix_is_exact();
        let owned = |bound: Bound<Position<'_>>| -> Result<Bound<PointBuf>> {
            if let Bound::Included(position) | Bound::Excluded(position) = bound {
                position.check_width(&reader.order)?;
            }
            Ok(bound.map(|position| PointBuf {
                prefix: reader.order.prefix(position.key),
                tie: position.tie,
                key: if is_exact {
                    Vec::new()
                } else {
                    position.key.to_vec()
                },
            }))
        };
        let bounds = (owned(from)?, owned(to)?);
        Self::between(reader, bounds, is_ascending)
    }

    /// The entries between two points, whose keys may be empty if prefixes are exact.
    pub(crate) fn between(
        reader: RunReader<O, L, S>,
        (from, to): (Bound<PointBuf>, Bound<PointBuf>),
        is_ascending: bool,
    ) -> Result<Self> {
        Ok(Self {
            from,
            to,
            is_ascending,
            first: Some((reader.run.root, reader.top()?)),
            pages_left: reader.run.pages,
            way: Vec::new(),
            columns: RunColumns::new(&reader.shape),
            next: 0,
            end: 0,
            leaf: None,
            ends_here: false,
            window: FIRST_WINDOW,
            skips_dead: false,
            ahead: ReadAhead::default(),
            reader,
        })
    }

    /// Passes over entries that have a hint from now on ([`RunReader::hint_dead`]).
    pub fn skip_dead(&mut self) {
        self.skips_dead = true;
    }

    /// The next entry in the cursor's direction.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    pub fn next_entry(&mut self) -> Result<Option<RunEntry<'_, O, L>>> {
        if !self.fill()? {
            return Ok(None);
        }
        let index = self.head();
        self.pass();
        Ok(Some(self.entry_at(index)))
    }

    fn entry_at(&self, index: usize) -> RunEntry<'_, O, L> {
        RunEntry {
            order: &self.reader.order,
            shape: &self.reader.shape,
            columns: &self.columns,
            index,
        }
    }

    fn head(&self) -> usize {
        if self.is_ascending {
            self.next
        } else {
            self.end - 1
        }
    }

    /// The entry that comes next, once [`fill`](Self::fill) has said that there is one.
    pub(crate) fn present(&self) -> RunEntry<'_, O, L> {
        self.entry_at(self.head())
    }

    /// Goes on behind the entry that comes next.
    pub(crate) fn pass(&mut self) {
        if self.is_ascending {
            self.next += 1;
        } else {
            self.end -= 1;
        }
    }

    /// The entry that was passed last, if nothing was filled since.
    pub(crate) fn passed(&self) -> RunEntry<'_, O, L> {
        self.entry_at(if self.is_ascending {
            self.next - 1
        } else {
            self.end
        })
    }

    /// The run.
    pub(crate) fn run(&self) -> &Run {
        &self.reader.run
    }

    /// Unpacks about so many entries at first, if they are more than by default.
    pub(crate) fn expect_entries(&mut self, entries: usize) {
        self.window = self.window.max(entries);
    }

    /// Unpacks whole leaves from now on, and reads ahead as far as possible: for a reader of all
    /// entries.
    pub(super) fn expect_whole_leaves(&mut self) {
        self.window = usize::MAX;
        self.ahead = ReadAhead::at_once();
    }

    /// The page of the node to be read before it is known where the range begins in the run; none
    /// if that is known.
    pub(crate) fn first_node(&self) -> Option<PageId> {
        let (id, level) = self.first?;
        let life = (self.reader.run.first_page, self.reader.run.generation);
        (level > 0 && self.reader.store.recall(id, life).is_none()).then_some(id)
    }

    /// Goes to the leaf where the range begins, without reading it, and appends to `leaves` it and
    /// those behind it, if the range ends in the next but one or earlier.
    pub(crate) fn find_leaves(&mut self, leaves: &mut Vec<PageId>) -> Result<()> {
        // An error leaves the cursor where it is.
        while let Some((id, level)) = self.first
            && level > 0
        {
            self.enter_node(id, level)?;
        }
        leaves.extend(self.first.map(|(leaf, _)| leaf));
        let is_short = |children: &Children| children.level == 1 && children.slots.len() < FEW_LEAVES;
        if self.way.last().is_some_and(is_short) {
            self.take_children()?;
            let children = self
                .way
                .last()
                .map(|children| &children.pages[children.next..children.end]);
            leaves.extend(children.unwrap_or_default());
        }
        Ok(())
    }

    /// Shows up to `most` entries at hand to `visit` and passes them, as long as they come before a
    /// limit, be it by their prefixes alone where these are not exact; returns how many. Fills
    /// nothing.
    pub(crate) fn pass_before(
        &mut self,
        limit: Option<RunEdge>,
        most: usize,
        mut visit: impl FnMut(RunEntry<'_, O, L>),
    ) -> usize {
        let is_exact = self.reader.order.prefix_is_exact();
        let (start, end) = (self.next, self.end);
        let most = most.min(end - start);
        let mut count = 0;
        while count < most {
            let index = if self.is_ascending {
                start + count
            } else {
                end - 1 - count
            };
            let entry = self.entry_at(index);
            if let Some(limit) = limit {
                let edge = RunEdge {
                    prefix: entry.prefix(),
                    tie: if is_exact { entry.tie() } else { limit.tie },
                };
                if !(if self.is_ascending {
                    edge < limit
                } else {
                    edge > limit
                }) {
                    break;
                }
            }
            visit(entry);
            count += 1;
        }
        if self.is_ascending {
            self.next += count;
        } else {
            self.end -= count;
        }
        count
    }

    /// The last entry at hand in the cursor's direction; `None` if there is none, or if the range
    /// has no others behind it.
    pub(crate) fn last_at_hand(&self) -> Option<RunEdge> {
        let last = if self.is_ascending {
            self.end.checked_sub(1)
        } else {
            Some(self.next)
        };
        let is_last = self.ends_here && self.leaf.is_none();
        last.filter(|_| !is_last && self.next < self.end)
            .map(|index| self.edge_at(index))
    }

    /// The entry that comes next, if one is at hand.
    pub(crate) fn edge(&self) -> Option<RunEdge> {
        (self.next < self.end).then(|| self.edge_at(self.head()))
    }

    fn edge_at(&self, index: usize) -> RunEdge {
        RunEdge {
            prefix: self.columns.prefix(index),
            tie: self.columns.tie(&self.reader.shape, index),
        }
    }

    /// Passes the entries at hand up to `last`, inclusively, and before `unread`, and appends their
    /// prefixes and ties in the cursor's direction.
    pub(crate) fn pass_positions(
        &mut self,
        last: Option<RunEdge>,
        unread: Option<RunEdge>,
        positions: &mut Vec<(u64, u64)>,
    ) {
        let is_passed = |edge: RunEdge| {
            if self.is_ascending {
                last.is_none_or(|last| edge <= last) && unread.is_none_or(|unread| edge < unread)
            } else {
                last.is_none_or(|last| edge >= last) && unread.is_none_or(|unread| edge > unread)
            }
        };
        let (mut low, mut high) = (self.next, self.end);
        while low < high {
            let middle = usize::midpoint(low, high);
            // Those that are passed come first if it ascends, and last if it descends.
            if is_passed(self.edge_at(middle)) == self.is_ascending {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let passed = if self.is_ascending {
            std::mem::replace(&mut self.next, low)..low
        } else {
            low..std::mem::replace(&mut self.end, low)
        };
        let prefixes = self.columns.numbers[0][passed.clone()].iter().copied();
        if !self.reader.shape.ties {
            positions.extend(prefixes.map(|prefix| (prefix, 0)));
        } else if self.is_ascending {
            positions.extend(prefixes.zip(self.columns.numbers[1][passed].iter().copied()));
        } else {
            let ties = self.columns.numbers[1][passed].iter().copied();
            positions.extend(prefixes.zip(ties).rev());
        }
    }

    /// Ensures that the present leaf has an entry to give; `false` at the end of the range.
    pub(crate) fn fill(&mut self) -> Result<bool> {
        while self.next == self.end {
            if let Some((id, _)) = self.leaf {
                self.unpack_more(id)?;
                continue;
            }
            let Some((id, level)) = self.next_page()? else {
                return Ok(false);
            };
            // Damaged nodes may have one child many times.
            let left = self.pages_left.checked_sub(1);
            let left = left.ok_or_else(|| self.reader.too_many_pages())?;
            let depth = self.way.len();
            let entered = if level == 0 {
                self.unpack_more(id)
            } else {
                self.enter_node(id, level)
            };
            if let Err(error) = entered {
                // So that a caller who asks again misses nothing.
                self.way.truncate(depth);
                self.first = Some((id, level));
                return Err(error);
            }
            self.pages_left = left;
        }
        Ok(true)
    }

    /// The entries at hand of the present leaf, and which of its entries are to come.
    pub(super) fn leaf(&self) -> (&RunColumns, Range<usize>) {
        (&self.columns, self.next..self.end)
    }

    /// Goes on at an entry of the present leaf, or behind its last.
    pub(super) fn pass_to(&mut self, next: usize) {
        self.next = next;
    }

    fn next_page(&mut self) -> Result<Option<(PageId, u8)>> {
        if let Some((page, level)) = self.first {
            if level == 0 {
                self.read_ahead()?;
            }
            self.first = None;
            return Ok(Some((page, level)));
        }
        loop {
            self.take_children()?;
            let Some(children) = self.way.last_mut() else {
                return Ok(None);
            };
            if children.next < children.end {
                let level = children.level - 1;
                let slot = if self.is_ascending {
                    children.next += 1;
                    children.next - 1
                } else {
                    children.end -= 1;
                    children.end
                };
                let page = children.pages[slot];
                if level == 0 {
                    self.read_ahead()?;
                }
                return Ok(Some((page, level)));
            }
            self.way.pop();
        }
    }

    /// Takes the children of the lowest node on the way that were left there.
    fn take_children(&mut self) -> Result<()> {
        let Some(children) = self.way.last_mut() else {
            return Ok(());
        };
        if children.slots.is_empty() {
            return Ok(());
        }
        let (reader, id, skips_dead) = (&self.reader, children.node, self.skips_dead);
        let guard = reader.store.read(id)?;
        let page = RunPage::parse(&guard, &reader.child_shape, id, &reader.name(), children.level)?;
        let slots = children.slots.clone();
        children.pages = slots
            .filter(|&slot| !(skips_dead && page.is_dead(slot)))
            .map(|slot| child_at(&page, id, slot))
            .collect::<Result<_>>()?;
        (children.next, children.end) = (0, children.pages.len());
        children.slots = 0..0;
        Ok(())
    }

    /// Has the store fetch leaves behind the one that comes now.
    fn read_ahead(&mut self) -> Result<()> {
        let Some(children) = self.way.last() else {
            return Ok(());
        };
        let Range { start, end } = self.ahead.enter_leaf(|| Ok(children.end - children.next))?;
        if start < end {
            let fetched = if self.is_ascending {
                children.next + start..children.next + end
            } else {
                children.end - end..children.end - start
            };
            self.reader.store.read_ahead(&children.pages[fetched]);
        }
        Ok(())
    }

    /// How many entries of the page lie before the range begins, and how many before it ends.
    fn ranks<R: RowLayout>(&self, page: &RunPage<'_, R>) -> Result<(usize, usize)> {
        let rank = |point: &PointBuf, counts_equal: bool| {
            let (rank, found) = self.reader.rank(page, point.as_point())?;
            Ok::<_, Error>(rank + usize::from(found && counts_equal))
        };
        // Most pages that a long range meets lie within it.
        let is_beyond =
            |to: &PointBuf| (page.count().checked_sub(1)).is_some_and(|last| page.prefix(last) < to.prefix);
        let begin = match &self.from {
            Bound::Unbounded => 0,
            Bound::Included(from) => rank(from, false)?,
            Bound::Excluded(from) => rank(from, true)?,
        };
        let end = match &self.to {
            Bound::Unbounded => page.count(),
            Bound::Included(to) | Bound::Excluded(to) if is_beyond(to) => page.count(),
            Bound::Included(to) => rank(to, true)?,
            Bound::Excluded(to) => rank(to, false)?,
        };
        Ok((begin, end.max(begin)))
    }

    /// Unpacks more of the present leaf, or of the next one.
    fn unpack_more(&mut self, id: PageId) -> Result<()> {
        let reader = &self.reader;
        let guard = reader.store.read(id)?;
        let page = RunPage::parse(&guard, &reader.shape, id, &reader.name(), 0)?;
        let mut left = match &self.leaf {
            Some((_, left)) => left.clone(),
            None => {
                let (begin, end) = self.ranks(&page)?;
                self.ends_here = if self.is_ascending {
                    end < page.count()
                } else {
                    begin > 0
                };
                begin..end
            }
        };
        let count = left.len().min(self.window);
        let window = if self.is_ascending {
            left.start..left.start + count
        } else {
            left.end - count..left.end
        };
        if self.is_ascending {
            left.start = window.end;
        } else {
            left.end = window.start;
        }
        page.unpack(window, self.skips_dead, &mut self.columns)?;
        (self.next, self.end) = (0, self.columns.len());
        self.window = self.window.saturating_mul(WINDOW_GROWTH);
        self.leaf = (!left.is_empty()).then_some((id, left));
        Ok(())
    }

    fn enter_node(&mut self, id: PageId, level: u8) -> Result<()> {
        let reader = &self.reader;
        let is_kept = id == reader.run.root && reader.order.prefix_is_exact();
        let life = (reader.run.first_page, reader.run.generation);
        if is_kept && let Some(top) = reader.store.recall(id, life) {
            return self.enter_top(&Top(&top), id, level);
        }
        let guard = reader.store.read(id)?;
        let page = RunPage::parse(&guard, &reader.child_shape, id, &reader.name(), level)?;
        let (begin, end) = self.ranks(&page)?;
        // The child before the first entry of the range may have entries of it, too.
        let mut slots = begin.saturating_sub(1)..end;
        let is_dead = |slot: &usize| self.skips_dead && page.is_dead(*slot);
        let first = if self.is_ascending {
            slots.find(|slot| !is_dead(slot))
        } else {
            slots.rfind(|slot| !is_dead(slot))
        };
        self.first = match first {
            Some(slot) => Some((child_at(&page, id, slot)?, level - 1)),
            None => None,
        };
        if is_kept {
            reader.store.remember(id, life, || Top::of(&page, id));
        }
        drop(guard);
        self.go_down(id, level, slots)
    }

    /// Enters the node at the top as the store remembers it. Its first child may be one that has
    /// only dead entries by now.
    fn enter_top(&mut self, top: &Top<'_>, id: PageId, level: u8) -> Result<()> {
        let rank = |point: &PointBuf, counts_equal: bool| top.rank((point.prefix, point.tie), counts_equal);
        let begin = match &self.from {
            Bound::Unbounded => 0,
            Bound::Included(from) => rank(from, false),
            Bound::Excluded(from) => rank(from, true),
        };
        let end = match &self.to {
            Bound::Unbounded => top.count(),
            Bound::Included(to) => rank(to, true),
            Bound::Excluded(to) => rank(to, false),
        };
        let mut slots = begin.saturating_sub(1)..end.max(begin);
        let first = if self.is_ascending {
            slots.next()
        } else {
            slots.next_back()
        };
        self.first = match first {
            Some(slot) => Some((top.child(slot, id)?, level - 1)),
            None => None,
        };
        self.go_down(id, level, slots)
    }

    /// Goes on with the first child of a node, and these slots of it later.
    fn go_down(&mut self, node: PageId, level: u8, slots: Range<usize>) -> Result<()> {
        self.ahead.enter_node();
        self.way.push(Children {
            node,
            level,
            slots,
            pages: Vec::new(),
            next: 0,
            end: 0,
        });
        if self.window == usize::MAX {
            self.take_children()?;
        }
        Ok(())
    }
}
