//! Replacing a leaf by other nodes.

use crossbeam_epoch::Guard;

use super::Trunk;
use crate::blink::aim::Aim;
use crate::blink::inner::Inner;
use crate::blink::node::NodePtr;
use crate::search::columns::Words;
use crate::sync::primitive::interleave;
use crate::sync::version_latch::Writer;

/// Leaves, linked from the first to the last, that no other thread can reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain<'g, W: Words> {
    pub(crate) first: NodePtr<'g, W>,
    pub(crate) last: NodePtr<'g, W>,
}

impl<W: Words> Trunk<W> {
    /// Replaces a leaf by a chain that covers the same keys, from `low` on, and retires the leaf,
    /// which the caller protects from changes. `false` if another thread was in the way, or the
    /// leaf's own separator has not reached its parent yet.
    ///
    /// Holds three latches: the left sibling's, the leaf's and the parent's, the latter two by
    /// trying. The caller inserts the separators of the chain's other leaves.
    pub(crate) fn try_replace(
        &self,
        leaf: NodePtr<'_, W>,
        low: Option<W>,
        chain: Chain<'_, W>,
        guard: &Guard,
    ) -> bool {
        let aim = Aim::At(low.unwrap_or(W::MIN));
        let Some(above) = self.find(&aim, 1, guard) else {
            return false;
        };
        let Some(parent) = above.node.downcast::<Inner<W>>() else {
            return false;
        };
        let place = parent.place(&aim);
        if parent.child(place, guard).is_none_or(|(_, child)| child != leaf) {
            return false;
        }
        let beside = match low {
            None => None,
            Some(low) => {
                let Some(left) = self.find(&Aim::Below(low), 0, guard) else {
                    return false;
                };
                interleave();
                let Some(latched) = left.node.header().latch.try_latch(left.version) else {
                    return false;
                };
                if left.node.right(guard).is_none_or(|(_, right)| right != leaf) {
                    return false;
                }
                Some((low, left.node, latched))
            }
        };
        let Some(leaf_latched) = leaf.latch.try_latch_now() else {
            return false;
        };
        interleave();
        let Some(above_latched) = above.node.latch.try_latch(above.version) else {
            return false;
        };
        chain.last.set_right(leaf.right(guard), Writer::UNPUBLISHED);
        if let Some((low, left, latched)) = &beside {
            left.set_right(Some((*low, chain.first)), latched.writer());
        }
        parent.replace_child(place, chain.first, above_latched.writer());
        if low.is_none() {
            self.set_leftmost(chain.first, leaf_latched.writer());
        }
        leaf.retire(leaf_latched, guard);
        true
    }
}
