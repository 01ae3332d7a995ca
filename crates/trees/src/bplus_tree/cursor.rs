//! Reading a range, one leaf at a time.
//!
//! A cursor holds no latch between two calls. It descends to the leaf where it continues, copies
//! the entries it wants, and remembers the fence at which to go on: the leaf's high fence when
//! ascending, its low bound when descending. As fences are points of the order and not positions in
//! a page, no split or merge moves an entry across a fence that the cursor has passed: an entry
//! present throughout is seen once, in order.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use super::entry_ref::{EntryRef, LeafSlice, OwnedEntry};
use super::node::{Branch, Extent, Node};
use super::search::DescentTarget;
use super::shape::{HEADER_LEN, Shape};
use super::tree::BPlusTree;
use crate::entry::{Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::Cut;
use bedload_pages::ReadAhead;
use bedload_pages::{PageId, PageRead, Result};

/// Entries of a range of a [`BPlusTree`], ascending or descending. Its answers are consistent
/// within a leaf; entries inserted or removed while it is on its way may be seen or not.
///
/// ```
/// use std::ops::Bound;
/// use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
/// use bedload_pages::HeapPages;
/// use bedload_trees::{Entry, FixedRow, I64Order, Position, Row};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = HeapPages::new(4096);
/// let tree = BPlusTree::create(&pages, I64Order, FixedRow::<2>, BPlusTreeOptions::new())?;
/// for key in -50..50_i16 {
///     let row = Row { fixed: &key.to_le_bytes(), variable: &[] };
///     tree.insert(Entry { key: &I64Order::key(key.into()), tie: 0, row })?;
/// }
/// let (from, to) = (I64Order::key(-3), I64Order::key(3));
/// let mut cursor = tree.range(
///     Bound::Included(Position::of_key(&from)),
///     Bound::Excluded(Position::of_key(&to)),
/// )?;
/// let mut sum = 0;
/// while let Some(slice) = cursor.next_leaf()? {
///     let (values, _) = slice.fixed_column(0).as_chunks::<2>();
///     sum += values.iter().map(|&value| i16::from_le_bytes(value)).sum::<i16>();
/// }
/// assert_eq!(sum, -3);
/// # Ok(())
/// # }
/// ```
pub struct Cursor<'t, O, L, S> {
    tree: &'t BPlusTree<O, L, S>,
    is_ascending: bool,
    /// The positions between which nothing has been visited yet; `None` is unbounded.
    from: Option<Cut>,
    to: Option<Cut>,
    is_done: bool,
    ahead: Ahead,
    copy: Copied,
}

impl<O: KeyOrder, L: RowLayout, S: PageRead> BPlusTree<O, L, S> {
    /// The least entry.
    ///
    /// # Errors
    ///
    /// The store failed, or a page on the way is damaged.
    pub fn first(&self) -> Result<Option<OwnedEntry>> {
        let mut cursor = self.range(Bound::Unbounded, Bound::Unbounded)?;
        Ok(cursor.next_entry()?.map(|entry| entry.to_owned_entry()))
    }

    /// The greatest entry.
    ///
    /// # Errors
    ///
    /// As for [`BPlusTree::first`].
    pub fn last(&self) -> Result<Option<OwnedEntry>> {
        let mut cursor = self.range_back(Bound::Unbounded, Bound::Unbounded)?;
        Ok(cursor.next_entry()?.map(|entry| entry.to_owned_entry()))
    }

    /// The entries between two bounds, ascending.
    ///
    /// # Errors
    ///
    /// The key of a bound has not the order's width.
    pub fn range(&self, from: Bound<Position<'_>>, to: Bound<Position<'_>>) -> Result<Cursor<'_, O, L, S>> {
        Cursor::ascending(self, from, to)
    }

    /// The entries between two bounds, descending: `from` is the lower bound all the same.
    ///
    /// # Errors
    ///
    /// As for [`BPlusTree::range`].
    pub fn range_back(
        &self,
        from: Bound<Position<'_>>,
        to: Bound<Position<'_>>,
    ) -> Result<Cursor<'_, O, L, S>> {
        Cursor::descending(self, from, to)
    }
}

