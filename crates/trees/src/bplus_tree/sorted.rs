//! Inserting entries that come in order: one descent and one batch for each leaf they touch.
//!
//! Entries beyond the right edge are packed into fresh leaves, up to the fill factor (SWARE, §III:
//! appends and opportunistic bulk loading); the others are merged into their leaves.

use std::ops::Range;

use super::assemble::{NodePiece, Sequence};
use super::edit::NodeMut;
use super::item::{EntryItem, Staging};
use super::node::{Frame, Node};
use super::shape::Shape;
use super::split::cuts;
use super::tree::BPlusTree;
use crate::entry::{EntrySource, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::PointBuf;
use bedload_pages::{Batch, Error, PageRead, PageStore, Result};

/// Up to this many entries are put into a leaf one by one; for more, the leaf is written anew.
const IN_PLACE_MAX: usize = 8;

/// The least fill of the leaves into which one that overflows in a merge is divided, however empty
/// appended leaves are left: not being at the edge, they may be filled further.
const MERGED_PERCENT_MIN: u8 = 70;

/// A source, its entries checked for shape and order.
pub(super) struct Ascending<'s, E> {
    source: &'s mut E,
    previous: Option<PointBuf>,
    position: u64,
}

impl<'s, E: EntrySource> Ascending<'s, E> {
    pub(super) fn new(source: &'s mut E) -> Self {
        Self {
            source,
            previous: None,
            position: 0,
        }
    }

    pub(super) fn next<O: KeyOrder, L: RowLayout, S: PageRead>(
        &mut self,
        tree: &BPlusTree<O, L, S>,
    ) -> Result<Option<EntryItem<'_>>> {
        let Some(entry) = self.source.next_entry()? else {
            return Ok(None);
        };
        let item = tree.item(entry)?;
        let mut point = item.point();
        if tree.order.prefix_is_exact() {
            point.key = &[];
        }
        match &mut self.previous {
            Some(previous) => {
                if previous.as_point().cmp(&tree.order, &point).is_ge() {
                    return Err(Error::NotAscending {
                        position: self.position,
                    });
                }
                previous.set(point);
            }
            None => self.previous = Some(point.to_buf()),
        }
        self.position += 1;
        Ok(Some(item))
    }
}

/// One entry on its way into a leaf: where, and whether in place of the one there.
#[derive(Debug, Clone, Copy)]
struct LeafPlace {
    staged: usize,
    index: usize,
    replaces: bool,
}

impl<O: KeyOrder, L: RowLayout, S: PageStore> BPlusTree<O, L, S> {
    /// Inserts entries that ascend strictly by (key, tie), as [`insert`](Self::insert) would one after another;
    /// returns how many. Atomic for each leaf, not as a whole.
    ///
    /// O(leaves touched · log n) pages. Nothing is latched while the source is asked.
    ///
    /// ```
    /// use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
    /// use bedload_pages::HeapPages;
    /// use bedload_trees::{Entries, Entry, NoRow, Row, U64Order};
    ///
    /// # fn main() -> bedload_pages::Result<()> {
    /// let pages = HeapPages::new(4096);
    /// let tree = BPlusTree::create(&pages, U64Order, NoRow, BPlusTreeOptions::new())?;
    /// for stragglers_every in [1, 7] {
    ///     let keys: Vec<_> = (0..5000).step_by(stragglers_every).map(U64Order::key).collect();
    ///     let entries = keys.iter().map(|key| Entry { key, tie: 0, row: Row::default() });
    ///     assert_eq!(tree.insert_sorted(&mut Entries::new(entries))?, keys.len() as u64);
    /// }
    /// assert_eq!(tree.verify()?.entries, 5000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`insert`](Self::insert), or the source failed, or its entries do not ascend. All
    /// entries before the one in question were inserted, unless the store failed; none behind it
    /// was.
    pub fn insert_sorted(&self, source: &mut impl EntrySource) -> Result<u64> {
        let mut source = Ascending::new(source);
        let mut staging = Staging::new(&self.leaf);
        let staged_bytes_max = 4 * self.leaf.usable();
        let (mut start, mut inserted) = (0, 0);
        let mut end = None;
        loop {
            if end.is_none() && staging.bytes_from(start, &self.leaf) < staged_bytes_max / 2 {
                staging.drop_front(start);
                start = 0;
                while end.is_none() && staging.bytes_from(0, &self.leaf) < staged_bytes_max {
                    match source.next(self) {
                        Ok(Some(item)) => staging.push(&item),
                        Ok(None) => end = Some(Ok(())),
                        Err(error) => end = Some(Err(error)),
                    }
                }
            }
            if start == staging.len() {
                return end.unwrap_or(Ok(())).map(|()| inserted);
            }
            let applied = self.insert_staged(&staging, start)?;
            start += applied;
            inserted += applied as u64;
        }
    }

