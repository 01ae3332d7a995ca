//! Spreading entries that do not fit in one node: where to cut them, and writing the nodes.
//!
//! The node and its new right siblings are written in one batch, and each sibling is made known to
//! the parent in a batch of its own (Lehman and Yao, §3.3). Between the two, readers and writers
//! reach a sibling by the right link. A root keeps its page: its entries move to new children, and
//! it becomes their parent in the same batch.

use super::assemble::Sequence;
use super::fresh::{Fresh, FreshPage};
use super::item::{EntryItem, child_bytes};
use super::node::{Frame, Node};
use super::shape::Shape;
use super::tree::BPlusTree;
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use crate::point::{Point, PointBuf};
use bedload_pages::{Batch, Error, MAX_BATCH_PAGES, PageStore, Result};

/// The number of entries to leave on the left of two nodes: about `percent` of their bytes, such
/// that both sides fit. The entry after the cut gives the left side's fence.
///
/// There is such a cut because no entry takes more than a quarter of a node
/// ([`Shape::entry_len_max`]): two halves of what overflowed a node by one entry leave room for one
/// more entry and a fence.
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
    // If nodes above the leaves were left with one child, a level could have as many nodes as the
    // one below it, and the tree would grow without end.
    let least = if origin.level() > 0 {
        2.min(count_total / 2)
    } else {
        1
    };
    let mut best: Option<(usize, usize)> = None;
    let mut heap_left = 0;
    for left in 1..count_total {
        heap_left += heap_lens[left - 1];
        if left < least || count_total - left < least {
            continue;
        }
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

/// The places at which to cut a sequence so that each node but the last is filled to about
/// `percent`.
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

/// The fence between two consecutive entries of a leaf: above `left`, not above `right`, and as
/// short as the order makes it. Where the keys are the same, only their ties tell them apart.
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

    /// Writes a sequence to a latched node and to new right siblings, cut at `cuts`, in one batch;
    /// then tells the parent. `node` is a copy of what the batch's only page holds.
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
                // If that fails, the operation has succeeded all the same. The split stays pending,
                // and the next writer that meets it meets the error too, if it lasts.
                self.complete_split(level + 1, &fence.as_point()).ok();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::assemble::NodePiece;
    use super::super::item::{Item, Staging};
    use super::super::node::write_header;
    use super::super::options::BPlusTreeOptions;
    use super::*;
    use crate::entry::{Columns, Entry, Row};
    use crate::key_order::ByteOrder;
    use bedload_pages::PageId;

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 })
        })]

        /// Whatever the sizes of entries, up to the limit: what fills a node and one entry more can
        /// be cut.
        #[test]
        fn what_overflows_by_one_entry_can_be_cut(
            lens in prop::collection::vec(0_usize..=100, 1..200),
            largest_at in prop::collection::vec(any::<bool>(), 200),
            percent in 10_u8..=90,
            fence_len in 0_usize..=100,
        ) {
            let payload_len = 512;
            let shape = Shape::new(Columns::new(&[1], 1), &ByteOrder, payload_len, &BPlusTreeOptions::new());
            let len_max = shape.entry_len_max() - shape.entry_len;
            let mut staging = Staging::new(&shape);
            let mut heap_len = 0;
            let fence = vec![0xff; fence_len.min(len_max)];
            for (index, (&len, &is_largest)) in lens.iter().zip(&largest_at).enumerate() {
                let mut key = u32::try_from(index).expect("few").to_be_bytes().to_vec();
                key.resize(if is_largest { len_max } else { len.clamp(4, len_max) }, 0);
                let row = Row { fixed: &[1], variable: &[b""] };
                let item = EntryItem::new(&ByteOrder, Entry { key: &key, tie: 0, row });
                heap_len += item.heap_len(&shape);
                staging.push(&item);
                if !shape.fits(staging.len(), heap_len + fence.len()) {
                    break;
                }
            }
            prop_assume!(!shape.fits(staging.len(), heap_len + fence.len()));
            let mut page = vec![0; payload_len];
            let frame = Frame {
                level: 0,
                generation: 1,
                right: PageId::new(3),
                high: Some(Point { prefix: u64::MAX, tie: 0, key: &fence }),
            };
            write_header(&mut page, &shape, 0, &frame);
            let origin = Node::parse(&page, &shape, PageId::new(2).expect("not zero"), 0).expect("a node");
            let mut sequence = Sequence::new(&shape);
            sequence.push(NodePiece::Staged(&staging, 0..staging.len()));
            let left_len = cut(&sequence, &shape, &origin, percent).expect("a cut");
            let between = fence_between(
                &ByteOrder,
                &sequence.point(left_len - 1).expect("a point"),
                &sequence.point(left_len).expect("a point"),
            );
            prop_assert!(sequence.part(0..left_len).fits(between.key.len()));
            prop_assert!(sequence.part(left_len..sequence.len()).fits(fence.len()));
        }
    }

    #[test]
    fn fences_are_short_and_between() {
        let point = |key: &'static [u8], tie| Point {
            prefix: ByteOrder.prefix(key),
            tie,
            key,
        };
        let fence = fence_between(
            &ByteOrder,
            &point(b"2026-11-19 23:59", 4),
            &point(b"2026-11-20 00:00", 2),
        );
        assert_eq!((fence.key.as_slice(), fence.tie), (&b"2026-11-2"[..], 0));
        let fence = fence_between(&ByteOrder, &point(b"same", 4), &point(b"same", 7));
        assert_eq!(
            (fence.key.as_slice(), fence.tie),
            (&b"same"[..], 7),
            "only the tie tells them apart"
        );
    }
}
