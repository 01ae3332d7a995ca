//! Merging nodes that have become too empty.

use super::assemble::{NodePiece, Sequence};
use super::edit::NodeMut;
use super::node::{Branch, Frame, Node, write_unlinked};
use super::shape::Shape;
use super::tree::BPlusTree;
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use crate::point::Point;
use bedload_pages::{Batch, PageId, PageStore, Result};

/// Two nodes are merged if together they fill a page to no more than this, so that the next insert
/// does not split them again. For idle nodes it is enough that they fit.
const MERGED_PERCENT: u8 = 87;

/// The most entries with which a node of the given level is of no use: a leaf without any, a branch
/// with one child.
fn idle_entries(level: u8) -> usize {
    usize::from(level > 0)
}

/// The outcome of an attempt to merge two children of a branch.
enum Outcome {
    Merged,
    /// There was nothing to do, or no neighbour to do it with. `look_above`: the branch itself is
    /// too empty.
    Settled {
        look_above: bool,
    },
}

impl<O: KeyOrder, L: RowLayout, S: PageStore> BPlusTree<O, L, S> {
    /// Whether a leaf left with `count` entries should be merged, if it can be.
    pub(super) fn is_sparse_leaf(&self, count: usize, heap_len: usize) -> bool {
        self.is_sparse(&self.leaf, 0, count, heap_len)
    }

    /// Whether a node should be merged, if it can be. One that does nothing for the tree always
    /// should.
    fn is_sparse<R: RowLayout>(&self, shape: &Shape<R>, level: u8, count: usize, heap_len: usize) -> bool {
        count <= idle_entries(level) || shape.fits_within(count, heap_len, self.config.merge_percent)
    }

    /// Whether to look for a neighbour to merge a leaf with that is left with `count` entries. A
    /// sparse leaf whose neighbours are full is looked at again only when the number of its entries
    /// has halved.
    pub(super) fn is_worth_merging(&self, leaf: &Node<'_, L>, count: usize) -> bool {
        (count == 0 || count.is_power_of_two())
            && leaf.id() != self.root
            && self.is_sparse_leaf(count, leaf.heap_len())
    }

    /// Merges sparse nodes on the path to `point`, from the leaf up. A node that cannot be merged,
    /// even because of an error, stays as it is: a sparse node is not a wrong one.
    pub(super) fn merge_around(&self, point: &Point<'_>) {
        let mut level = 1;
        while let Ok(Some(outcome)) = self.merge_at(level, point) {
            level = match outcome {
                // The nodes below may have found a neighbour.
                Outcome::Merged => (level - 1).max(1),
                Outcome::Settled { look_above: true } => level + 1,
                Outcome::Settled { look_above: false } => break,
            };
        }
    }

    /// Merges the child that covers `point` of the branch at `level` with its right neighbour, or
    /// else with its left one. `None` if the tree is lower.
    fn merge_at(&self, level: u8, point: &Point<'_>) -> Result<Option<Outcome>> {
        let mut look_above = false;
        for steps_left in [0, 1] {
            let Some(mut latched) = self.latch(&self.branch, level, point)? else {
                return Ok(None);
            };
            let node = latched.node(&self.branch);
            let count = node.count();
            look_above = self.is_sparse(&self.branch, level, count, node.heap_len());
            let slot = node.slot_of(&self.order, point)?;
            if count == 1 && latched.id == self.root {
                let child = node.child(slot)?;
                latched.batch.add(child)?;
                let outcome = if level == 1 {
                    self.lower_root(latched.batch, child, level, &self.leaf)
                } else {
                    self.lower_root(latched.batch, child, level, &self.branch)
                };
                return outcome.map(Some);
            }
            let Some(left_slot) = slot
                .checked_sub(steps_left)
                .filter(|left_slot| left_slot + 1 < count)
            else {
                continue;
            };
            let (left, right) = (node.child(left_slot)?, node.child(left_slot + 1)?);
            if left == right {
                return node.corrupt("it names a page twice");
            }
            latched.batch.add(left)?;
            latched.batch.add(right)?;
            let pair = Pair {
                parent: latched.id,
                level,
                left_slot,
                left,
                right,
                sparse_is_right: left_slot != slot,
            };
            let is_merged = if level == 1 {
                self.merge_pair(latched.batch, &pair, &self.leaf)?
            } else {
                self.merge_pair(latched.batch, &pair, &self.branch)?
            };
            if is_merged {
                return Ok(Some(Outcome::Merged));
            }
        }
        Ok(Some(Outcome::Settled { look_above }))
    }

