//! Paths from the root to a node: readers latch shared throughout, writers latch the last node
//! exclusively.

use std::ops::Deref;

use super::item::{EntryItem, child_bytes};
use super::node::{Branch, Extent, Node, level_of};
use super::search::DescentTarget;
use super::shape::Shape;
use super::tree::BPlusTree;
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use crate::point::{Point, PointBuf};
use bedload_pages::{Batch, PageId, PageRead, PageStore, Result};

/// The low bound of a leaf; `None` for the leftmost.
pub(super) type LowBound = Option<PointBuf>;

/// A leaf latched shared, and parsed.
pub(super) struct FoundPage<G> {
    id: PageId,
    page: G,
    extent: Extent,
}

impl<G: Deref<Target = [u8]>> FoundPage<G> {
    /// The leaf. The shape is that of the tree's leaves.
    pub(super) fn node<'n, L: RowLayout>(&'n self, shape: &'n Shape<L>) -> Node<'n, L> {
        Node::trusted(&self.page, shape, self.id, self.extent)
    }
}

enum Step {
    Right(PageId),
    Down(PageId),
}

impl<O: KeyOrder, L: RowLayout, S: PageRead> BPlusTree<O, L, S> {
    /// Latches the target leaf shared. Stores its low bound in `low`, if asked. `at_parent` sees
    /// the parent of the leaf, still latched, and which of its children comes next.
    ///
    /// Ends on damaged pages too: levels fall by one, and fences rise along a level.
    pub(super) fn descend(
        &self,
        target: DescentTarget<'_>,
        mut low: Option<&mut LowBound>,
        at_parent: impl FnOnce(&Branch<'_>, usize) -> Result<()>,
    ) -> Result<FoundPage<S::Guard<'_>>> {
        let mut at_parent = Some(at_parent);
        if let Some(low) = low.as_deref_mut() {
            *low = None;
        }
        let mut id = self.root;
        let mut page = self.store.read(id)?;
        let mut level = level_of(&page, id)?;
        loop {
            let step = if level == 0 {
                let node = Node::parse(&page, &self.leaf, id, 0)?;
                match self.right_of(&node, target, low.as_deref_mut()) {
                    Some(right) => Step::Right(right),
                    None => {
                        let extent = node.extent();
                        return Ok(FoundPage { id, page, extent });
                    }
                }
            } else {
                let node = Node::parse(&page, &self.branch, id, level)?;
                match self.right_of(&node, target, low.as_deref_mut()) {
                    Some(right) => Step::Right(right),
                    None => {
                        let slot = self.slot_of(&node, target, low.as_deref_mut())?;
                        if level == 1
                            && let Some(at_parent) = at_parent.take()
                        {
                            at_parent(&node, slot)?;
                        }
                        Step::Down(node.child(slot)?)
                    }
                }
            };
            match step {
                Step::Down(child) => {
                    let next = self.store.read(child)?;
                    (id, page) = (child, next);
                    level -= 1;
                }
                Step::Right(right) => {
                    let next = self.store.read(right)?;
                    let ascends = if level == 0 {
                        let node = Node::parse(&page, &self.leaf, id, 0)?;
                        self.fences_ascend(&node, &Node::parse(&next, &self.leaf, right, 0)?)
                    } else {
                        let node = Node::parse(&page, &self.branch, id, level)?;
                        self.fences_ascend(&node, &Node::parse(&next, &self.branch, right, level)?)
                    };
                    ascends?;
                    (id, page) = (right, next);
                }
            }
        }
    }

    /// The right neighbour, if the target lies beyond the node.
    fn right_of<R: RowLayout>(
        &self,
        node: &Node<'_, R>,
        target: DescentTarget<'_>,
        low: Option<&mut LowBound>,
    ) -> Option<PageId> {
        let high = node.high()?;
        let is_beyond = match target {
            DescentTarget::Lowest => false,
            DescentTarget::At(point) => point.cmp(&self.order, &high).is_ge(),
            DescentTarget::Below(point) => point.cmp(&self.order, &high).is_gt(),
            DescentTarget::Highest => true,
        };
        if !is_beyond {
            return None;
        }
        if let Some(low) = low {
            *low = Some(high.to_buf());
        }
        node.right()
    }

    /// The child that the target lies below.
    fn slot_of(
        &self,
        node: &Branch<'_>,
        target: DescentTarget<'_>,
        low: Option<&mut LowBound>,
    ) -> Result<usize> {
        let slot = match target {
            DescentTarget::Lowest => 0,
            DescentTarget::At(point) => node.slot_of(&self.order, &point)?,
            DescentTarget::Below(point) => node.slot_below(&self.order, &point)?,
            DescentTarget::Highest => node.count() - 1,
        };
        if let Some(low) = low
            && slot > 0
        {
            *low = Some(node.point(slot)?.to_buf());
        }
        Ok(slot)
    }

    fn fences_ascend<R: RowLayout>(&self, left: &Node<'_, R>, right: &Node<'_, R>) -> Result<()> {
        match (left.high(), right.high()) {
            (Some(left), Some(high)) if left.cmp(&self.order, &high).is_ge() => {
                right.corrupt("its high fence does not lie above its left neighbour's")
            }
            _ => Ok(()),
        }
    }
}

