//! Reading a run: whether it has a key, one entry, and its pages.

use std::cmp::Ordering;

use super::builder::ChildRow;
use super::columns::RunColumns;
use super::entry::RunEntry;
use super::page::{LEVEL_MAX, RunName, RunPage};
use super::shape::Shape;
use super::{Run, RunOptions};
use crate::entry::{FixedRow, Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::{Point, PointBuf};
use bedload_pages::{Error, PageId, PageRead, Result};

/// Reads a run. Its pages never change, so a reader holds no latch between two calls.
#[derive(Debug, Clone)]
pub struct RunReader<O, L, S> {
    pub(super) store: S,
    pub(super) order: O,
    pub(super) shape: Shape<L>,
    pub(super) child_shape: Shape<ChildRow>,
    pub(super) run: Run,
}

/// How many entries of a page lie before a position, and whether one lies at it.
type FoundEntry = (usize, bool);

impl<O: KeyOrder, L: RowLayout, S: PageRead> RunReader<O, L, S> {
    /// A reader of a run; order, layout and settings must be those it was built with.
    #[must_use]
    pub fn new(store: S, order: O, layout: L, config: RunOptions, run: Run) -> Self {
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

    pub(super) fn name(&self) -> RunName {
        self.run.name()
    }

    /// Whether the run may have entries of a key with this [hash](KeyOrder::hash); always, if it
    /// has no filter. One page of a filter of one page, and two of a larger one.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    pub fn may_contain(&self, hash: u64) -> Result<bool> {
        self.run.may_contain(&self.store, hash)
    }

    /// Shows `view` an entry or a tombstone, and returns what that returns; `None` if the run has
    /// neither. O(log n) pages.
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
        let point = Point::new(&self.order, position)?;
        let (mut id, mut level) = (self.run.root, self.top()?);
        while level > 0 {
            id = self.child(id, level, |page| {
                let (rank, found) = self.rank(page, point)?;
                Ok(if found { rank } else { rank.saturating_sub(1) })
            })?;
            level -= 1;
        }
        let guard = self.store.read(id)?;
        let page = RunPage::parse(&guard, &self.shape, id, &self.name(), 0)?;
        let (rank, found) = self.rank(&page, point)?;
        if !found || page.is_deleted(rank) {
            return Ok(None);
        }
        let mut columns = RunColumns::new(&self.shape);
        page.unpack_one(rank, &mut columns)?;
        Ok(Some(view(RunEntry {
            order: &self.order,
            shape: &self.shape,
            columns: &columns,
            index: 0,
        })))
    }

    pub(super) fn top(&self) -> Result<u8> {
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

    /// How many entries of the page lie before the point, and whether one lies at it.
    pub(super) fn rank<R: RowLayout>(&self, page: &RunPage<'_, R>, point: Point<'_>) -> Result<FoundEntry> {
        let mut scratch = Vec::new();
        let prefixes = page.prefixes();
        let (mut low, mut high) = prefixes.bracket(point.prefix);
        while low < high {
            let middle = usize::midpoint(low, high);
            let order = match prefixes.get(middle).cmp(&point.prefix) {
                Ordering::Equal if !self.order.prefix_is_exact() => {
                    self.order.compare(page.key(middle, &mut scratch)?, point.key)
                }
                other => other,
            };
            match order.then_with(|| page.tie(middle).cmp(&point.tie)) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok((middle, true)),
                Ordering::Greater => high = middle,
            }
        }
        Ok((low, false))
    }

    /// The first entry of the leaf that lies up to `leaves` leaves beyond a point, in a direction,
    /// as the nodes above the leaves have it: ascending, `leaves` after the one that has the point;
    /// descending, so that as many begin at it. `None` if the run ends before. Without a point, the
    /// run's own end is meant. `counts_equal` says whether an entry at the point lies before it.
    ///
    /// One page a level above the leaves; if the node there ends earlier, so does what is returned.
    pub(crate) fn leaves_beyond(
        &self,
        point: Option<Point<'_>>,
        counts_equal: bool,
        is_ascending: bool,
        leaves: usize,
    ) -> Result<Option<PointBuf>> {
        let (mut id, mut level) = (self.run.root, self.top()?);
        let mut beyond = None;
        let mut scratch = Vec::new();
        while level > 0 {
            let guard = self.store.read(id)?;
            let page = RunPage::parse(&guard, &self.child_shape, id, &self.name(), level)?;
            let before = match point {
                Some(point) => {
                    let (rank, found) = self.rank(&page, point)?;
                    rank + usize::from(found && counts_equal)
                }
                None if is_ascending => 0,
                None => page.count(),
            };
            let slot = before.saturating_sub(1);
            let step = if level == 1 { leaves.max(1) } else { 1 };
            let end = if is_ascending {
                Some(slot + step).filter(|&end| end < page.count())
            } else {
                (slot + 1).checked_sub(step).filter(|&end| end > 0)
            };
            if let Some(end) = end {
                let key = if self.order.prefix_is_exact() {
                    &[]
                } else {
                    page.key(end, &mut scratch)?
                };
                beyond = Some(PointBuf {
                    prefix: page.prefix(end),
                    tie: page.tie(end),
                    key: key.to_vec(),
                });
            }
            id = child_at(&page, id, slot)?;
            level -= 1;
        }
        Ok(beyond)
    }

    /// The pages of the run: its leaves in ascending order, and the nodes above them. Reads the
    /// latter.
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
                return Err(self.too_many_pages());
            }
            below = children;
        }
        Ok(pages)
    }

    /// The error of a run that leads to more pages than it was written with.
    pub(super) fn too_many_pages(&self) -> Error {
        Error::Corrupt {
            page: self.run.root,
            reason: "its run has more pages than it says",
        }
    }

    /// About how many entries lie before a position, from one page a level.
    ///
    /// # Errors
    ///
    /// The key has not the order's width, the store failed, or a page is damaged.
    pub fn estimate_rank(&self, position: Position<'_>) -> Result<u64> {
        let point = Point::new(&self.order, position)?;
        let (mut id, mut level) = (self.run.root, self.top()?);
        // Entries before the present node's first, and below it.
        let (mut before, mut within) = (0, self.run.entries);
        while level > 0 {
            id = self.child(id, level, |page| {
                let (rank, found) = self.rank(page, point)?;
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
        let (rank, _) = self.rank(&page, point)?;
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

/// A child of a node above the leaves.
pub(super) fn child_at(page: &RunPage<'_, ChildRow>, id: PageId, slot: usize) -> Result<PageId> {
    let corrupt = |reason| Error::Corrupt { page: id, reason };
    if slot >= page.count() {
        return Err(corrupt("it is a node without children"));
    }
    let child = u32::try_from(page.narrow(0, slot)).ok().and_then(PageId::new);
    child
        .filter(|&child| child != id)
        .ok_or_else(|| corrupt("it names a child that it cannot have"))
}
