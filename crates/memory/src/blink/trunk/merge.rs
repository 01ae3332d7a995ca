//! Merging nearly empty nodes with their neighbours.

use crossbeam_epoch::Guard;

use super::{FoundNode, Trunk};
use crate::blink::aim::Aim;
use crate::blink::inner::Inner;
use crate::blink::node::NodePtr;
use crate::blink::sorted_leaf::SortedLeaf;
use crate::search::columns::Words;
use crate::sync::primitive::{Backoff, interleave};
use crate::sync::version_latch::Writer;

/// Outcome of an attempt to merge.
enum Outcome {
    /// Merged; the parent may have become nearly empty in turn.
    Merged { parent_is_underfull: bool },
    /// No neighbour to merge with.
    Useless,
    /// No neighbour under the same parent, before that is merged with one of its own.
    OnlyChild,
    /// Another thread was at work there.
    Contended,
}

/// Attempts under contention, unless a leaf is empty. A node that stays nearly empty only costs
/// memory.
const ATTEMPTS: u32 = 8;

impl<W: Words> Trunk<W> {
    /// Merges the leaf that covers `key` with a neighbour if both are nearly empty, and likewise
    /// the nodes above it. The caller holds no latch and has no separator left to insert. Waits for
    /// other threads if the leaf `is_empty`: no later removal would try again.
    pub(crate) fn merge_around(&self, key: W, is_empty: bool, guard: &Guard) {
        let mut level = 0;
        // The lowest level that waits for a merge of its parent.
        let mut lonely = None;
        let mut backoff = Backoff::default();
        let mut attempts = 0;
        while attempts < ATTEMPTS {
            match self.try_merge(key, level, guard) {
                Outcome::Merged { parent_is_underfull } => match lonely.take() {
                    Some(below) => level = below,
                    None if parent_is_underfull => level += 1,
                    None => return,
                },
                Outcome::OnlyChild => {
                    lonely = lonely.or(Some(level));
                    level += 1;
                }
                Outcome::Useless => return,
                Outcome::Contended => {
                    attempts += u32::from(level > 0 || !is_empty);
                    backoff.wait();
                }
            }
        }
    }

    /// Merges the node of a level that covers `key` with its left neighbour or else its right one.
    fn try_merge(&self, key: W, level: u8, guard: &Guard) -> Outcome {
        let Some(above) = self.find(&Aim::At(key), level + 1, guard) else {
            // A root that was split has a sibling until it gets a parent.
            let gets_parent = |root: NodePtr<'_, W>| root.level() > level || !root.is_rightmost();
            return if self.root(guard).is_some_and(gets_parent) {
                Outcome::Contended
            } else {
                Outcome::Useless
            };
        };
        let Some(parent) = above.node.downcast::<Inner<W>>() else {
            return Outcome::Useless;
        };
        let (place, len) = (parent.place(&Aim::At(key)), parent.header().len());
        if !above.node.latch.validate(above.version) {
            return Outcome::Contended;
        }
        for right in [place, place + 1] {
            if (1..=len).contains(&right) {
                match self.try_merge_pair(&above, parent, right, guard) {
                    Outcome::Useless => {}
                    outcome => return outcome,
                }
            }
        }
        if !knows_right_of(&above, parent, place, guard) {
            return Outcome::Contended;
        }
        if len == 0 {
            Outcome::OnlyChild
        } else {
            Outcome::Useless
        }
    }

    /// Merges the child at `place`, which is not the first, with its left neighbour.
    fn try_merge_pair(
        &self,
        above: &FoundNode<'_, W>,
        parent: &Inner<W>,
        place: usize,
        guard: &Guard,
    ) -> Outcome {
        let pair = parent.child(place - 1, guard).zip(parent.child(place, guard));
        if !above.node.latch.validate(above.version) {
            return Outcome::Contended;
        }
        let Some(((_, left), (Some(fence), right))) = pair else {
            return Outcome::Useless;
        };
        // A latch would turn away the writers of a hash leaf, which never merges.
        if !left.may_merge() || !right.may_merge() {
            return Outcome::Useless;
        }
        interleave();
        let Some(left_latched) = left.latch.try_latch_now() else {
            return Outcome::Contended;
        };
        // The separator of a node between the two has not reached the parent yet.
        if left.right(guard).is_none_or(|(_, beside)| beside != right) {
            return Outcome::Contended;
        }
        interleave();
        let Some(right_latched) = right.latch.try_latch_now() else {
            return Outcome::Contended;
        };
        if !can_absorb(left, right) {
            return Outcome::Useless;
        }
        let Some(above_latched) = above.node.latch.try_latch(above.version) else {
            return Outcome::Contended;
        };
        if right.level() == 0 && right.is_rightmost() {
            self.set_rightmost(left, right_latched.writer());
        }
        interleave();
        absorb(left, right, fence, left_latched.writer(), guard);
        parent.remove(place - 1, above_latched.writer());
        right.retire(right_latched, guard);
        Outcome::Merged {
            parent_is_underfull: parent.is_underfull(),
        }
    }
}

/// Returns whether the parent knows the right sibling of its child at `place`. It does not while
/// that sibling's separator is on its way: then a merge that finds no neighbour may find one later.
fn knows_right_of<W: Words>(
    above: &FoundNode<'_, W>,
    parent: &Inner<W>,
    place: usize,
    guard: &Guard,
) -> bool {
    let child = parent.child(place, guard);
    let high = if place < parent.header().len() {
        parent
            .child(place + 1, guard)
            .and_then(|(separator, _)| separator)
    } else {
        above.node.right(guard).map(|(fence, _)| fence)
    };
    let Some((_, child)) = child.filter(|_| above.node.latch.validate(above.version)) else {
        return false;
    };
    let Some(version) = child.latch.optimistic() else {
        return false;
    };
    let fence = child.right(guard).map(|(fence, _)| fence);
    child.latch.validate(version) && fence == high
}

fn can_absorb<W: Words>(left: NodePtr<'_, W>, right: NodePtr<'_, W>) -> bool {
    if let (Some(left), Some(right)) = (left.downcast::<Inner<W>>(), right.downcast::<Inner<W>>()) {
        return left.can_absorb(right);
    }
    match (
        left.downcast::<SortedLeaf<W>>(),
        right.downcast::<SortedLeaf<W>>(),
    ) {
        (Some(left), Some(right)) => left.can_absorb(right),
        _ => false,
    }
}

fn absorb<W: Words>(
    left: NodePtr<'_, W>,
    right: NodePtr<'_, W>,
    fence: W,
    writer: Writer<'_>,
    guard: &Guard,
) {
    if let (Some(left), Some(right)) = (left.downcast::<Inner<W>>(), right.downcast::<Inner<W>>()) {
        left.absorb(right, fence, writer, guard);
    }
    if let (Some(left), Some(right)) = (
        left.downcast::<SortedLeaf<W>>(),
        right.downcast::<SortedLeaf<W>>(),
    ) {
        left.absorb(right, writer, guard);
    }
}
