//! Writing a run.

use std::cmp::Ordering;

use super::columns::{Pick, RunColumns};
use super::filter::FilterBuilder;
use super::page::{Plan, RunName};
use super::shape::Shape;
use super::{Run, RunEdge, RunOptions};
use crate::entry::{Entry, FixedRow, Position, Row, RowLayout};
use crate::key_order::KeyOrder;
use bedload_pages::{Error, PageId, PageStore, Result, RunWriter};

/// The row of a node above the leaves: the child.
pub(super) type ChildRow = FixedRow<4>;

/// A page is written when less than one in so many of its entries would still fit.
const SLACK: usize = 64;

/// Builds a run from entries that ascend strictly by (key, tie). O(1) amortised for an entry, and
/// no allocation for one.
///
/// A builder that is dropped before [`finish`](Self::finish) leaves pages that no run names: leaks
/// until the store is swept.
pub struct RunBuilder<'s, O, L, S: PageStore + 's> {
    order: O,
    config: RunOptions,
    shape: Shape<L>,
    child_shape: Shape<ChildRow>,
    writer: S::RunWriter<'s>,
    leaves: Level,
    branches: Vec<Level>,
    last: Last,
    filter: FilterBuilder,
    /// The least and the greatest entry.
    edges: Option<(RunEdge, RunEdge)>,
    name: Option<RunName>,
    entries: u64,
    tombstones: u64,
    pages: u32,
    page: Vec<u8>,
    key: Vec<u8>,
}

/// The entry that was pushed last.
#[derive(Debug, Default)]
struct Last {
    prefix: u64,
    /// Empty where the prefix says it all.
    key: Vec<u8>,
    tie: u64,
}

/// The entries of one level that are not in a page yet.
#[derive(Debug)]
struct Level {
    columns: RunColumns,
    /// How many entries are gathered before pages are written.
    gather: usize,
}

impl Level {
    fn new<L: RowLayout>(shape: &Shape<L>) -> Self {
        Self {
            columns: RunColumns::new(shape),
            gather: 64,
        }
    }
}

impl<'s, O: KeyOrder, L: RowLayout, S: PageStore> RunBuilder<'s, O, L, S> {
    /// Begins a run.
    ///
    /// # Errors
    ///
    /// The store cannot accept writes, or rows of this layout are too wide for its pages.
    pub fn new(store: &'s S, order: O, layout: L, config: RunOptions) -> Result<Self> {
        let shape = Shape::new(layout, &order, store.payload_len(), config.ties);
        let child_shape = Shape::new(FixedRow, &order, store.payload_len(), config.ties);
        let empty = Plan::new(&shape, &RunColumns::new(&shape), 0).len;
        let (len_bytes, limit_bytes) = (empty + 4 * shape.layout.fixed_len(), store.payload_len());
        if len_bytes > limit_bytes {
            return Err(Error::EntryTooLarge {
                len_bytes,
                limit_bytes,
            });
        }
        Ok(Self {
            leaves: Level::new(&shape),
            writer: store.run_writer()?,
            order,
            config,
            shape,
            child_shape,
            branches: Vec::new(),
            last: Last::default(),
            filter: FilterBuilder::default(),
            edges: None,
            name: None,
            entries: 0,
            tombstones: 0,
            pages: 0,
            page: Vec::new(),
            key: Vec::new(),
        })
    }

    /// Adds an entry behind all others.
    ///
    /// # Errors
    ///
    /// The entry does not come after the last one, does not have the run's columns, or needs more
    /// than a quarter of a page; the store failed.
    pub fn push(&mut self, entry: Entry<'_>) -> Result<()> {
        self.push_any(entry, false)
    }

    /// Adds a tombstone: in a merge with older runs it removes the entry of this key and tie. Its
    /// row is empty or zero.
    ///
    /// # Errors
    ///
    /// As for [`push`](Self::push).
    pub fn push_tombstone(&mut self, key: &[u8], tie: u64) -> Result<()> {
        let fixed = vec![0; self.shape.layout.fixed_len()];
        let variable = vec![&[][..]; self.shape.layout.variable_columns()];
        let row = Row {
            fixed: &fixed,
            variable: &variable,
        };
        self.push_any(Entry { key, tie, row }, true)
    }

    fn push_any(&mut self, entry: Entry<'_>, is_tombstone: bool) -> Result<()> {
        let Entry { key, tie, row } = entry;
        Position { key, tie }.check_width(&self.order)?;
        let layout = &self.shape.layout;
        if row.fixed.len() != layout.fixed_len()
            || row.variable.len() != layout.variable_columns()
            || (!self.shape.ties && tie != 0)
        {
            let reason = "its columns are not those of the run";
            return Err(Error::Shape { reason });
        }
        let strings: usize = row.variable.iter().map(|bytes| bytes.len()).sum();
        let len_bytes = row.fixed.len() + strings + key.len();
        let limit_bytes = self.shape.payload_len / 4;
        if len_bytes > limit_bytes {
            return Err(Error::EntryTooLarge {
                len_bytes,
                limit_bytes,
            });
        }
        self.check_ascends(key, tie)?;
        if self.config.filter_bits > 0
            && let Some(hash) = self.order.hash(key)
        {
            self.filter.push(hash);
        }
        let edge = RunEdge {
            prefix: self.last.prefix,
            tie,
        };
        self.widen(edge, edge);
        self.leaves
            .columns
            .push(&self.shape, &self.order, &entry, is_tombstone);
        self.pushed(is_tombstone)
    }

