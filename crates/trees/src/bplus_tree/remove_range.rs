//! Removing what lies in a range, leaf by leaf.

use std::ops::{Bound, Range};

use super::edit::NodeMut;
use super::entry_ref::EntryRef;
use super::node::Node;
use super::tree::BPlusTree;
use crate::entry::{Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::{Cut, PointBuf};
use bedload_pages::{Batch, PageStore, Result};

impl<O: KeyOrder, L: RowLayout, S: PageStore> BPlusTree<O, L, S> {
    /// Removes the entries between two bounds; returns how many. Atomic for each leaf, not as a whole.
    ///
    /// O(leaves touched · log n) pages.
    ///
    /// # Errors
    ///
    /// The key of a bound has not the order's width, the store failed, or a page on the way is damaged. What was
    /// removed before stays removed.
    pub fn remove_range(&self, from: Bound<Position<'_>>, to: Bound<Position<'_>>) -> Result<u64> {
        self.remove_range_with(from, to, |_| true, |_| {})
    }

    /// Removes the entries between two bounds for which `select` returns true, and shows each of them to `removed`
    /// when it is gone; returns how many.
    ///
    /// `select` sees every entry once, in ascending order, but for those of a leaf at which this fails. The leaf is
    /// latched meanwhile: `select` must not use the tree. `removed` may.
    ///
    /// ```
    /// use std::ops::Bound;
    /// use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
    /// use bedload_pages::HeapPages;
    /// use bedload_trees::{Entry, NoRow, Row, U64Order};
    ///
    /// # fn main() -> bedload_pages::Result<()> {
    /// let pages = HeapPages::new(4096);
    /// let tree = BPlusTree::create(&pages, U64Order, NoRow, BPlusTreeOptions::new())?;
    /// for tie in 0..100 {
    ///     tree.insert(Entry { key: &U64Order::key(tie / 10), tie, row: Row::default() })?;
    /// }
    /// let mut ties = Vec::new();
    /// let all = Bound::Unbounded;
    /// let count = tree.remove_range_with(all, all, |entry| entry.tie() < 3, |entry| ties.push(entry.tie()))?;
    /// assert_eq!((count, ties), (3, vec![0, 1, 2]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`BPlusTree::remove_range`].
    pub fn remove_range_with(
        &self,
        from: Bound<Position<'_>>,
        to: Bound<Position<'_>>,
        mut select: impl FnMut(EntryRef<'_, O, L>) -> bool,
        mut removed: impl FnMut(EntryRef<'_, O, L>),
    ) -> Result<u64> {
        let to_cut = Cut::at_end(&self.order, to)?;
        let mut from_cut = match Cut::at_start(&self.order, from)? {
            Some(cut) => cut,
            None => match self.first_point()? {
                Some(point) => Cut { point, behind: false },
                None => return Ok(0),
            },
        };
        let mut count_removed = 0;
        loop {
            if let Some(to) = &to_cut
                && from_cut.cmp(&self.order, to).is_ge()
            {
                return Ok(count_removed);
            }
            let latched = self.latch_leaf(&from_cut.point.as_point())?;
            let node = latched.node(&self.leaf);
            let start = node.rank(&self.order, &from_cut)?;
            let end = to_cut
                .as_ref()
                .map_or(Ok(node.count()), |cut| node.rank(&self.order, cut))?;
            let range = start..end.max(start);
            node.check_slots(range.clone())?;
            let selected = self.select(&node, range, &mut select)?;
            let next = node.high().map(Cut::before);
            let count = selected.iter().map(Range::len).sum::<usize>();
            if count > 0 {
                let extent = node.extent();
                let old = latched.batch.page(0).to_vec();
                let node = Node::trusted(&old, &self.leaf, latched.id, extent);
                latched.batch.commit(|pages| {
                    let mut leaf = NodeMut::new(pages[0], &self.leaf, node.id(), extent);
                    for range in selected.iter().rev() {
                        leaf.remove(range.clone());
                    }
                    leaf.finish();
                });
                count_removed += count as u64;
                for index in selected.iter().cloned().flatten() {
                    removed(EntryRef::new(&self.order, node, index)?);
                }
                let heap_len = node.heap_len().saturating_sub(
                    selected
                        .iter()
                        .cloned()
                        .map(|range| node.heap_len_of(range))
                        .sum(),
                );
                if latched.id != self.root && self.is_sparse_leaf(node.count() - count, heap_len) {
                    self.merge_around(&from_cut.point.as_point());
                }
            }
            match next {
                Some(next) => from_cut = next,
                None => return Ok(count_removed),
            }
        }
    }

    fn first_point(&self) -> Result<Option<PointBuf>> {
        let mut cursor = self.range(Bound::Unbounded, Bound::Unbounded)?;
        Ok(cursor.next_entry()?.map(|entry| entry.to_point()))
    }

    /// The selected entries of a leaf, as stretches.
    fn select(
        &self,
        node: &Node<'_, L>,
        range: Range<usize>,
        select: &mut impl FnMut(EntryRef<'_, O, L>) -> bool,
    ) -> Result<Vec<Range<usize>>> {
        let mut selected: Vec<Range<usize>> = Vec::new();
        for index in range {
            if select(EntryRef::new(&self.order, *node, index)?) {
                match selected.last_mut() {
                    Some(last) if last.end == index => last.end += 1,
                    _ => selected.push(index..index + 1),
                }
            }
        }
        Ok(selected)
    }
}
