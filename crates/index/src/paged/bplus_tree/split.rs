//! Spreading entries that do not fit in one node: where to cut them, and writing the nodes.
//!
//! The node and its new right siblings are written in one batch, and each sibling is made known to the parent in a
//! batch of its own (Lehman and Yao, §3.3). Between the two, readers and writers reach a sibling by the right link.
//! A root keeps its page: its entries move to new children, and it becomes their parent in the same batch.

use super::assemble::Sequence;
use super::fresh::{Fresh, FreshPage};
use super::item::{EntryItem, child_bytes};
use super::node::{Frame, Node};
use super::point::{Point, PointBuf};
use super::shape::Shape;
use super::tree::BPlusTree;
use crate::paged::{Batch, Error, KeyOrder, MAX_BATCH_PAGES, PageStore, Result, RowLayout};

/// The number of entries to leave on the left of two nodes: about `percent` of their bytes, and so that both
/// sides fit. The entry behind the cut gives the left side's fence.
///
/// There is such a cut because no entry takes more than a quarter of a node ([`Shape::entry_len_max`]): two
/// halves of what overflowed a node by one entry leave room for one more entry and a fence.
pub(super) fn cut<L: RowLayout>(
    sequence: &Sequence<'_, L>,
    shape: &Shape<L>,
    origin: &Node<'_, L>,
    percent: u8,
) -> Result<usize> {
    let heap_lens: Vec<usize> = sequence.heap_lens().collect();
    let heap_total: usize = heap_lens.iter().sum();
    let count_total = heap_lens.len();
    let bytes_total = count_total * shape.entry_len + heap_total;
    let mut best: Option<(usize, usize)> = None;
    let mut heap_left = 0;
    for left in 1..count_total {
        heap_left += heap_lens[left - 1];
        let fence_len = if shape.keys { heap_lens[left] } else { 0 };
        let fits = shape.fits(left, heap_left + fence_len)
            && shape.fits(count_total - left, heap_total - heap_left + origin.fence_len());
        let bytes_left = left * shape.entry_len + heap_left;
        let distance = (bytes_left * 100).abs_diff(bytes_total * usize::from(percent));
        if fits && best.is_none_or(|(_, least)| distance < least) {
            best = Some((left, distance));
        }
    }
    match best {
        Some((left, _)) => Ok(left),
        None => Err(Error::Corrupt {
            page: origin.id(),
            reason: "its entries take more bytes than a page has",
        }),
    }
}

/// The places at which to cut a sequence so that each node but the last is filled to about `percent`.
pub(super) fn cuts<L: RowLayout>(
    sequence: &Sequence<'_, L>,
    shape: &Shape<L>,
    fence_len: usize,
    percent: u8,
) -> Vec<usize> {
    let heap_lens: Vec<usize> = sequence.heap_lens().collect();
    let mut cuts = Vec::new();
    let (mut count, mut heap_len) = (0, 0);
    for (index, &len) in heap_lens.iter().enumerate() {
        let fence_len = match heap_lens.get(index + 1) {
            Some(&next) if shape.keys => next,
            Some(_) => 0,
            None => fence_len,
        };
        let is_full = !shape.fits_within(count + 1, heap_len + len, percent)
            || !shape.fits(count + 1, heap_len + len + fence_len);
        if count > 0 && is_full {
            cuts.push(index);
            (count, heap_len) = (0, 0);
        }
        count += 1;
        heap_len += len;
    }
    cuts
}

/// The fence between two consecutive entries of a leaf: above `left`, not above `right`, and as short as the order
/// makes it. Where the keys are the same, only their ties tell them apart.
pub(super) fn fence_between(order: &impl KeyOrder, left: &Point<'_>, right: &Point<'_>) -> PointBuf {
    if left.cmp_key(order, right).is_eq() {
        return right.to_buf();
    }
    let mut fence = PointBuf {
        prefix: right.prefix,
        tie: 0,
        key: Vec::new(),
    };
    if !order.prefix_is_exact() {
        order.separator(left.key, right.key, &mut fence.key);
        if fence.key.len() > right.key.len() {
            fence.key.clear();
            fence.key.extend_from_slice(right.key);
        }
        fence.prefix = order.prefix(&fence.key);
    }
    fence
}