    /// Whether the run will have a filter.
    pub(crate) fn has_filter(&self) -> bool {
        !self.filter.is_empty()
    }

    /// Ends the run without the filter that it was to have.
    pub(crate) fn leave_filter_out(&mut self) {
        self.filter = FilterBuilder::default();
    }

    /// How many entries are gathered before pages are written.
    pub(super) fn room(&self) -> usize {
        self.leaves
            .gather
            .saturating_sub(self.leaves.columns.len())
            .max(1)
    }

    /// Adds entries of other columns of this shape, which are known to ascend and to lie behind the
    /// last one.
    pub(super) fn push_picked(&mut self, from: &[&RunColumns], picked: &[Pick]) -> Result<()> {
        let edge = |pick: &Pick| RunEdge {
            prefix: from[pick.source()].prefix(pick.index()),
            tie: from[pick.source()].tie(&self.shape, pick.index()),
        };
        if let Some((first, last)) = picked.first().map(edge).zip(picked.last().map(edge)) {
            // Entries of a damaged run may start over.
            if self.edges.is_some_and(|(_, before)| first.prefix < before.prefix) {
                return Err(Error::NotAscending {
                    position: self.entries,
                });
            }
            self.widen(first, last);
        }
        let before = self.leaves.columns.len();
        self.leaves.columns.push_picked(&self.shape, from, picked);
        if self.config.filter_bits > 0 {
            self.push_hashes(from, picked);
        }
        self.entries += picked.len() as u64;
        let added = &self.leaves.columns.numbers[self.shape.tombstones_at()][before..];
        self.tombstones += added.iter().filter(|&&is_tombstone| is_tombstone != 0).count() as u64;
        self.write_when_gathered()
    }

    fn push_hashes(&mut self, from: &[&RunColumns], picked: &[Pick]) {
        for pick in picked {
            let columns = from[pick.source()];
            let hash = if self.shape.keys {
                self.order.hash(columns.string(&self.shape, 0, pick.index()))
            } else {
                self.order
                    .key_of_prefix(columns.prefix(pick.index()), &mut self.key);
                self.order.hash(&self.key)
            };
            if let Some(hash) = hash {
                self.filter.push(hash);
            }
        }
    }

    fn widen(&mut self, first: RunEdge, last: RunEdge) {
        self.edges = Some((self.edges.map_or(first, |(first, _)| first), last));
    }

