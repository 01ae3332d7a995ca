//! Inserting an entry into a leaf or a pivot into a branch, and splitting what overflows.

use super::assemble::{Sequence, fence_between};
use super::descend::Latched;
use super::edit::NodeMut;
use super::fresh::Fresh;
use super::item::{EntryItem, Item, child_bytes};
use super::node::{Frame, Node, level_of};
use super::point::{Point, PointBuf};
use super::shape::Shape;
use super::split::cut;
use super::tree::BPlusTree;
use crate::paged::{Batch, Entry, KeyOrder, PageStore, Result, RowLayout};

impl<O: KeyOrder, L: RowLayout, S: PageStore> BPlusTree<O, L, S> {
    /// Inserts an entry, or puts it in the place of the one with the same key and tie: its key bytes, too, if the
    /// order has unequal bytes equal. Nothing is returned about what was there. Atomic.
    ///
    /// O(log n) pages; O(1) at the right edge, where ascending input goes.
    ///
    /// # Errors
    ///
    /// The entry has not the tree's shape or is too large, the store failed, or a page on the way is damaged.
    pub fn insert(&self, entry: Entry<'_>) -> Result<()> {
        let item = self.item(entry)?;
        let point = item.point();
        let latched = match self.latch_edge(&point) {
            Some(latched) => latched,
            None => self.latch_leaf(&point)?,
        };
        let node = Node::parse(latched.batch.page(0), &self.leaf, latched.id, 0)?;
        let (index, replaces) = node.find(&self.order, 0, &point)?;
        self.put(latched, &self.leaf, 0, index, replaces, &item)
    }