impl<O: KeyOrder, L: RowLayout, S: PageStore> BPlusTree<O, L, S> {
    /// Into how many nodes the entries of `node` may be spread in one batch.
    pub(super) fn spread_max<R: RowLayout>(&self, node: &Node<'_, R>) -> usize {
        if node.id() == self.root {
            MAX_BATCH_PAGES - 1
        } else {
            MAX_BATCH_PAGES
        }
    }

    /// Writes a sequence to a latched node and to new right siblings, cut at `cuts`, in one batch; then tells the
    /// parent. `node` is a copy of what the batch's only page holds.
    pub(super) fn spread<R: RowLayout>(
        &self,
        mut batch: S::Batch<'_>,
        node: &Node<'_, R>,
        sequence: &Sequence<'_, R>,
        cuts: &[usize],
    ) -> Result<()> {
        let level = node.level();
        let is_root = node.id() == self.root;
        let fences: Vec<PointBuf> = cuts
            .iter()
            .map(|&cut| {
                let right = sequence.point(cut)?;
                Ok(if level == 0 {
                    fence_between(&self.order, &sequence.point(cut - 1)?, &right)
                } else {
                    right.to_buf()
                })
            })
            .collect::<Result<_>>()?;
        let mut fresh = Fresh::new(&self.store);
        let mut nodes = Vec::with_capacity(cuts.len() + 1);
        if !is_root {
            nodes.push(FreshPage {
                id: node.id(),
                generation: node.generation(),
            });
        }
        while nodes.len() <= cuts.len() {
            let page = fresh.reserve()?;
            batch.add(page.id)?;
            nodes.push(page);
        }
        let children: Vec<[u8; 4]> = nodes.iter().map(|page| child_bytes(page.id)).collect();
        let old = Frame::of(node);
        let mut frames = Vec::with_capacity(nodes.len());
        let mut parts = Vec::with_capacity(nodes.len());
        for (index, page) in nodes.iter().enumerate() {
            let start = if index == 0 { 0 } else { cuts[index - 1] };
            let end = cuts.get(index).copied().unwrap_or(sequence.len());
            parts.push(sequence.part(start..end));
            frames.push(Frame {
                level,
                generation: page.generation,
                right: nodes.get(index + 1).map_or(old.right, |next| Some(next.id)),
                high: fences.get(index).map_or(old.high, |fence| Some(fence.as_point())),
            });
        }
        let mut pivots = Sequence::new(&self.branch);
        let lows = std::iter::once(Point::default()).chain(fences.iter().map(PointBuf::as_point));
        for (low, child) in lows.zip(&children) {
            pivots.push_entry(EntryItem::pivot(&self.order, low, child));
        }
        batch.commit(|pages| {
            let pages = if is_root {
                let (root, children) = pages.split_at_mut(1);
                let frame = Frame {
                    level: level + 1,
                    ..old
                };
                pivots.write(root[0], &frame);
                children
            } else {
                pages
            };
            for (page, (part, frame)) in pages.iter_mut().zip(parts.iter().zip(&frames)) {
                part.write(page, frame);
            }
        });
        fresh.written();
        if let (0, None, Some(last), Some(&cut)) = (level, old.high, nodes.last(), cuts.last()) {
            self.edge
                .remember(last.id, last.generation, sequence.point(cut)?.prefix);
        }
        if !is_root {
            for fence in &fences {
                // If that fails, what was asked for is done all the same. The split stays pending, and the next
                // writer who meets it meets the error too, if it lasts.
                self.complete_split(level + 1, &fence.as_point()).ok();
            }
        }
        Ok(())
    }
}
