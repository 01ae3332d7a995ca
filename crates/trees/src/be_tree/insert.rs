//! Sorted batches: written as runs, then published at the root, or behind everything else.

use std::collections::VecDeque;

use super::descend::check_level;
use super::maintain::Progress;
use super::node::{Child, LiveRun, Node, NodeView};
use super::runs::Runs;
use super::tree::BeTree;
use crate::entry::{Entry, EntrySource, Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::PointBuf;
use crate::run::{Run, RunBuilder, RunEdge};
use bedload_pages::{Batch, Error, PageId, PageStore, Result};

/// How far maintenance is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Pressure {
    /// Nothing is due at the root.
    None,
    /// A [`Maintainer`](super::Maintainer) has work.
    Due,
    /// Twice as much is due as should be: inserters should do maintenance before they go on.
    High,
}

/// Changes of a [`BeTree`] in ascending order, being written as runs. O(1) amortised for an entry,
/// and no allocation for one. Nobody sees them before they are published.
///
/// A batch that is dropped leaves pages that no run names: leaks until the store is swept.
pub struct SortedBatch<'t, O: KeyOrder, L: RowLayout, S: PageStore + 't> {
    tree: &'t BeTree<O, L, S>,
    builder: RunBuilder<'t, O, L, S>,
    first: Option<PointBuf>,
    /// The last entry before the present run.
    before: Option<PointBuf>,
    last: PointBuf,
    entries: u64,
    /// Entries in the runs that are finished.
    finished: u64,
    runs: VecDeque<Fresh>,
}

/// The outcome of an attempt to append.
enum Appended {
    Done(Pressure),
    /// There are greater entries, or no room for another leaf: the run belongs to the root.
    Elsewhere,
    /// The rightmost leaf would have too many entries.
    TooLarge,
}

/// A run that no node names yet.
#[derive(Debug)]
struct Fresh {
    run: Run,
    first: PointBuf,
}

impl<O: KeyOrder, L: RowLayout, S: PageStore> BeTree<O, L, S> {
    /// Begins a batch of changes.
    ///
    /// # Errors
    ///
    /// The store cannot accept writes, or rows of this layout are too wide for its pages.
    pub fn batch(&self) -> Result<SortedBatch<'_, O, L, S>> {
        Ok(SortedBatch {
            builder: self.run_builder()?,
            tree: self,
            first: None,
            before: None,
            last: PointBuf::default(),
            entries: 0,
            finished: 0,
            runs: VecDeque::new(),
        })
    }

    /// Inserts entries that ascend, in runs of
    /// [`BeTreeOptions::leaf_entries`](super::BeTreeOptions::leaf_entries), each published by
    /// itself.
    ///
    /// # Errors
    ///
    /// As for [`SortedBatch::put`] and [`SortedBatch::publish`].
    pub fn insert_sorted(&self, source: &mut impl EntrySource) -> Result<Pressure> {
        let mut batch = self.batch()?;
        while let Some(entry) = source.next_entry()? {
            batch.put(entry)?;
        }
        batch.publish()
    }

    fn run_builder(&self) -> Result<RunBuilder<'_, O, L, S>> {
        RunBuilder::new(
            &self.store,
            self.order.clone(),
            self.layout.clone(),
            self.config.run,
        )
    }
}

impl<O: KeyOrder, L: Runs<O>, S: PageStore> BeTree<O, L, S> {
    /// Whether all of a run lies below the entry where another begins.
    fn lies_below(&self, live: &LiveRun, first: RunEdge) -> bool {
        if self.order.prefix_is_exact() {
            live.run.last < first
        } else {
            live.run.last.prefix < first.prefix
        }
    }

