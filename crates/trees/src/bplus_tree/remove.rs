//! Removing an entry.

use super::edit::NodeMut;
use super::entry_ref::EntryRef;
use super::tree::BPlusTree;
use crate::entry::{Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::Point;
use bedload_pages::{Batch, PageStore, Result};

impl<O: KeyOrder, L: RowLayout, S: PageStore> BPlusTree<O, L, S> {
    /// Removes the entry with this key and tie; tells whether there was one. Atomic. O(log n)
    /// pages.
    ///
    /// ```
    /// use bedload_pages::HeapPages;
    /// use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
    /// use bedload_trees::{Entry, NoRow, Row, U64Order};
    ///
    /// # fn main() -> bedload_pages::Result<()> {
    /// let tree = BPlusTree::create(HeapPages::new(4096), U64Order, NoRow, BPlusTreeOptions::new())?;
    /// tree.insert(Entry { key: &U64Order::key(7), tie: 1, row: Row::default() })?;
    /// assert!(!tree.remove(&U64Order::key(7), 2)?);
    /// assert!(tree.remove(&U64Order::key(7), 1)?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The key has not the order's width, the store failed, or a page on the way is damaged.
    pub fn remove(&self, key: &[u8], tie: u64) -> Result<bool> {
        Ok(self.remove_with(key, tie, |_| ())?.is_some())
    }

    /// Removes the entry with this key and tie; returns what `view` makes of it, which it is shown
    /// in its page before it goes. Atomic. O(log n) pages.
    ///
    /// The page is latched meanwhile: `view` must not use the tree.
    ///
    /// # Errors
    ///
    /// As for [`BPlusTree::remove`].
    pub fn remove_with<R>(
        &self,
        key: &[u8],
        tie: u64,
        view: impl FnOnce(EntryRef<'_, O, L>) -> R,
    ) -> Result<Option<R>> {
        let point = Point::new(&self.order, Position { key, tie })?;
        let latched = self.latch_leaf(&point)?;
        let node = latched.node(&self.leaf);
        let (index, true) = node.find(&self.order, 0, &point)? else {
            return Ok(None);
        };
        let (id, extent) = (latched.id, node.extent());
        let viewed = view(EntryRef::new(&self.order, node, index)?);
        let is_sparse = self.is_worth_merging(&node, extent.count - 1);
        latched.batch.commit(|pages| {
            let mut node = NodeMut::new(pages[0], &self.leaf, id, extent);
            node.remove(index..index + 1);
            node.finish();
        });
        if is_sparse {
            self.merge_around(&point);
        }
        Ok(Some(viewed))
    }
}
