//! Reading a run: one entry, or a range in either direction.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use super::builder::ChildRow;
use super::columns::Columns;
use super::page::{LEVEL_MAX, RunName, RunPage};
use super::shape::Shape;
use super::{Run, RunConfig};
use crate::paged::read_ahead::ReadAhead;
use crate::paged::{Error, FixedRow, KeyOrder, PageId, PageRead, Position, Result, RowLayout};

/// Reads a run. Its pages never change, so a reader holds no latch between two calls.
#[derive(Debug, Clone)]
pub struct RunReader<O, L, S> {
    store: S,
    order: O,
    shape: Shape<L>,
    child_shape: Shape<ChildRow>,
    run: Run,
}

/// How many entries of a page lie before a position, and whether one lies at it.
type Found = (usize, bool);

impl<O: KeyOrder, L: RowLayout, S: PageRead> RunReader<O, L, S> {
    /// A reader of a run; order, layout and settings must be those it was built with.
    #[must_use]
    pub fn new(store: S, order: O, layout: L, config: RunConfig, run: Run) -> Self {
        Self {
            shape: Shape::new(layout, &order, store.payload_len(), config.ties),
            child_shape: Shape::new(FixedRow, &order, store.payload_len(), config.ties),
            store,
            order,
            run,
        }
    }

    /// The run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    fn name(&self) -> RunName {
        RunName {
            first_page: self.run.first_page,
            generation: self.run.generation,
        }
    }

    /// Whether the run may have entries of a key with this [hash](KeyOrder::hash); always, if it has no filter. One page
    /// of a filter of one page, and two of a larger one.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    pub fn may_contain(&self, hash: u64) -> Result<bool> {
        match self.run.filter {
            Some(filter) => filter.may_contain(&self.store, &self.name(), hash),
            None => Ok(true),
        }
    }

    /// What `view` makes of an entry or a tombstone; `None` if the run has neither. O(log n) pages.
    ///
    /// # Errors
    ///
    /// The key has not the order's width, the store failed, or a page is damaged.
    pub fn get_with<R>(
        &self,
        key: &[u8],
        tie: u64,
        view: impl FnOnce(RunEntry<'_, O, L>) -> R,
    ) -> Result<Option<R>> {
        let position = Position { key, tie };
        position.check_width(&self.order)?;
        let (mut id, mut level) = (self.run.root, self.top()?);
        while level > 0 {
            id = self.child(id, level, |page| {
                let (rank, found) = self.rank(page, position)?;
                Ok(if found { rank } else { rank.saturating_sub(1) })
            })?;
            level -= 1;
        }
        let guard = self.store.read(id)?;
        let page = RunPage::parse(&guard, &self.shape, id, &self.name(), 0)?;
        let (rank, found) = self.rank(&page, position)?;
        if !found || page.is_deleted(rank) {
            return Ok(None);
        }
        let mut columns = Columns::new(&self.shape);
        page.unpack_one(rank, &mut columns)?;
        Ok(Some(view(RunEntry {
            order: &self.order,
            shape: &self.shape,
            columns: &columns,
            index: 0,
        })))
    }

    fn top(&self) -> Result<u8> {
        if (1..=LEVEL_MAX).contains(&self.run.height) {
            Ok(self.run.height - 1)
        } else {
            Err(Error::Corrupt {
                page: self.run.root,
                reason: "its run has a height that no run has",
            })
        }
    }

    /// The child that `choose` names of a node above the leaves.
    fn child(
        &self,
        id: PageId,
        level: u8,
        choose: impl FnOnce(&RunPage<'_, ChildRow>) -> Result<usize>,
    ) -> Result<PageId> {
        let guard = self.store.read(id)?;
        let page = RunPage::parse(&guard, &self.child_shape, id, &self.name(), level)?;
        let slot = choose(&page)?;
        child_at(&page, id, slot)
    }

    /// How many entries of the page lie before the position, and whether one lies at it.
    fn rank<R: RowLayout>(&self, page: &RunPage<'_, R>, position: Position<'_>) -> Result<Found> {
        let prefix = self.order.prefix(position.key);
        let mut scratch = Vec::new();
        let (mut low, mut high) = (0, page.count());
        while low < high {
            let middle = usize::midpoint(low, high);
            let order = match page.prefix(middle).cmp(&prefix) {
                Ordering::Equal if !self.order.prefix_is_exact() => {
                    self.order.compare(page.key(middle, &mut scratch)?, position.key)
                }
                other => other,
            };
            match order.then_with(|| page.tie(middle).cmp(&position.tie)) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok((middle, true)),
                Ordering::Greater => high = middle,
            }
        }
        Ok((low, false))
    }

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

    /// The pages of the run: its leaves in ascending order, and the nodes above them. Reads the latter.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    pub fn pages(&self) -> Result<RunPages> {
        let mut pages = RunPages {
            leaves: Vec::new(),
            nodes: Vec::new(),
            filter: match self.run.filter {
                Some(filter) => filter.all_pages(&self.store, &self.name())?,
                None => Vec::new(),
            },
        };
        let mut below = vec![self.run.root];
        for level in (0..=self.top()?).rev() {
            if level == 0 {
                pages.leaves = below;
                break;
            }
            let mut children = Vec::new();
            for &id in &below {
                let guard = self.store.read(id)?;
                let page = RunPage::parse(&guard, &self.child_shape, id, &self.name(), level)?;
                for slot in 0..page.count() {
                    children.push(child_at(&page, id, slot)?);
                }
            }
            pages.nodes.append(&mut below);
            if pages.nodes.len() + children.len() > self.run.pages as usize {
                return Err(Error::Corrupt {
                    page: self.run.root,
                    reason: "its run has more pages than it says",
                });
            }
            below = children;
        }
        Ok(pages)
    }

    /// About how many entries lie before a position, from one page a level.
    ///
    /// # Errors
    ///
    /// The key has not the order's width, the store failed, or a page is damaged.
    pub fn estimate_rank(&self, position: Position<'_>) -> Result<u64> {
        position.check_width(&self.order)?;
        let (mut id, mut level) = (self.run.root, self.top()?);
        // Entries before the present node's first, and below it.
        let (mut before, mut within) = (0, self.run.entries);
        while level > 0 {
            id = self.child(id, level, |page| {
                let (rank, found) = self.rank(page, position)?;
                let slot = if found { rank } else { rank.saturating_sub(1) };
                let share = within / page.count().max(1) as u64;
                before += share * slot as u64;
                within = share;
                Ok(slot)
            })?;
            level -= 1;
        }
        let guard = self.store.read(id)?;
        let page = RunPage::parse(&guard, &self.shape, id, &self.name(), 0)?;
        let (rank, _) = self.rank(&page, position)?;
        Ok(before.saturating_add(rank as u64).min(self.run.entries))
    }
}