    fn all_lie_below(&self, view: &NodeView<'_>, first: RunEdge) -> Result<bool> {
        for index in 0..view.runs {
            if !self.lies_below(&view.run(index)?, first) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an entry seems to lie above all entries of the tree. Another may come in between.
    fn seems_behind_all(&self, point: &PointBuf) -> Result<bool> {
        let edge = RunEdge {
            prefix: point.prefix,
            tie: point.tie,
        };
        let mut id = self.root;
        let mut guard = self.store.read(id)?;
        let mut expected = None;
        loop {
            let view = NodeView::parse(&guard, id)?;
            check_level(&view, id, expected)?;
            if !self.all_lie_below(&view, edge)? {
                return Ok(false);
            }
            if view.level == 0 {
                return Ok(true);
            }
            expected = Some(view.level - 1);
            let child = view.child(view.children - 1)?.0.page;
            guard = self.store.read(child)?;
            id = child;
        }
    }

    /// Runs written by the caller, in an order whose prefixes are exact, to be published one after
    /// another like those of a batch: each must lie above the one before.
    pub fn sealed(&self, runs: impl IntoIterator<Item = Run>) -> SealedBatch<'_, O, L, S> {
        let fresh = |run: Run| Fresh {
            first: PointBuf {
                prefix: run.first.prefix,
                tie: run.first.tie,
                key: Vec::new(),
            },
            run,
        };
        SealedBatch {
            tree: self,
            runs: runs.into_iter().map(fresh).collect(),
            pressure: Pressure::None,
        }
    }

    /// Publishes a run in the rightmost leaf, if it lies above all entries of the tree; `None` if
    /// it does not.
    ///
    /// Holds the whole way to the leaf latched, so that no run with greater entries comes in
    /// between.
    fn try_append(&self, fresh: &Fresh, live: LiveRun) -> Result<Option<Pressure>> {
        for with_parent in [false, true] {
            let mut guards = Vec::new();
            let mut above = Vec::new();
            let mut id = self.root;
            let mut root_pressure = Pressure::None;
            let mut expected = None;
            let child = loop {
                let guard = self.store.read(id)?;
                let view = NodeView::parse(&guard, id)?;
                check_level(&view, id, expected)?;
                if view.level == 0 || !self.all_lie_below(&view, live.run.first)? {
                    return Ok(None);
                }
                let last = view.children - 1;
                let (child, pivot) = view.child(last)?;
                // The last entries may have been deleted, and their runs with them.
                if last > 0 && pivot.cmp(&self.order, &fresh.first.as_point()).is_gt() {
                    return Ok(None);
                }
                let child = child.page;
                if id == self.root {
                    root_pressure = self.pressure(&Node::decode(&guard, id)?);
                }
                if view.level > 1 {
                    expected = Some(view.level - 1);
                    guards.push(guard);
                    above.push(id);
                    id = child;
                    continue;
                }
                if child == id || above.contains(&child) {
                    // It is latched by this thread, which would wait for itself.
                    let reason = "its last child is itself or a node above it";
                    return Err(Error::Corrupt { page: id, reason });
                }
                if !with_parent {
                    guards.push(guard);
                }
                break child;
            };
            let appended = if with_parent {
                self.append_with_parent(id, fresh, live)?
            } else {
                self.append_to_leaf(child, live)?
            };
            match appended {
                Appended::Done(pressure) => return Ok(Some(pressure.max(root_pressure))),
                Appended::Elsewhere => return Ok(None),
                Appended::TooLarge => {}
            }
        }
        Ok(None)
    }

    /// Puts a run behind those of the rightmost leaf, whose parent is latched.
    fn append_to_leaf(&self, id: PageId, live: LiveRun) -> Result<Appended> {
        let batch = self.store.batch(&[id])?;
        let mut leaf = Node::decode_of_level(batch.page(0), id, 0)?;
        if !leaf
            .runs
            .iter()
            .all(|other| self.lies_below(other, live.run.first))
        {
            return Ok(Appended::Elsewhere);
        }
        if !self.fits_in_leaf(&leaf, &live) {
            return Ok(Appended::TooLarge);
        }
        leaf.runs.push(live);
        batch.commit(|pages| leaf.encode(pages[0]));
        Ok(Appended::Done(self.leaf_pressure(&leaf)))
    }

    fn fits_in_leaf(&self, leaf: &Node, live: &LiveRun) -> bool {
        let entries = leaf.entries();
        self.has_room_for_run(leaf)
            && (entries == 0 || entries.saturating_add(live.run.entries) <= self.config.leaf_entries)
    }

    fn leaf_pressure(&self, leaf: &Node) -> Pressure {
        match self.runs_to_merge(leaf, false) {
            Some(_) => Pressure::Due,
            None => Pressure::None,
        }
    }

    /// Adds a rightmost leaf with the run to its parent, unless the one there has room by now.
    fn append_with_parent(&self, id: PageId, fresh: &Fresh, live: LiveRun) -> Result<Appended> {
        let reserved = self.store.reserve()?;
        let leaf = Node::leaf(reserved.generation, vec![live]);
        let mut is_leaf_written = false;
        let attempt = (|| {
            let mut batch = self.store.batch(&[id])?;
            let mut parent = Node::decode(batch.page(0), id)?;
            let last = match parent.children.last() {
                Some(child) if parent.level == 1 => child.page,
                // It has grown since.
                _ => return Ok(Appended::Elsewhere),
            };
            let pivot = parent.children.last().filter(|_| parent.children.len() > 1);
            let begins_above = |child: &Child| {
                let order = child.pivot.as_point().cmp(&self.order, &fresh.first.as_point());
                order.is_gt()
            };
            if pivot.is_some_and(begins_above) {
                return Ok(Appended::Elsewhere);
            }
            batch.add(last)?;
            let mut old = Node::decode_of_level(batch.page(1), last, 0)?;
            let mut above = parent.runs.iter().chain(&old.runs);
            if !above.all(|other| self.lies_below(other, live.run.first)) {
                return Ok(Appended::Elsewhere);
            }
            if self.fits_in_leaf(&old, &live) {
                old.runs.push(live);
                batch.commit(|pages| old.encode(pages[1]));
                return Ok(Appended::Done(self.leaf_pressure(&old)));
            }
            let child = Child {
                page: reserved.id,
                // The parent's runs have no entries for the new child. It counts as pushed as far
                // as its furthest sibling, so that no run is kept for it.
                pushed: parent
                    .children
                    .iter()
                    .map(|child| child.pushed)
                    .max()
                    .unwrap_or(0),
                pending: 0,
                pivot: fresh.first.clone(),
            };
            if self.room_for_children(&parent, child.pivot.key.len()) == 0 {
                return Ok(Appended::Elsewhere);
            }
            parent.children.push(child);
            batch.add(reserved.id)?;
            is_leaf_written = true;
            batch.commit(|pages| {
                parent.encode(pages[0]);
                leaf.encode(pages[2]);
            });
            let is_due = self.has_many_children(&parent);
            Ok(Appended::Done(if is_due {
                Pressure::Due
            } else {
                Pressure::None
            }))
        })();
        if !is_leaf_written {
            self.store.release(reserved);
        }
        attempt
    }

    /// Publishes a run at the root, as its newest; `None` if it has no room.
    fn try_publish_at_root(&self, live: LiveRun) -> Result<Option<Pressure>> {
        let shares = self.shares(self.root, &live.run)?;
        let batch = self.store.batch(&[self.root])?;
        let mut root = Node::decode(batch.page(0), self.root)?;
        if !self.has_room_for_run(&root) {
            return Ok(None);
        }
        root.runs.push(live);
        root.add_pending(&shares);
        let pressure = self.pressure(&root);
        batch.commit(|pages| root.encode(pages[0]));
        Ok(Some(pressure))
    }

    /// About how many entries of a run each child of a node is to get.
    pub(super) fn shares(&self, node: PageId, run: &Run) -> Result<Vec<(PageId, u64)>> {
        let node = self.node(node)?;
        let source = self.run(*run);
        let mut scratch = Vec::new();
        let mut shares = Vec::with_capacity(node.children.len());
        let mut before = 0;
        for slot in 0..node.children.len() {
            let until = match node.children.get(slot + 1) {
                Some(next) => self
                    .layout
                    .estimate_rank(&source, self.position(&next.pivot, &mut scratch))?,
                None => run.entries,
            };
            shares.push((node.children[slot].page, until.saturating_sub(before)));
            before = before.max(until);
        }
        Ok(shares)
    }

    /// How far maintenance of the root is behind.
    pub(super) fn pressure(&self, root: &Node) -> Pressure {
        let is_high = root.runs.len() > self.config.runs + self.config.stage_runs
            || root.pending() > 2 * self.config.pending_entries;
        if is_high {
            Pressure::High
        } else if self.is_root_due(root) {
            Pressure::Due
        } else {
            Pressure::None
        }
    }
}

impl Node {
    /// Notes what a new run has for each child. Children that no longer exist are ignored: the
    /// numbers are estimates.
    pub(super) fn add_pending(&mut self, shares: &[(PageId, u64)]) {
        for child in &mut self.children {
            let share = shares.iter().find(|(page, _)| *page == child.page);
            child.pending = child.pending.saturating_add(share.map_or(0, |&(_, share)| share));
        }
    }
}

impl<'t, O: KeyOrder, L: RowLayout, S: PageStore> SortedBatch<'t, O, L, S> {
    /// Adds an entry behind all others: an upsert.
    ///
    /// # Errors
    ///
    /// The entry does not come after the last one, does not have the tree's columns, needs more
    /// than a quarter of a page, or has too long a key ([`BeTree::key_len_max`]); the store failed.
    /// The batch is unchanged, but if the store failed it can only be dropped.
    pub fn put(&mut self, entry: Entry<'_>) -> Result<()> {
        self.check(entry.key, entry.tie)?;
        self.builder.push(entry)?;
        self.pushed(entry.key, entry.tie)
    }