    /// Pages written so far.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    fn pushed(&mut self, is_tombstone: bool) -> Result<()> {
        self.entries += 1;
        self.tombstones += u64::from(is_tombstone);
        self.write_when_gathered()
    }

    fn write_when_gathered(&mut self) -> Result<()> {
        if self.leaves.columns.len() >= self.leaves.gather {
            self.write_leaves(false)?;
        }
        Ok(())
    }

    fn check_ascends(&mut self, key: &[u8], tie: u64) -> Result<()> {
        let prefix = self.order.prefix(key);
        let Last {
            prefix: last_prefix,
            key: last_key,
            tie: last_tie,
        } = &mut self.last;
        let order = (*last_prefix).cmp(&prefix).then_with(|| {
            if self.shape.keys {
                self.order.compare(last_key, key)
            } else {
                Ordering::Equal
            }
        });
        if self.entries > 0 && order.then((*last_tie).cmp(&tie)).is_ge() {
            return Err(Error::NotAscending {
                position: self.entries,
            });
        }
        (*last_prefix, *last_tie) = (prefix, tie);
        if self.shape.keys {
            last_key.clear();
            last_key.extend_from_slice(key);
        }
        Ok(())
    }

    /// Writes leaves as long as there is more than one page of entries, or until there are none.
    fn write_leaves(&mut self, all: bool) -> Result<()> {
        while !self.leaves.columns.is_empty() {
            let Some(plan) = self
                .config
                .fit(&self.shape, &self.leaves.columns, &mut self.leaves.gather, all)
            else {
                return Ok(());
            };
            let (len_bytes, limit_bytes) = (plan.len, self.shape.payload_len);
            if len_bytes > limit_bytes {
                return Err(Error::EntryTooLarge {
                    len_bytes,
                    limit_bytes,
                });
            }
            let reserved = self.writer.reserve()?;
            let name = *self.name.get_or_insert(RunName {
                first_page: reserved.id,
                generation: reserved.generation,
            });
            plan.write(&self.shape, &self.leaves.columns, 0, &name, &mut self.page);
            let id = reserved.id;
            self.writer.write(reserved, &self.page)?;
            self.pages += 1;
            let columns = &self.leaves.columns;
            if self.shape.keys {
                self.key.clear();
                self.key.extend_from_slice(columns.string(&self.shape, 0, 0));
            } else {
                self.order.key_of_prefix(columns.prefix(0), &mut self.key);
            }
            let tie = columns.tie(&self.shape, 0);
            self.leaves.columns.remove_first(&self.shape, plan.count());
            self.push_child(0, tie, id)?;
        }
        Ok(())
    }

    /// Adds a child, whose first key is in `key`, to the branch above level `below`.
    fn push_child(&mut self, below: usize, tie: u64, child: PageId) -> Result<()> {
        if self.branches.len() == below {
            self.branches.push(Level::new(&self.child_shape));
        }
        let row = Row {
            fixed: &child.get().to_le_bytes(),
            variable: &[],
        };
        let entry = Entry {
            key: &self.key,
            tie,
            row,
        };
        let level = &mut self.branches[below];
        level.columns.push(&self.child_shape, &self.order, &entry, false);
        if level.columns.len() >= level.gather {
            self.write_branches(below, false)?;
        }
        Ok(())
    }

    fn write_branches(&mut self, at: usize, all: bool) -> Result<()> {
        while !self.branches[at].columns.is_empty() {
            let level = &mut self.branches[at];
            let Some(plan) = self
                .config
                .fit(&self.child_shape, &level.columns, &mut level.gather, all)
            else {
                return Ok(());
            };
            let Some(name) = self.name else { return Ok(()) };
            let reserved = self.writer.reserve()?;
            let id = reserved.id;
            let number = u8::try_from(at + 1).unwrap_or(u8::MAX);
            plan.write(&self.child_shape, &level.columns, number, &name, &mut self.page);
            self.writer.write(reserved, &self.page)?;
            self.pages += 1;
            if self.child_shape.keys {
                self.key.clear();
                self.key
                    .extend_from_slice(level.columns.string(&self.child_shape, 0, 0));
            } else {
                self.order.key_of_prefix(level.columns.prefix(0), &mut self.key);
            }
            let tie = level.columns.tie(&self.child_shape, 0);
            level.columns.remove_first(&self.child_shape, plan.count());
            self.push_child(at + 1, tie, id)?;
        }
        Ok(())
    }

    /// Ends the run; `None` if it has no entries. Its pages are durable before a batch that names
    /// them commits.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn finish(mut self) -> Result<Option<Run>> {
        self.write_leaves(true)?;
        let mut at = 0;
        // A level of one child needs no node above it: that child is the root.
        let root = loop {
            let Some(level) = self.branches.get(at) else {
                break None;
            };
            let is_top = at + 1 == self.branches.len();
            if is_top && level.columns.len() == 1 {
                let child = level.columns.numbers[self.child_shape.narrow_at()][0];
                break u32::try_from(child).ok().and_then(PageId::new);
            }
            self.write_branches(at, true)?;
            at += 1;
        };
        let filter = match self.name {
            Some(name) if !self.filter.is_empty() => {
                let bits = self.config.filter_bits;
                let (filter, pages) =
                    self.filter
                        .write(&mut self.writer, &name, self.shape.payload_len, bits)?;
                self.pages += pages;
                Some(filter)
            }
            _ => None,
        };
        self.writer.finish()?;
        let named = root.zip(self.name).zip(self.edges);
        Ok(named.map(|((root, name), (first, last))| Run {
            root,
            first_page: name.first_page,
            generation: name.generation,
            height: u8::try_from(at + 1).unwrap_or(u8::MAX),
            pages: self.pages,
            entries: self.entries,
            tombstones: self.tombstones,
            filter,
            first,
            last,
        }))
    }
}

impl RunOptions {
    /// How many of the entries go to the next page, at least one, whether it fits or not. None
    /// while all of them would fit and more may come; then more are gathered first.
    fn fit<L: RowLayout>(
        &self,
        shape: &Shape<L>,
        columns: &RunColumns,
        gather: &mut usize,
        all: bool,
    ) -> Option<Plan> {
        let room = shape.payload_len;
        let most = usize::from(self.max_entries);
        let mut count = columns.len().min(most);
        let mut plan = Plan::new(shape, columns, count);
        if plan.len <= room && count < most && !all {
            let more = count * (room - plan.len) / plan.len;
            // A page with so little free space is as good as full.
            if more >= count / SLACK {
                *gather = count + more.max(8);
                return None;
            }
        }
        while plan.len > room && count > 1 {
            count = (count * room / plan.len).clamp(1, count - 1);
            plan = Plan::new(shape, columns, count);
        }
        *gather = plan.count();
        Some(plan)
    }
}