    /// Puts staged entries from `start` on into the leaf of the first of them, as many as belong
    /// there and one batch can take; returns how many.
    fn insert_staged(&self, staging: &Staging, start: usize) -> Result<usize> {
        let keys = self.leaf.keys;
        let first = staging.point(start, keys);
        let latched = match self.latch_edge(&first) {
            Some(latched) => latched,
            None => self.latch_leaf(&first)?,
        };
        let node = latched.node(&self.leaf);
        let (id, extent) = (latched.id, node.extent());
        let is_append = node.high().is_none()
            && (node.count() == 0 || node.point(node.count() - 1)?.cmp(&self.order, &first).is_lt());
        let end = if is_append {
            staging.len()
        } else {
            let covered = match node.high() {
                None => staging.len(),
                Some(high) => staging.rank(start, |index| {
                    staging.point(index, keys).cmp(&self.order, &high).is_lt()
                }),
            };
            start + staging.len_within(start..covered, &self.leaf, if id == self.root { 25 } else { 100 })
        };
        let places = if end - start <= IN_PLACE_MAX || is_append {
            self.places(&node, staging, start..end, is_append)?
        } else {
            None
        };
        if let Some(places) = places {
            let count = node.count();
            latched.batch.commit(|pages| {
                let mut node = NodeMut::new(pages[0], &self.leaf, id, extent);
                for place in &places {
                    let item = staging.item(place.staged);
                    let index = place.index + node.count() - count;
                    if place.replaces {
                        node.replace(index, &item);
                    } else {
                        node.insert(index, &item);
                    }
                }
                node.finish();
            });
            return Ok(end - start);
        }
        let old = latched.batch.page(0).to_vec();
        let batch = latched.batch;
        let node = Node::trusted(&old, &self.leaf, id, extent);
        node.check_slots(0..node.count())?;
        let mut sequence = if is_append {
            let mut sequence = Sequence::new(&self.leaf);
            sequence.push(NodePiece::Of(node, 0..node.count()));
            sequence.push(NodePiece::Staged(staging, start..end));
            sequence
        } else {
            self.merged(node, staging, start..end)?
        };
        let nodes_max = self.spread_max(&node);
        let mut cuts = self.cuts_for(&sequence, &node, nodes_max, is_append)?;
        let mut applied = end - start;
        if cuts.len() >= nodes_max {
            // More than one batch can take: the rest stays staged. This happens only to appended
            // entries.
            if !is_append || cuts[nodes_max - 1] <= node.count() {
                return node.corrupt("its entries take more bytes than a page has");
            }
            applied = cuts[nodes_max - 1] - node.count();
            sequence = sequence.part(0..cuts[nodes_max - 1]);
            cuts.truncate(nodes_max - 1);
        }
        if cuts.is_empty() {
            batch.commit(|pages| sequence.write(pages[0], &Frame::of(&node)));
        } else {
            self.spread(batch, &node, &sequence, &cuts)?;
        }
        Ok(applied)
    }