    /// Adds a tombstone behind all others: the entry of this key and tie is removed, if there is
    /// one.
    ///
    /// # Errors
    ///
    /// As for [`put`](Self::put).
    pub fn remove(&mut self, key: &[u8], tie: u64) -> Result<()> {
        self.check(key, tie)?;
        self.builder.push_tombstone(key, tie)?;
        self.pushed(key, tie)
    }

    fn check(&self, key: &[u8], tie: u64) -> Result<()> {
        let tree = self.tree;
        Position { key, tie }.check_width(&tree.order)?;
        let limit_bytes = BeTree::<O, L, S>::key_len_max(tree.store.payload_len(), &tree.order, &tree.config);
        if key.len() > limit_bytes {
            return Err(Error::EntryTooLarge {
                len_bytes: key.len(),
                limit_bytes,
            });
        }
        // Within a run, its builder checks the order.
        if self.first.is_none()
            && let Some(before) = &self.before
            && tree
                .point_buf(key, tie)
                .as_point()
                .cmp(&tree.order, &before.as_point())
                .is_le()
        {
            return Err(Error::NotAscending {
                position: self.entries,
            });
        }
        Ok(())
    }

    fn pushed(&mut self, key: &[u8], tie: u64) -> Result<()> {
        self.entries += 1;
        if self.first.is_none() {
            self.first = Some(self.tree.point_buf(key, tie));
        }
        if self.entries - self.finished >= self.tree.config.leaf_entries {
            self.last = self.tree.point_buf(key, tie);
            self.cut()?;
        }
        Ok(())
    }

