//! Descents from the root to a node.

use crossbeam_epoch::Guard;

use super::{FoundNode, Trunk};
use crate::blink::aim::Aim;
use crate::blink::inner::Inner;
use crate::blink::node::NodePtr;
use crate::blink::sorted_leaf::{LEAF_CAP, SortedLeaf};
use crate::search::columns::Words;
use crate::sync::primitive::interleave;

impl<W: Words> Trunk<W> {
    /// Returns the node of `level` that `aim` leads to; `None` if the tree has fewer levels. Takes
    /// no latch; may wait for holders of latches, never while holding one.
    pub(crate) fn find<'g>(&self, aim: &Aim<W>, level: u8, guard: &'g Guard) -> Option<FoundNode<'g, W>> {
        self.descend(aim, level, NodePtr::prefetch, guard)
    }

    /// Returns the leaf that `aim` leads to.
    pub(crate) fn find_leaf<'g>(&self, aim: &Aim<W>, guard: &'g Guard) -> Option<FoundNode<'g, W>> {
        self.find(aim, 0, guard)
    }

    /// The same, prefetching all entries of the leaf, for reading many of them.
    pub(crate) fn find_leaf_to_scan<'g>(&self, aim: &Aim<W>, guard: &'g Guard) -> Option<FoundNode<'g, W>> {
        self.descend(aim, 0, |leaf| SortedLeaf::prefetch_first(leaf, LEAF_CAP), guard)
    }

    #[inline]
    fn descend<'g>(
        &self,
        aim: &Aim<W>,
        level: u8,
        prefetch_leaf: impl Fn(NodePtr<'g, W>),
        guard: &'g Guard,
    ) -> Option<FoundNode<'g, W>> {
        'from_root: loop {
            let mut node = self.root(guard)?;
            let mut low = None;
            if node.level() < level {
                return None;
            }
            loop {
                interleave();
                let Some(version) = node.latch.optimistic() else {
                    continue 'from_root;
                };
                if let Some((high, right)) = node.right(guard)
                    && aim.is_beyond(&high)
                {
                    if node.latch.validate(version) {
                        (low, node) = (Some(high), right);
                    }
                    continue;
                }
                if node.level() == level {
                    return Some(FoundNode { node, version, low });
                }
                let child = node
                    .downcast::<Inner<W>>()
                    .and_then(|inner| inner.child(inner.place(aim), guard));
                if let Some((separator, child)) = child
                    && node.latch.validate(version)
                {
                    if node.level() == 1 {
                        prefetch_leaf(child);
                    } else {
                        child.prefetch();
                    }
                    (low, node) = (separator.or(low), child);
                }
            }
        }
    }
}