    /// Where staged entries go in a leaf, if all of them fit without writing it anew.
    fn places(
        &self,
        node: &Node<'_, L>,
        staging: &Staging,
        range: Range<usize>,
        is_append: bool,
    ) -> Result<Option<Vec<LeafPlace>>> {
        let heap_len: usize = range.clone().map(|index| staging.heap_len_of(index)).sum();
        let count = node.count() + range.len();
        if heap_len > node.gap() || count > node.capacity() {
            return Ok(None);
        }
        if is_append
            && !self
                .leaf
                .fits_within(count, node.heap_len() + heap_len, self.config.fill_percent)
        {
            return Ok(None);
        }
        let mut index = 0;
        let places = range.map(|staged| {
            let mut replaces = false;
            if is_append {
                index = node.count();
            } else {
                (index, replaces) = node.find(&self.order, index, &staging.point(staged, self.leaf.keys))?;
                if replaces {
                    node.check_slots(index..index + 1)?;
                }
            }
            Ok(LeafPlace {
                staged,
                index,
                replaces,
            })
        });
        places.collect::<Result<_>>().map(Some)
    }

    /// The entries of a leaf and staged ones, in order; of equals the staged one.
    fn merged<'a>(
        &self,
        node: Node<'a, L>,
        staging: &'a Staging,
        range: Range<usize>,
    ) -> Result<Sequence<'a, L>> {
        let mut sequence = Sequence::new(node.shape());
        let (mut old, mut run) = (0, range.start);
        for staged in range.clone() {
            let (index, replaces) = node.find(&self.order, old, &staging.point(staged, self.leaf.keys))?;
            if index > old {
                sequence.push(NodePiece::Staged(staging, run..staged));
                run = staged;
                sequence.push(NodePiece::Of(node, old..index));
            }
            old = index + usize::from(replaces);
        }
        sequence.push(NodePiece::Staged(staging, run..range.end));
        sequence.push(NodePiece::Of(node, old..node.count()));
        Ok(sequence)
    }

    /// Where to cut what goes into a leaf. Appended entries fill leaf after leaf; others are spread
    /// evenly over as few as the fill factor allows, and over fewer if those would be more than
    /// `nodes_max`.
    fn cuts_for(
        &self,
        sequence: &Sequence<'_, L>,
        node: &Node<'_, L>,
        nodes_max: usize,
        is_append: bool,
    ) -> Result<Vec<usize>> {
        let shape = node.shape();
        let fill = self.config.fill_percent;
        let fence_len = node.fence_len();
        if is_append {
            let count = node.count();
            let packed = cuts(sequence, shape, fence_len, fill);
            let is_fuller = packed.first().is_some_and(|&first| first < count);
            if !is_fuller || !sequence.part(0..count).fits(sequence.fence_len_at(count)?) {
                return Ok(packed);
            }
            // The leaf is fuller than that already, and is left alone.
            let rest = cuts(&sequence.part(count..sequence.len()), shape, fence_len, fill);
            return Ok(std::iter::once(0).chain(rest).map(|cut| cut + count).collect());
        }
        if sequence.fits(fence_len) {
            return Ok(Vec::new());
        }
        let even = even_percent(sequence, shape, fill.max(MERGED_PERCENT_MIN));
        let spread = cuts(sequence, shape, fence_len, even);
        Ok(if spread.len() < nodes_max {
            spread
        } else {
            cuts(sequence, shape, fence_len, 100)
        })
    }
}

/// How full nodes become over which a sequence is spread evenly, so that none is fuller than
/// `percent`.
fn even_percent<L: RowLayout>(sequence: &Sequence<'_, L>, shape: &Shape<L>, percent: u8) -> u8 {
    let bytes = sequence.len() * shape.entry_len + sequence.heap_len();
    let percents = (bytes * 100)
        .div_ceil(shape.usable())
        .max((sequence.len() * 100).div_ceil(shape.max_entries));
    let nodes = percents.div_ceil(usize::from(percent));
    u8::try_from(percents.div_ceil(nodes.max(1)) + 1)
        .unwrap_or(100)
        .min(100)
}