/// The leaves that are fetched ahead, and their parent.
#[derive(Default)]
struct Ahead {
    leaves: ReadAhead,
    parent: Option<PageId>,
}

impl Ahead {
    /// Has the store fetch leaves behind the child in `slot`, up to that of the range's other end.
    fn enter_leaf<O: KeyOrder, L: RowLayout, S: PageRead>(
        &mut self,
        tree: &BPlusTree<O, L, S>,
        parent: &Branch<'_>,
        slot: usize,
        is_ascending: bool,
        end: Option<&Cut>,
    ) -> Result<()> {
        if self.parent.replace(parent.id()) != Some(parent.id()) {
            self.leaves.enter_node();
        }
        let left = || {
            let last = match end {
                Some(cut) => parent.slot_of(&tree.order, &cut.point.as_point())?,
                None if is_ascending => parent.count() - 1,
                None => 0,
            };
            Ok(if is_ascending {
                last.saturating_sub(slot)
            } else {
                slot.saturating_sub(last)
            })
        };
        let fetched = self.leaves.enter_leaf(left)?;
        if !fetched.is_empty() {
            let child = |behind| {
                parent.child(if is_ascending {
                    slot + 1 + behind
                } else {
                    slot - 1 - behind
                })
            };
            let pages: Vec<PageId> = fetched.map(child).collect::<Result<_>>()?;
            tree.store.read_ahead(&pages);
        }
        Ok(())
    }
}

/// Entries copied out of a leaf, and how many of them have been handed out one by one.
#[derive(Default)]
struct Copied {
    page: Vec<u8>,
    /// The leaf, and how the copy is laid out.
    origin: Option<(PageId, Extent)>,
    range: Range<usize>,
}

impl Copied {
    /// Copies the entries of `range`, whose slots were checked.
    fn take<L: RowLayout>(&mut self, node: &Node<'_, L>, range: Range<usize>) {
        let shape = node.shape();
        self.page.clear();
        if shape.has_heap() {
            self.page.extend_from_slice(node.page());
            self.origin = Some((node.id(), node.extent()));
            self.range = range;
            return;
        }
        self.page.resize(HEADER_LEN, 0);
        self.page
            .extend_from_slice(node.prefixes()[range.clone()].as_flattened());
        self.page
            .extend_from_slice(node.ties(range.clone()).as_flattened());
        for column in 0..shape.layout.fixed_widths().len() {
            self.page.extend_from_slice(node.fixed(column, range.clone()));
        }
        let extent = Extent {
            count: range.len(),
            capacity: range.len(),
        };
        self.origin = Some((node.id(), extent));
        self.range = 0..range.len();
    }

    fn node<'c, L: RowLayout>(&'c self, shape: &'c Shape<L>) -> Option<Node<'c, L>> {
        self.origin
            .map(|(id, extent)| Node::trusted(&self.page, shape, id, extent))
    }
}

impl<'t, O: KeyOrder, L: RowLayout, S: PageRead> Cursor<'t, O, L, S> {
    pub(super) fn ascending(
        tree: &'t BPlusTree<O, L, S>,
        from: Bound<Position<'_>>,
        to: Bound<Position<'_>>,
    ) -> Result<Self> {
        let from = Cut::at_start(&tree.order, from)?;
        let to = Cut::at_end(&tree.order, to)?;
        let is_done = match (&from, &to) {
            (Some(from), Some(to)) => from.cmp(&tree.order, to).is_ge(),
            _ => false,
        };
        Ok(Self {
            tree,
            is_ascending: true,
            from,
            to,
            is_done,
            ahead: Ahead::default(),
            copy: Copied::default(),
        })
    }

    pub(super) fn descending(
        tree: &'t BPlusTree<O, L, S>,
        from: Bound<Position<'_>>,
        to: Bound<Position<'_>>,
    ) -> Result<Self> {
        Ok(Self {
            is_ascending: false,
            ..Self::ascending(tree, from, to)?
        })
    }

