//! Inserting an entry into a leaf or a pivot into a branch, and splitting what overflows.

use super::assemble::Sequence;
use super::descend::Latched;
use super::edit::NodeMut;
use super::item::{EntryItem, Item};
use super::node::{Frame, Node};
use super::shape::Shape;
use super::split::cut;
use super::tree::BPlusTree;
use crate::entry::{Entry, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::Point;
use bedload_pages::{Batch, PageStore, Result};

impl<O: KeyOrder, L: RowLayout, S: PageStore> BPlusTree<O, L, S> {
    /// Inserts an entry, or replaces the one with the same key and tie, including its key bytes, as
    /// the order may treat unequal bytes as equal. Returns nothing about the old entry. Atomic.
    ///
    /// O(log n) pages; O(1) at the right edge, where ascending input goes.
    ///
    /// # Errors
    ///
    /// The entry has not the tree's shape or is too large, the store failed, or a page on the way
    /// is damaged.
    pub fn insert(&self, entry: Entry<'_>) -> Result<()> {
        let item = self.item(entry)?;
        let point = item.point();
        if let Some(latched) = self.latch_edge(&point) {
            let node = latched.node(&self.leaf);
            let (index, replaces) = node.find_from_end(&self.order, &point)?;
            return self.put(latched, &self.leaf, 0, index, replaces, &item);
        }
        let latched = self.latch_leaf(&point)?;
        let (index, replaces) = latched.node(&self.leaf).find(&self.order, 0, &point)?;
        self.put(latched, &self.leaf, 0, index, replaces, &item)
    }

    /// Latches the leaf that covers `point`, and remembers it if it is the rightmost.
    pub(super) fn latch_leaf(&self, point: &Point<'_>) -> Result<Latched<'_, S>> {
        let latched = loop {
            if let Some(latched) = self.latch(&self.leaf, 0, point)? {
                break latched;
            }
        };
        let node = latched.node(&self.leaf);
        if node.high().is_none() && node.count() > 0 {
            self.edge.remember(latched.id, node.generation(), node.prefix(0));
        }
        Ok(latched)
    }

    /// Latches the rightmost leaf without a descent, if it is remembered, still is what it was, and
    /// covers `point`.
    pub(super) fn latch_edge(&self, point: &Point<'_>) -> Option<Latched<'_, S>> {
        let leaf = self.edge.leaf_for(point.prefix)?;
        // The descent that follows reports any damage of the page that still concerns the tree.
        let batch = self.store.batch(&[leaf.page]);
        let latched = batch
            .and_then(|batch| Latched::parse(leaf.page, batch, &self.leaf, 0))
            .ok();
        let latched = latched.filter(|latched| {
            let node = latched.node(&self.leaf);
            node.generation() == leaf.generation && node.high().is_none() && node.count() > 0
        });
        let Some(latched) = latched else {
            self.edge.forget(leaf);
            return None;
        };
        let first = latched.node(&self.leaf).point(0);
        let covers = first.is_ok_and(|first| first.cmp(&self.order, point).is_le());
        covers.then_some(latched)
    }

    /// Puts `item` at `index` of a latched node of the given level, in place of what is there if
    /// `replaces`; splits the node if need be, and tells its parent.
    pub(super) fn put<R: RowLayout>(
        &self,
        latched: Latched<'_, S>,
        shape: &Shape<R>,
        level: u8,
        index: usize,
        replaces: bool,
        item: &EntryItem<'_>,
    ) -> Result<()> {
        let node = latched.node(shape);
        let (id, count, extent) = (latched.id, node.count(), node.extent());
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
        let batch = latched.batch;
        if in_place {
            batch.commit(|pages| {
                let mut node = NodeMut::new(pages[0], shape, id, extent);
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
        let node = Node::trusted(&old, shape, id, extent);
        let sequence = Sequence::with_item(node, index, replaces, *item)?;
        if !is_full && sequence.fits(node.fence_len()) {
            batch.commit(|pages| sequence.write(pages[0], &Frame::of(&node)));
            return Ok(());
        }
        let last = sequence.len() - 1;
        let left_len = if is_full && sequence.part(0..last).fits(sequence.fence_len_at(last)?) {
            last
        } else {
            cut(&sequence, shape, &node, self.config.split_percent)?
        };
        self.spread(batch, &node, &sequence, &[left_len])
    }
}