    /// Puts the only child's entries into the root.
    fn lower_root<R: RowLayout>(
        &self,
        batch: S::Batch<'_>,
        child: PageId,
        level: u8,
        shape: &Shape<R>,
    ) -> Result<Outcome> {
        let root = Branch::parse(batch.page(0), &self.branch, self.root, level)?;
        let page = batch.page(1).to_vec();
        let node = Node::parse(&page, shape, child, level - 1)?;
        if node.right().is_some() {
            // A split is pending. Completing it gives the root another child.
            return Ok(Outcome::Settled { look_above: false });
        }
        node.check_slots(0..node.count())?;
        let mut sequence = Sequence::new(shape);
        sequence.push(NodePiece::Of(node, 0..node.count()));
        let frame = Frame {
            generation: root.generation(),
            ..Frame::of(&node)
        };
        batch.commit(|pages| {
            sequence.write(pages[0], &frame);
            write_unlinked(pages[1]);
        });
        self.store.retire(&[child]);
        Ok(Outcome::Merged)
    }

    /// Moves the right node's entries into the left one, if they fit and no split is pending
    /// between the two.
    fn merge_pair<R: RowLayout>(&self, batch: S::Batch<'_>, pair: &Pair, shape: &Shape<R>) -> Result<bool> {
        let parent = Branch::parse(batch.page(0), &self.branch, pair.parent, pair.level)?;
        let extent = parent.extent();
        let pages = [batch.page(1).to_vec(), batch.page(2).to_vec()];
        let left = Node::parse(&pages[0], shape, pair.left, pair.level - 1)?;
        let right = Node::parse(&pages[1], shape, pair.right, pair.level - 1)?;
        let sparse = if pair.sparse_is_right { right } else { left };
        let level = pair.level - 1;
        if left.right() != Some(right.id())
            || !self.is_sparse(shape, level, sparse.count(), sparse.heap_len())
        {
            return Ok(false);
        }
        left.check_slots(0..left.count())?;
        right.check_slots(0..right.count())?;
        let mut sequence = Sequence::new(shape);
        sequence.push(NodePiece::Of(left, 0..left.count()));
        sequence.push(NodePiece::Of(right, 0..right.count()));
        let is_wanted = left.count().min(right.count()) <= idle_entries(level)
            || shape.fits_within(sequence.len(), sequence.heap_len(), MERGED_PERCENT);
        if !is_wanted || !sequence.fits(right.fence_len()) {
            return Ok(false);
        }
        let frame = Frame {
            right: right.right(),
            high: right.high(),
            ..Frame::of(&left)
        };
        batch.commit(|pages| {
            let mut parent = NodeMut::new(pages[0], &self.branch, pair.parent, extent);
            parent.remove(pair.left_slot + 1..pair.left_slot + 2);
            parent.finish();
            sequence.write(pages[1], &frame);
            write_unlinked(pages[2]);
        });
        self.store.retire(&[pair.right]);
        Ok(true)
    }
}

/// Two neighbouring children of a branch.
struct Pair {
    parent: PageId,
    /// The parent's.
    level: u8,
    left_slot: usize,
    left: PageId,
    right: PageId,
    /// Which of the two is to be merged for its emptiness.
    sparse_is_right: bool,
}