/// The pages of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPages {
    /// Leaves, in the order of their entries.
    pub leaves: Vec<PageId>,
    /// Nodes above them, the root first.
    pub nodes: Vec<PageId>,
    /// Those of its filter.
    pub filter: Vec<PageId>,
}

impl RunPages {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        self.nodes.iter().chain(&self.leaves).chain(&self.filter).copied()
    }
}

fn child_at(page: &RunPage<'_, ChildRow>, id: PageId, slot: usize) -> Result<PageId> {
    let corrupt = |reason| Error::Corrupt { page: id, reason };
    if slot >= page.count() {
        return Err(corrupt("it is a node without children"));
    }
    let child = u32::try_from(page.narrow(0, slot)).ok().and_then(PageId::new);
    child
        .filter(|&child| child != id)
        .ok_or_else(|| corrupt("a child is none that it can have"))
}

/// An entry of a run.
pub struct RunEntry<'c, O, L> {
    order: &'c O,
    shape: &'c Shape<L>,
    columns: &'c Columns,
    index: usize,
}

impl<'c, O: KeyOrder, L: RowLayout> RunEntry<'c, O, L> {
    /// The prefix of the key.
    #[must_use]
    pub fn prefix(&self) -> u64 {
        self.columns.prefix(self.index)
    }

