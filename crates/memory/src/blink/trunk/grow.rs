//! Separators of new nodes, and new levels.

use std::sync::PoisonError;

use crossbeam_epoch::Guard;

use super::Trunk;
use crate::blink::aim::Aim;
use crate::blink::inner::Inner;
use crate::blink::node::NodePtr;
use crate::search::columns::Words;
use crate::sync::primitive::{Ordering, interleave};

impl<W: Words> Trunk<W> {
    /// Inserts the separator of a node that was linked to the right of the one it was split from
    /// into the levels above. The caller holds no latch (rule 2).
    pub(crate) fn insert_separator(&self, separator: W, node: NodePtr<'_, W>, guard: &Guard) {
        let (mut separator, mut node) = (separator, node);
        loop {
            let level = node.level() + 1;
            let Some(found) = self.find(&Aim::At(separator), level, guard) else {
                if self.add_level(separator, node, guard) {
                    return;
                }
                continue;
            };
            let Some(parent) = found.node.downcast::<Inner<W>>() else {
                continue;
            };
            interleave();
            let Some(latched) = found.node.latch.try_latch(found.version) else {
                continue;
            };
            if !parent.is_full() {
                parent.insert(separator, node, latched.writer());
                return;
            }
            let (fence, right) = parent.split(separator, latched.writer(), guard);
            if separator < fence {
                parent.insert(separator, node, latched.writer());
            } else if let Some(right) = right.downcast::<Inner<W>>() {
                // The latch of the left half also keeps other threads from the right one, which is
                // not yet reachable otherwise.
                right.insert(separator, node, latched.writer());
            }
            drop(latched);
            (separator, node) = (fence, right);
        }
    }

    /// Inserts the separators of several new nodes of one level, left to right: as many at a time
    /// as fit one parent.
    pub(crate) fn insert_separators(&self, separators: &[(W, NodePtr<'_, W>)], guard: &Guard) {
        let mut rest = separators;
        while let Some(&(separator, node)) = rest.first() {
            let found = self.find(&Aim::At(separator), node.level() + 1, guard);
            let parent = found
                .as_ref()
                .and_then(|found| Some((found, found.node.downcast::<Inner<W>>()?)));
            let taken = match parent {
                Some((found, parent)) if !parent.is_full() => {
                    let Some(latched) = found.node.latch.try_latch(found.version) else {
                        continue;
                    };
                    let high = found.node.right(guard).map(|(high, _)| high);
                    let belongs = |separator: &W| high.is_none_or(|high| *separator < high);
                    let fitting = rest.iter().take_while(|(separator, _)| belongs(separator));
                    let mut taken = 0;
                    for &(separator, node) in fitting {
                        if parent.is_full() {
                            break;
                        }
                        parent.insert(separator, node, latched.writer());
                        taken += 1;
                    }
                    taken
                }
                _ => {
                    self.insert_separator(separator, node, guard);
                    1
                }
            };
            rest = &rest[taken..];
        }
    }

    /// Adds a root above the root, unless the tree is already high enough.
    fn add_level(&self, separator: W, node: NodePtr<'_, W>, guard: &Guard) -> bool {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        match self.root(guard) {
            Some(root) if root.level() == node.level() => {
                let new_root = NodePtr::new(Inner::new(node.level() + 1, root, separator, node));
                self.root.store(new_root.as_raw(), Ordering::Release);
                true
            }
            _ => false,
        }
    }
}