/// A node latched exclusively, alone or first in its batch, and parsed.
pub(super) struct Latched<'s, S: PageStore + 's> {
    pub(super) id: PageId,
    pub(super) batch: S::Batch<'s>,
    extent: Extent,
}

impl<'s, S: PageStore + 's> Latched<'s, S> {
    /// The node, if it is one of the given level.
    pub(super) fn parse<R: RowLayout>(
        id: PageId,
        batch: S::Batch<'s>,
        shape: &Shape<R>,
        level: u8,
    ) -> Result<Self> {
        let extent = Node::parse(batch.page(0), shape, id, level)?.extent();
        Ok(Self { id, batch, extent })
    }

    /// The node. The shape is that with which it was parsed.
    pub(super) fn node<'n, R: RowLayout>(&'n self, shape: &'n Shape<R>) -> Node<'n, R> {
        Node::trusted(self.batch.page(0), shape, self.id, self.extent)
    }
}

impl<O: KeyOrder, L: RowLayout, S: PageStore> BPlusTree<O, L, S> {
    /// Latches exclusively the node at `level`, one of the given shape, that covers `point`; `None`
    /// if the tree is lower than that.
    ///
    /// The parent is held shared until the node is latched: a node is retired only under its
    /// parent's exclusive latch. Splits met on the way that their parents do not know yet are
    /// completed first.
    pub(super) fn latch<R: RowLayout>(
        &self,
        shape: &Shape<R>,
        level: u8,
        point: &Point<'_>,
    ) -> Result<Option<Latched<'_, S>>> {
        'restart: loop {
            let mut id = self.root;
            let mut parent = self.store.read(id)?;
            let mut parent_level = level_of(&parent, id)?;
            if parent_level < level {
                return Ok(None);
            }
            if parent_level == level {
                drop(parent);
                let batch = self.store.batch(&[id])?;
                if level_of(batch.page(0), id)? == level {
                    return Latched::parse(id, batch, shape, level).map(Some);
                }
                continue;
            }
            loop {
                let node = Node::parse(&parent, &self.branch, id, parent_level)?;
                if !node.covers(&self.order, point) {
                    drop(parent);
                    self.complete_split(parent_level + 1, point)?;
                    continue 'restart;
                }
                let child = node.child(node.slot_of(&self.order, point)?)?;
                if parent_level - 1 > level {
                    let next = self.store.read(child)?;
                    (id, parent) = (child, next);
                    parent_level -= 1;
                    continue;
                }
                let batch = self.store.batch(&[child])?;
                drop(parent);
                let latched = Latched::parse(child, batch, shape, level)?;
                if latched.node(shape).covers(&self.order, point) {
                    return Ok(Some(latched));
                }
                drop(latched);
                self.complete_split(level + 1, point)?;
                continue 'restart;
            }
        }
    }

    /// If the child of the node at `level` that covers `point` has been split and the node does not
    /// know the new sibling yet, tells it (Lehman and Yao, §3.3). One sibling is made known at a
    /// time, from left to right.
    ///
    /// Having nothing to complete is no error: another writer has been here.
    pub(super) fn complete_split(&self, level: u8, point: &Point<'_>) -> Result<()> {
        let Some(latched) = self.latch(&self.branch, level, point)? else {
            return Ok(());
        };
        let node = latched.node(&self.branch);
        let slot = node.slot_of(&self.order, point)?;
        let upper = if slot + 1 < node.count() {
            Some(node.point(slot + 1)?)
        } else {
            node.high()
        };
        if upper.is_some_and(|upper| point.cmp(&self.order, &upper).is_ge()) {
            return node.corrupt("its pivots are out of order");
        }
        let child = node.child(slot)?;
        let page = self.store.read(child)?;
        let (high, right) = if level == 1 {
            let node = Node::parse(&page, &self.leaf, child, 0)?;
            (node.high(), node.right())
        } else {
            let node = Node::parse(&page, &self.branch, child, level - 1)?;
            (node.high(), node.right())
        };
        let (Some(high), Some(right)) = (high, right) else {
            return match upper {
                None => Ok(()),
                Some(_) => node.corrupt("a child lacks the high fence that its pivots give it"),
            };
        };
        match upper.map(|upper| high.cmp(&self.order, &upper)) {
            Some(std::cmp::Ordering::Equal) => return Ok(()),
            Some(std::cmp::Ordering::Greater) => {
                return node.corrupt("a child reaches beyond its next pivot");
            }
            Some(std::cmp::Ordering::Less) | None => {}
        }
        if slot > 0 && node.point(slot)?.cmp(&self.order, &high).is_ge() {
            return node.corrupt("a child's high fence lies below its pivot");
        }
        let high = high.to_buf();
        drop(page);
        let right = child_bytes(right);
        let pivot = EntryItem::pivot(&self.order, high.as_point(), &right);
        self.put(latched, &self.branch, level, slot + 1, false, &pivot)
    }
}
