//! Where to cut a sequence of entries that does not fit in one node.

use super::assemble::Sequence;
use super::node::Node;
use super::shape::Shape;
use crate::paged::{Error, Result, RowLayout};

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
