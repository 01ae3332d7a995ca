//! Memory use of a tree.

use crossbeam_epoch::Guard;

use super::Trunk;
use crate::blink::inner::{INNER_CAP, Inner};
use crate::blink::node::NodePtr;
use crate::blink::sorted_leaf::{LEAF_CAP, SortedLeaf};
use crate::map::memory_use::MemoryUse;
use crate::search::columns::Words;

impl<W: Words> Trunk<W> {
    /// Sums up the nodes, level by level; `other_leaf` adds those that are not sorted leaves.
    /// Approximate during concurrent writes.
    pub(crate) fn memory_use(
        &self,
        guard: &Guard,
        mut other_leaf: impl FnMut(NodePtr<'_, W>, &mut MemoryUse),
    ) -> MemoryUse {
        let mut memory = MemoryUse::default();
        let mut leftmost = self.root(guard);
        while let Some(first) = leftmost {
            leftmost = first
                .downcast::<Inner<W>>()
                .and_then(|inner| inner.child(0, guard))
                .map(|(_, child)| child);
            let mut next = Some(first);
            while let Some(node) = next {
                next = node.right(guard).map(|(_, right)| right);
                if node.downcast::<Inner<W>>().is_some() {
                    let child_bytes = size_of::<W>() + size_of::<usize>();
                    let len = node.len().min(INNER_CAP);
                    memory.add_inner(size_of::<Inner<W>>(), child_bytes, len, INNER_CAP);
                } else if let Some(leaf) = node.downcast::<SortedLeaf<W>>() {
                    let entry_bytes = size_of::<W>() + size_of::<u64>();
                    memory.add_leaf(size_of::<SortedLeaf<W>>(), entry_bytes, leaf.len(), LEAF_CAP);
                } else {
                    other_leaf(node, &mut memory);
                }
            }
        }
        memory
    }
}