    /// Latches the leaf that covers `point`, and remembers it if it is the rightmost.
    pub(super) fn latch_leaf(&self, point: &Point<'_>) -> Result<Latched<'_, S>> {
        let latched = loop {
            if let Some(latched) = self.latch(0, point)? {
                break latched;
            }
        };
        let node = Node::parse(latched.batch.page(0), &self.leaf, latched.id, 0)?;
        if node.high().is_none() && node.count() > 0 {
            self.edge.remember(latched.id, node.generation(), node.prefix(0));
        }
        Ok(latched)
    }

    /// Latches the rightmost leaf without a descent, if it is remembered, still is what it was, and covers `point`.
    pub(super) fn latch_edge(&self, point: &Point<'_>) -> Option<Latched<'_, S>> {
        let leaf = self.edge.leaf_for(point.prefix)?;
        let covers = |page: &[u8]| -> Result<Option<bool>> {
            if level_of(page, leaf.page)? != 0 {
                return Ok(None);
            }
            let node = Node::parse(page, &self.leaf, leaf.page, 0)?;
            if node.generation() != leaf.generation || node.high().is_some() || node.count() == 0 {
                return Ok(None);
            }
            Ok(Some(node.point(0)?.cmp(&self.order, point).is_le()))
        };
        // Whatever is wrong with the page, the descent that follows says so if it still concerns the tree.
        let batch = self.store.batch(&[leaf.page]).ok();
        match batch.as_ref().map(|batch| covers(batch.page(0))) {
            Some(Ok(Some(true))) => batch.map(|batch| Latched { id: leaf.page, batch }),
            Some(Ok(Some(false))) => None,
            _ => {
                self.edge.forget(leaf);
                None
            }
        }
    }

    /// Puts `item` at `index` of a latched node of the given level, in place of what is there if `replaces`;
    /// splits the node if need be, and tells its parent.
    pub(super) fn put<R: RowLayout>(
        &self,
        latched: Latched<'_, S>,
        shape: &Shape<R>,
        level: u8,
        index: usize,
        replaces: bool,
        item: &EntryItem<'_>,
    ) -> Result<()> {
        let Latched { id, batch } = latched;
        let node = Node::parse(batch.page(0), shape, id, level)?;
        let (count, capacity) = (node.count(), node.capacity());
        let heap_len = item.heap_len(shape);
        let is_edge = node.high().is_none() && index == count && !replaces;
        let percent = if level == 0 { self.config.fill_percent } else { 100 };
        let appends = is_edge && count > 0;
        let is_full = appends && !shape.fits_within(count + 1, node.heap_len() + heap_len, percent);
        let in_place = if replaces {
            node.has_room_to_replace(index, item)?
        } else {
            node.has_room(heap_len) && !is_full
        };
        if in_place {
            batch.commit(|pages| {
                let mut node = NodeMut::new(pages[0], shape, count, capacity);
                if replaces {
                    node.replace(index, item);
                } else {
                    node.insert(index, item);
                }
                node.finish();
            });
            return Ok(());
        }
        let old = batch.page(0).to_vec();
        let node = Node::parse(&old, shape, id, level)?;
        let sequence = Sequence::with_item(node, index, replaces, *item)?;
        if !is_full && sequence.fits(node.fence_len()) {
            batch.commit(|pages| sequence.write(pages[0], &Frame::of(&node)));
            return Ok(());
        }
        if let Some(fence) = self.split(batch, &node, &sequence, is_full)? {
            self.complete_committed_split(level + 1, &fence);
        }
        Ok(())
    }

    /// Tells the parent of a split that has been committed. If that fails, what was asked for is done all the same:
    /// the split is left pending, and the next writer who meets it meets the error too, if it lasts.
    pub(super) fn complete_committed_split(&self, level: u8, fence: &PointBuf) {
        self.complete_split(level, &fence.as_point()).ok();
    }

    /// Writes the entries of an overflowing node to it and a new right sibling, in one batch; returns the fence
    /// between them, which the parent is yet to learn. A root keeps its place and becomes the parent itself.
    fn split<R: RowLayout>(
        &self,
        mut batch: S::Batch<'_>,
        node: &Node<'_, R>,
        sequence: &Sequence<'_, R>,
        is_append: bool,
    ) -> Result<Option<PointBuf>> {
        let shape = node.shape();
        let left_all = sequence.len() - 1;
        let left_len = if is_append && {
            let fence_len = if shape.keys {
                sequence.point(left_all)?.key.len()
            } else {
                0
            };
            sequence.part(0..left_all).fits(fence_len)
        } {
            left_all
        } else {
            cut(sequence, shape, node, self.config.split_percent)?
        };
        let (left, right) = (
            sequence.part(0..left_len),
            sequence.part(left_len..sequence.len()),
        );
        let first_right = sequence.point(left_len)?;
        let fence = if node.level() == 0 {
            fence_between(&self.order, &sequence.point(left_len - 1)?, &first_right)
        } else {
            first_right.to_buf()
        };
        let mut fresh = Fresh::new(&self.store);
        let is_root = node.id() == self.root;
        let left_page = if is_root {
            let page = fresh.reserve()?;
            batch.add(page.id)?;
            Some(page)
        } else {
            None
        };
        let right_page = fresh.reserve()?;
        batch.add(right_page.id)?;
        let level = node.level();
        let left_frame = Frame {
            level,
            generation: left_page.map_or(node.generation(), |page| page.generation),
            right: Some(right_page.id),
            high: Some(fence.as_point()),
        };
        let right_frame = Frame {
            generation: right_page.generation,
            ..Frame::of(node)
        };
        if let Some(left_page) = left_page {
            let children = [child_bytes(left_page.id), child_bytes(right_page.id)];
            let mut pivots = Sequence::new(&self.branch);
            let lowest = PointBuf::default();
            pivots.push_entry(EntryItem::pivot(&self.order, lowest.as_point(), &children[0]));
            pivots.push_entry(EntryItem::pivot(&self.order, fence.as_point(), &children[1]));
            let root_frame = Frame {
                level: level + 1,
                ..Frame::of(node)
            };
            batch.commit(|pages| {
                left.write(pages[1], &left_frame);
                right.write(pages[2], &right_frame);
                pivots.write(pages[0], &root_frame);
            });
        } else {
            batch.commit(|pages| {
                left.write(pages[0], &left_frame);
                right.write(pages[1], &right_frame);
            });
        }
        fresh.written();
        if level == 0 && node.high().is_none() {
            self.edge
                .remember(right_page.id, right_page.generation, first_right.prefix);
        }
        Ok((!is_root).then_some(fence))
    }
}