    /// The tie.
    #[must_use]
    pub fn tie(&self) -> u64 {
        self.columns.tie(self.shape, self.index)
    }

    /// Whether it says that an older entry of its key and tie is gone.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.columns.numbers[self.shape.tombstones_at()][self.index] != 0
    }

    /// The key. Where pages keep no key bytes because the prefix is exact, it is made in `scratch`.
    pub fn key<'k>(&'k self, scratch: &'k mut Vec<u8>) -> &'k [u8] {
        if self.shape.keys {
            self.columns.string(self.shape, 0, self.index)
        } else {
            self.order.key_of_prefix(self.prefix(), scratch);
            scratch
        }
    }

    /// How the two stand to each other, by key and tie.
    pub(in crate::paged) fn compare<M: RowLayout>(&self, other: &RunEntry<'_, O, M>) -> Ordering {
        let keys = self.prefix().cmp(&other.prefix()).then_with(|| {
            if self.shape.keys {
                let (left, right) = (self.columns, other.columns);
                self.order.compare(
                    left.string(self.shape, 0, self.index),
                    right.string(other.shape, 0, other.index),
                )
            } else {
                Ordering::Equal
            }
        });
        keys.then_with(|| self.tie().cmp(&other.tie()))
    }

    /// The fixed columns, end to end, put into `out`.
    pub fn fixed_into(&self, out: &mut Vec<u8>) {
        out.clear();
        let mut narrow = self.columns.numbers[self.shape.narrow_at()..].iter();
        let mut wide = self.columns.wide.iter();
        for width in self
            .shape
            .layout
            .fixed_widths()
            .iter()
            .map(|&width| usize::from(width))
        {
            if width <= 8 {
                let number = narrow.next().map_or(0, |column| column[self.index]);
                out.extend_from_slice(&number.to_le_bytes()[..width]);
            } else if let Some(column) = wide.next() {
                out.extend_from_slice(&column[self.index * width..(self.index + 1) * width]);
            }
        }
    }

    /// A variable column, the first of them being 0.
    ///
    /// # Panics
    ///
    /// If the layout has no such column.
    #[must_use]
    pub fn variable(&self, column: usize) -> &'c [u8] {
        let keys = usize::from(self.shape.keys);
        self.columns.string(self.shape, keys + column, self.index)
    }
}

/// A cursor unpacks so few entries of its first leaf at first, and then more and more at a time: a short range should not
/// pay for all of a leaf.
const FIRST_WINDOW: usize = 16;
/// By how much more.
const WINDOW_GROWTH: usize = 4;

/// Entries of a range of a run, in either direction.
pub struct RunCursor<O, L, S> {
    reader: RunReader<O, L, S>,
    is_ascending: bool,
    /// The way to the present leaf: of each node above it the children, and which of them is next.
    way: Vec<Children>,
    /// Entries of the present leaf, and which of them are still to come.
    columns: Columns,
    next: usize,
    end: usize,
    /// The present leaf, and which of its entries are to be unpacked later.
    leaf: Option<(PageId, Range<usize>)>,
    /// How many are unpacked next.
    window: usize,
    ahead: ReadAhead,
    from: Bound<(Vec<u8>, u64)>,
    to: Bound<(Vec<u8>, u64)>,
}