    /// The next entries of the range that share a leaf, in ascending order even where the cursor
    /// goes down; `None` behind the last. Entries of the current leaf that
    /// [`next_entry`](Self::next_entry) has not handed out yet come first. O(log n) pages.
    ///
    /// # Errors
    ///
    /// The store failed, or a page on the way is damaged. The cursor stays where it is, and may be
    /// asked again.
    pub fn next_leaf(&mut self) -> Result<Option<LeafSlice<'_, O, L>>> {
        if !self.fill()? {
            return Ok(None);
        }
        let range = std::mem::take(&mut self.copy.range);
        let node = self.copy.node(&self.tree.leaf);
        Ok(node.map(|node| LeafSlice::new(&self.tree.order, node, range)))
    }

    /// The next entry of the range in the cursor's direction.
    ///
    /// # Errors
    ///
    /// As for [`next_leaf`](Self::next_leaf).
    pub fn next_entry(&mut self) -> Result<Option<EntryRef<'_, O, L>>> {
        if !self.fill()? {
            return Ok(None);
        }
        let index = if self.is_ascending {
            self.copy.range.start += 1;
            self.copy.range.start - 1
        } else {
            self.copy.range.end -= 1;
            self.copy.range.end
        };
        let node = self.copy.node(&self.tree.leaf);
        node.map(|node| EntryRef::new(&self.tree.order, node, index))
            .transpose()
    }

    /// Copies entries out of the next leaf that has some, unless there are copied ones left.
    fn fill(&mut self) -> Result<bool> {
        while self.copy.range.is_empty() {
            if self.is_done {
                return Ok(false);
            }
            if self.is_ascending {
                self.fill_ascending()?;
            } else {
                self.fill_descending()?;
            }
        }
        Ok(true)
    }

    fn fill_ascending(&mut self) -> Result<()> {
        let tree = self.tree;
        let target = match &self.from {
            None => DescentTarget::Lowest,
            Some(cut) => DescentTarget::At(cut.point.as_point()),
        };
        let (ahead, to) = (&mut self.ahead, self.to.as_ref());
        let leaf = tree.descend(target, None, |parent, slot| {
            ahead.enter_leaf(tree, parent, slot, true, to)
        })?;
        let node = leaf.node(&tree.leaf);
        self.copy_from(&node)?;
        let next = node.high().map(Cut::before);
        self.is_done = match (&next, &self.to) {
            (None, _) => true,
            (Some(next), Some(to)) => next.cmp(&tree.order, to).is_ge(),
            (Some(_), None) => false,
        };
        self.from = next;
        Ok(())
    }

    fn fill_descending(&mut self) -> Result<()> {
        let tree = self.tree;
        let target = match &self.to {
            None => DescentTarget::Highest,
            Some(cut) if cut.behind => DescentTarget::At(cut.point.as_point()),
            Some(cut) => DescentTarget::Below(cut.point.as_point()),
        };
        let mut low = None;
        let (ahead, from) = (&mut self.ahead, self.from.as_ref());
        let leaf = tree.descend(target, Some(&mut low), |parent, slot| {
            ahead.enter_leaf(tree, parent, slot, false, from)
        })?;
        let node = leaf.node(&tree.leaf);
        let next = low.map(|point| Cut { point, behind: false });
        if let (Some(next), Some(to)) = (&next, &self.to)
            && next.cmp(&tree.order, to) != Ordering::Less
        {
            return node.corrupt("it begins above what its parent has it for");
        }
        self.copy_from(&node)?;
        self.is_done = match (&next, &self.from) {
            (None, _) => true,
            (Some(next), Some(from)) => next.cmp(&tree.order, from).is_le(),
            (Some(_), None) => false,
        };
        self.to = next;
        Ok(())
    }

    /// Copies the entries of a leaf that lie in the range.
    fn copy_from(&mut self, node: &Node<'_, L>) -> Result<()> {
        let order = &self.tree.order;
        let start = self.from.as_ref().map_or(Ok(0), |cut| node.rank(order, cut))?;
        let end = self
            .to
            .as_ref()
            .map_or(Ok(node.count()), |cut| node.rank(order, cut))?;
        let range = start..end.max(start);
        node.check_slots(range.clone())?;
        self.copy.take(node, range);
        Ok(())
    }
}
