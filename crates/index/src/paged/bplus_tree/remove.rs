//! Removing an entry.

use super::edit::NodeMut;
use super::node::Node;
use super::point::Point;
use super::tree::BPlusTree;
use crate::paged::{Batch, KeyOrder, PageStore, Position, Result, RowLayout};

impl<O: KeyOrder, L: RowLayout, S: PageStore> BPlusTree<O, L, S> {
    /// Removes the entry with this key and tie; tells whether there was one. Atomic. O(log n) pages.
    ///
    /// # Errors
    ///
    /// The key has not the order's width, the store failed, or a page on the way is damaged.
    pub fn remove(&self, key: &[u8], tie: u64) -> Result<bool> {
        let point = Point::new(&self.order, Position { key, tie })?;
        let latched = self.latch_leaf(&point)?;
        let node = Node::parse(latched.batch.page(0), &self.leaf, latched.id, 0)?;
        let (index, true) = node.find(&self.order, 0, &point)? else {
            return Ok(false);
        };
        let (count, capacity) = (node.count(), node.capacity());
        let is_sparse = self.is_worth_merging(&node, count - 1);
        latched.batch.commit(|pages| {
            let mut node = NodeMut::new(pages[0], &self.leaf, count, capacity);
            node.remove(index..index + 1);
            node.finish();
        });
        if is_sparse {
            self.merge_around(&point);
        }
        Ok(true)
    }
}