#[derive(Debug)]
struct Children {
    level: u8,
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
        let owned = |bound: Bound<Position<'_>>| -> Result<Bound<(Vec<u8>, u64)>> {
            if let Bound::Included(position) | Bound::Excluded(position) = bound {
                position.check_width(&reader.order)?;
            }
            Ok(bound.map(|position| (position.key.to_vec(), position.tie)))
        };
        Ok(Self {
            from: owned(from)?,
            to: owned(to)?,
            is_ascending,
            way: vec![Children {
                level: reader.top()? + 1,
                pages: vec![reader.run.root],
                next: 0,
                end: 1,
            }],
            columns: Columns::new(&reader.shape),
            next: 0,
            end: 0,
            leaf: None,
            window: FIRST_WINDOW,
            ahead: ReadAhead::default(),
            reader,
        })
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
    pub(in crate::paged) fn present(&self) -> RunEntry<'_, O, L> {
        self.entry_at(self.head())
    }

    /// Goes on behind the entry that comes next.
    pub(in crate::paged) fn pass(&mut self) {
        if self.is_ascending {
            self.next += 1;
        } else {
            self.end -= 1;
        }
    }

    /// The entry that was passed last, if nothing was filled since.
    pub(in crate::paged) fn passed(&self) -> RunEntry<'_, O, L> {
        self.entry_at(if self.is_ascending {
            self.next - 1
        } else {
            self.end
        })
    }

    /// The run.
    pub(in crate::paged) fn run(&self) -> &Run {
        &self.reader.run
    }

    /// Unpacks whole leaves from now on, and fetches as far ahead as ever: for who is going to read them all.
    pub(super) fn expect_whole_leaves(&mut self) {
        self.window = usize::MAX;
        self.ahead = ReadAhead::at_once();
    }

    /// Sees to it that the present leaf has an entry to give; `false` at the end of the range.
    pub(in crate::paged) fn fill(&mut self) -> Result<bool> {
        while self.next == self.end {
            if let Some((id, _)) = self.leaf {
                self.unpack_more(id)?;
                continue;
            }
            let Some((id, level)) = self.next_page()? else {
                return Ok(false);
            };
            if level == 0 {
                self.unpack_more(id)?;
            } else {
                self.enter_node(id, level)?;
            }
        }
        Ok(true)
    }

    /// The entries at hand of the present leaf, and which of its entries are to come.
    pub(super) fn leaf(&self) -> (&Columns, Range<usize>) {
        (&self.columns, self.next..self.end)
    }

    /// Goes on at an entry of the present leaf, or behind its last.
    pub(super) fn pass_to(&mut self, next: usize) {
        self.next = next;
    }

    fn next_page(&mut self) -> Result<Option<(PageId, u8)>> {
        while let Some(children) = self.way.last_mut() {
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
        Ok(None)
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
        let rank =
            |bound: &Bound<(Vec<u8>, u64)>, unbounded: usize, counts_equal: fn(bool) -> bool| match bound {
                Bound::Unbounded => Ok(unbounded),
                Bound::Included((key, tie)) | Bound::Excluded((key, tie)) => {
                    let (rank, found) = self.reader.rank(page, Position { key, tie: *tie })?;
                    let is_included = matches!(bound, Bound::Included(_));
                    Ok(rank + usize::from(found && counts_equal(is_included)))
                }
            };
        let begin = rank(&self.from, 0, |is_included| !is_included)?;
        let end = rank(&self.to, page.count(), |is_included| is_included)?;
        Ok((begin, end.max(begin)))
    }

    /// Unpacks more of the present leaf, or of the next one.
    fn unpack_more(&mut self, id: PageId) -> Result<()> {
        let reader = &self.reader;
        let guard = reader.store.read(id)?;
        let page = RunPage::parse(&guard, &reader.shape, id, &reader.name(), 0)?;
        let mut left = match self.leaf.take() {
            Some((_, left)) => left,
            None => {
                let (begin, end) = self.ranks(&page)?;
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
        page.unpack(window, &mut self.columns)?;
        (self.next, self.end) = (0, self.columns.len());
        self.window = self.window.saturating_mul(WINDOW_GROWTH);
        self.leaf = (!left.is_empty()).then_some((id, left));
        Ok(())
    }

    fn enter_node(&mut self, id: PageId, level: u8) -> Result<()> {
        let reader = &self.reader;
        let guard = reader.store.read(id)?;
        let page = RunPage::parse(&guard, &reader.child_shape, id, &reader.name(), level)?;
        let (begin, end) = self.ranks(&page)?;
        let pages: Vec<PageId> = (0..page.count())
            .map(|slot| child_at(&page, id, slot))
            .collect::<Result<_>>()?;
        self.ahead.enter_node();
        // The child before the first entry of the range may have entries of it, too.
        self.way.push(Children {
            level,
            pages,
            next: begin.saturating_sub(1),
            end,
        });
        Ok(())
    }
}
