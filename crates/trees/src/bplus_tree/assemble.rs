//! Rebuilds nodes from stretches of old nodes and new entries: shared by splits, merges, loads and
//! the compaction of a node.

use std::ops::Range;

use super::item::{EntryItem, Item, Staging};
use super::node;
use super::node::{Frame, Node, pack_slot, unpack_slot, write};
use super::shape::{HEADER_LEN, SLOT_LEN, Shape};
use crate::entry::RowLayout;
use crate::point::Point;
use bedload_pages::Result;

/// Consecutive entries of one origin.
pub(super) enum NodePiece<'a, L> {
    /// Entries of a node whose slots were checked ([`Node::check_slots`]).
    Of(Node<'a, L>, Range<usize>),
    Entry(EntryItem<'a>),
    Staged(&'a Staging, Range<usize>),
}

impl<L> Clone for NodePiece<'_, L> {
    fn clone(&self) -> Self {
        match self {
            Self::Of(node, range) => Self::Of(*node, range.clone()),
            Self::Entry(item) => Self::Entry(*item),
            Self::Staged(staging, range) => Self::Staged(staging, range.clone()),
        }
    }
}

impl<'a, L: RowLayout> NodePiece<'a, L> {
    fn len(&self) -> usize {
        match self {
            Self::Of(_, range) | Self::Staged(_, range) => range.len(),
            Self::Entry(_) => 1,
        }
    }

    /// Bytes outside the columns of the entry at `index`.
    fn heap_len_at(&self, shape: &Shape<L>, index: usize) -> usize {
        match self {
            Self::Of(node, range) => node.heap_len_of(range.start + index..range.start + index + 1),
            Self::Entry(item) => item.heap_len(shape),
            Self::Staged(staging, range) => staging.heap_len_of(range.start + index),
        }
    }

    fn point(&self, shape: &Shape<L>, index: usize) -> Result<Point<'a>> {
        match self {
            Self::Of(node, range) => node.point(range.start + index),
            Self::Entry(item) => Ok(item.point()),
            Self::Staged(staging, range) => Ok(staging.point(range.start + index, shape.keys)),
        }
    }

    fn part(&self, part: Range<usize>) -> Self {
        let shift = |range: &Range<usize>| range.start + part.start..range.start + part.end;
        match self {
            Self::Of(node, range) => Self::Of(*node, shift(range)),
            Self::Entry(item) => Self::Entry(*item),
            Self::Staged(staging, range) => Self::Staged(staging, shift(range)),
        }
    }
}

/// Entries in ascending order, on their way into one node or several.
pub(super) struct Sequence<'a, L> {
    shape: &'a Shape<L>,
    pieces: Vec<NodePiece<'a, L>>,
    len: usize,
}

impl<'a, L: RowLayout> Sequence<'a, L> {
    pub(super) fn new(shape: &'a Shape<L>) -> Self {
        Self {
            shape,
            pieces: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn push(&mut self, piece: NodePiece<'a, L>) {
        if piece.len() > 0 {
            self.len += piece.len();
            self.pieces.push(piece);
        }
    }

    pub(super) fn push_entry(&mut self, item: EntryItem<'a>) {
        self.push(NodePiece::Entry(item));
    }

    /// The entries of `node` with `item` put at `index`, in place of the entry there if `replaces`.
    pub(super) fn with_item(
        node: Node<'a, L>,
        index: usize,
        replaces: bool,
        item: EntryItem<'a>,
    ) -> Result<Self> {
        node.check_slots(0..node.count())?;
        let mut sequence = Self::new(node.shape());
        sequence.push(NodePiece::Of(node, 0..index));
        sequence.push(NodePiece::Entry(item));
        sequence.push(NodePiece::Of(node, index + usize::from(replaces)..node.count()));
        Ok(sequence)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn heap_len(&self) -> usize {
        if self.shape.has_heap() {
            self.heap_lens().sum()
        } else {
            0
        }
    }

    /// For each entry, its bytes outside the columns.
    pub(super) fn heap_lens(&self) -> impl Iterator<Item = usize> {
        self.pieces
            .iter()
            .flat_map(|piece| (0..piece.len()).map(|index| piece.heap_len_at(self.shape, index)))
    }

    pub(super) fn point(&self, mut index: usize) -> Result<Point<'a>> {
        for piece in &self.pieces {
            if index < piece.len() {
                return piece.point(self.shape, index);
            }
            index -= piece.len();
        }
        unreachable!("the index lies within the sequence")
    }

    /// The most bytes that the fence before the entry at `index` takes.
    pub(super) fn fence_len_at(&self, index: usize) -> Result<usize> {
        Ok(if self.shape.keys {
            self.point(index)?.key.len()
        } else {
            0
        })
    }

    pub(super) fn part(&self, part: Range<usize>) -> Self {
        let mut result = Self::new(self.shape);
        let mut before = 0;
        for piece in &self.pieces {
            let start = part.start.clamp(before, before + piece.len()) - before;
            let end = part.end.clamp(before, before + piece.len()) - before;
            if start < end {
                result.push(piece.part(start..end));
            }
            before += piece.len();
        }
        result
    }

    /// Whether all of it fits in one node with the given fence.
    pub(super) fn fits(&self, fence_len: usize) -> bool {
        self.shape.fits(self.len, self.heap_len() + fence_len)
    }

    /// Writes the entries, which fit and do not borrow from `page`, into `page`. Overwrites all
    /// that it held.
    pub(super) fn write(&self, page: &mut [u8], frame: &Frame<'_>) {
        let capacity = self
            .shape
            .capacity_for(self.len, self.heap_len(), frame.fence_len(self.shape));
        page.fill(0);
        node::write_header(page, self.shape, capacity, frame);
        let mut heap = Heap {
            start: self.shape.payload_len - frame.fence_len(self.shape),
            len: 0,
        };
        let mut at = 0;
        for piece in &self.pieces {
            let columns = NodeColumns {
                page,
                shape: self.shape,
                capacity,
                at,
            };
            match piece {
                NodePiece::Of(node, range) => columns.copy_node(&mut heap, node, range.clone()),
                NodePiece::Entry(item) => columns.copy_item(&mut heap, item),
                NodePiece::Staged(staging, range) => columns.copy_staged(&mut heap, staging, range.clone()),
            }
            at += piece.len();
        }
        node::set_count(page, self.len);
        node::set_heap(page, heap.start, heap.len);
    }
}

struct Heap {
    start: usize,
    len: usize,
}

impl Heap {
    fn push(&mut self, page: &mut [u8], bytes: &[u8]) -> [u8; SLOT_LEN] {
        self.start -= bytes.len();
        self.len += bytes.len();
        page[self.start..self.start + bytes.len()].copy_from_slice(bytes);
        pack_slot(self.start, bytes.len())
    }
}

/// The columns of a node being written, from entry `at` on.
struct NodeColumns<'p, L> {
    page: &'p mut [u8],
    shape: &'p Shape<L>,
    capacity: usize,
    at: usize,
}

impl<L: RowLayout> NodeColumns<'_, L> {
    fn put(&mut self, column: usize, width: usize, cells: &[u8]) {
        let start = column + width * self.at;
        self.page[start..start + cells.len()].copy_from_slice(cells);
    }