    /// Ends the present run and begins another.
    fn cut(&mut self) -> Result<()> {
        let builder = std::mem::replace(&mut self.builder, self.tree.run_builder()?);
        self.finish(builder)?;
        self.before = Some(self.last.clone());
        self.finished = self.entries;
        Ok(())
    }

    /// Ends the batch. Its runs can then be published; no reader sees them before.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn seal(mut self) -> Result<SealedBatch<'t, O, L, S>> {
        let builder = std::mem::replace(&mut self.builder, self.tree.run_builder()?);
        self.finish(builder)?;
        Ok(SealedBatch {
            tree: self.tree,
            runs: self.runs,
            pressure: Pressure::None,
        })
    }

    /// Ends a run. One that is about to be appended to a leaf needs no filter, as for other runs of
    /// leaves.
    fn finish(&mut self, mut builder: RunBuilder<'t, O, L, S>) -> Result<()> {
        let Some(first) = self.first.take() else {
            return Ok(());
        };
        if builder.has_filter() && self.tree.seems_behind_all(&first)? {
            builder.leave_filter_out();
        }
        if let Some(run) = builder.finish()? {
            self.runs.push_back(Fresh { run, first });
        }
        Ok(())
    }

    /// Ends the batch and publishes it. If the root has no room for it, does maintenance until it
    /// has.
    ///
    /// # Errors
    ///
    /// The store failed; or the root has no room, and another thread holds the maintenance that
    /// must be done first ([`Error::Busy`]). Earlier runs of the batch may have been published
    /// then.
    pub fn publish(self) -> Result<Pressure> {
        self.seal()?.publish()
    }
}

/// A batch whose runs are written, to be published. If it is dropped instead, its pages leak until
/// the store is swept.
#[must_use = "nobody sees a batch that is not published"]
pub struct SealedBatch<'t, O, L, S> {
    tree: &'t BeTree<O, L, S>,
    runs: VecDeque<Fresh>,
    /// The greatest that a run published so far has met.
    pressure: Pressure,
}

impl<O: KeyOrder, L: Runs<O>, S: PageStore> SealedBatch<'_, O, L, S> {
    /// Publishes the runs, each with one commit, and returns the greatest pressure that one of them
    /// has met; `None` if the root has no room for the next of them: maintain it, and try again.
    ///
    /// # Errors
    ///
    /// The store failed. Runs that were not published can be tried again.
    pub fn try_publish(&mut self) -> Result<Option<Pressure>> {
        while let Some(fresh) = self.runs.front() {
            let live = LiveRun {
                run: fresh.run,
                cycle: self.tree.cycle()?,
            };
            let pressure = match self.tree.try_append(fresh, live)? {
                Some(pressure) => pressure,
                None => match self.tree.try_publish_at_root(live)? {
                    Some(pressure) => pressure,
                    None => return Ok(None),
                },
            };
            self.pressure = self.pressure.max(pressure);
            self.runs.pop_front();
        }
        Ok(Some(self.pressure))
    }

    /// Publishes all runs. If the root has no room for one, does maintenance until it has.
    ///
    /// # Errors
    ///
    /// As for [`SortedBatch::publish`].
    pub fn publish(mut self) -> Result<Pressure> {
        loop {
            if let Some(pressure) = self.try_publish()? {
                return Ok(pressure);
            }
            if self.tree.maintainer().finish_one()? != Progress::Paused {
                let page = self.tree.root;
                self.discard()?;
                return Err(Error::Busy { page });
            }
        }
    }

    /// Releases the pages of the runs that were not published.
    ///
    /// # Errors
    ///
    /// The store failed. The pages are then leaks until it is swept.
    pub fn discard(self) -> Result<()> {
        let runs: Vec<Run> = self.runs.iter().map(|fresh| fresh.run).collect();
        self.tree.retire(&runs)
    }
}