    fn copy_node(mut self, heap: &mut Heap, node: &Node<'_, L>, range: Range<usize>) {
        let shape = self.shape;
        self.put(HEADER_LEN, 8, node.prefixes()[range.clone()].as_flattened());
        if shape.ties {
            let ties = node.ties(range.clone()).as_flattened();
            self.put(Shape::<L>::tie_column(self.capacity), 8, ties);
        }
        let mut column = shape.fixed_columns(self.capacity);
        for (index, &width) in shape.layout.fixed_widths().iter().enumerate() {
            self.put(column, usize::from(width), node.fixed(index, range.clone()));
            column += usize::from(width) * self.capacity;
        }
        for slots in 0..shape.slot_columns() {
            let column = shape.slot_column(slots, self.capacity);
            for (index, &slot) in node.slots(slots, range.clone()).iter().enumerate() {
                let (offset, len) = unpack_slot(slot);
                let bytes = node.page().get(offset..offset + len).unwrap_or_default();
                let slot = heap.push(self.page, bytes);
                write(self.page, column + SLOT_LEN * (self.at + index), slot);
            }
        }
    }

    fn copy_item(mut self, heap: &mut Heap, item: &impl Item) {
        let shape = self.shape;
        self.put(HEADER_LEN, 8, &item.prefix().to_le_bytes());
        if shape.ties {
            self.put(
                Shape::<L>::tie_column(self.capacity),
                8,
                &item.tie().to_le_bytes(),
            );
        }
        let mut column = shape.fixed_columns(self.capacity);
        let mut rest = item.fixed();
        for &width in shape.layout.fixed_widths() {
            let (cell, behind) = rest.split_at(usize::from(width));
            self.put(column, usize::from(width), cell);
            column += usize::from(width) * self.capacity;
            rest = behind;
        }
        for slots in 0..shape.slot_columns() {
            let slot = heap.push(self.page, item.string(slots));
            self.put(shape.slot_column(slots, self.capacity), SLOT_LEN, &slot);
        }
    }

    fn copy_staged(mut self, heap: &mut Heap, staging: &Staging, range: Range<usize>) {
        let shape = self.shape;
        self.put_numbers(HEADER_LEN, staging.prefixes(range.clone()));
        if shape.ties {
            self.put_numbers(Shape::<L>::tie_column(self.capacity), staging.ties(range.clone()));
        }
        let rows = staging.rows(range.clone());
        let (mut column, mut before) = (shape.fixed_columns(self.capacity), 0);
        for &width in shape.layout.fixed_widths() {
            let width = usize::from(width);
            let cells = self.page[column + width * self.at..].chunks_exact_mut(width);
            for (cell, row) in cells.zip(rows.chunks_exact(shape.layout.fixed_len())) {
                cell.copy_from_slice(&row[before..before + width]);
            }
            column += width * self.capacity;
            before += width;
        }
        for slots in 0..shape.slot_columns() {
            let column = shape.slot_column(slots, self.capacity);
            for (place, index) in range.clone().enumerate() {
                let slot = heap.push(self.page, staging.item(index).string(slots));
                write(self.page, column + SLOT_LEN * (self.at + place), slot);
            }
        }
    }

    fn put_numbers(&mut self, column: usize, numbers: &[u64]) {
        let (cells, _) = self.page[column + 8 * self.at..].as_chunks_mut();
        for (cell, number) in cells.iter_mut().zip(numbers) {
            *cell = number.to_le_bytes();
        }
    }
}
