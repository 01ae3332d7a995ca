//! Changing a node in place: entries are shifted within their columns, bytes are added to the heap, nothing is
//! allocated.
//!
//! The functions here run inside a commit and cannot fail. What they rely on, the caller has checked on the same
//! latched page: the header ([`Node::parse`]), the slots in question, and that there is room.

use std::ops::Range;

use super::item::Item;
use super::node::{self, Extent, Node, pack_slot, unpack_slot, write};
use super::shape::{HEADER_LEN, SLOT_LEN, Shape};
use crate::paged::{PageId, Result, RowLayout};

impl<L: RowLayout> Node<'_, L> {
    /// Whether one more entry with `heap_len` bytes outside the columns fits without moving anything.
    pub(super) fn has_room(&self, heap_len: usize) -> bool {
        self.count() < self.capacity() && self.gap() >= heap_len
    }

    /// Whether the entry at `index` can be overwritten by `item`. Fails if its own slots are damaged.
    pub(super) fn has_room_to_replace(&self, index: usize, item: &impl Item) -> Result<bool> {
        self.check_slots(index..index + 1)?;
        let fits_each = (0..self.shape().slot_columns()).all(|column| {
            let (_, len) = unpack_slot(self.slots(column, index..index + 1)[0]);
            item.string(column).len() <= len
        });
        Ok(fits_each || self.gap() >= item.heap_len(self.shape()))
    }
}

/// A node being changed. The numbers of its header are read once, and written back by [`NodeMut::finish`].
pub(super) struct NodeMut<'p, L> {
    page: &'p mut [u8],
    shape: &'p Shape<L>,
    count: usize,
    capacity: usize,
    heap_start: usize,
    heap_len: usize,
}

impl<'p, L: RowLayout> NodeMut<'p, L> {
    /// Begins to change a node that was parsed and is latched ever since.
    pub(super) fn new(page: &'p mut [u8], shape: &'p Shape<L>, id: PageId, extent: Extent) -> Self {
        let node = Node::trusted(page, shape, id, extent);
        let (heap_start, heap_len) = (node.heap_start(), node.heap_len());
        Self {
            page,
            shape,
            count: extent.count,
            capacity: extent.capacity,
            heap_start,
            heap_len,
        }
    }

    pub(super) fn finish(self) {
        node::set_count(self.page, self.count);
        if self.shape.has_heap() {
            node::set_heap(self.page, self.heap_start, self.heap_len);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Puts `item` at `index`; there is room (see [`Node::has_room`]).
    pub(super) fn insert(&mut self, index: usize, item: &impl Item) {
        let (count, capacity) = (self.count, self.capacity);
        self.open(HEADER_LEN, 8, index);
        if self.shape.ties {
            self.open(Shape::<L>::tie_column(capacity), 8, index);
        }
        for column in 0..self.shape.slot_columns() {
            self.open(self.shape.slot_column(column, capacity), SLOT_LEN, index);
        }
        let shape = self.shape;
        let mut column = shape.fixed_columns(capacity);
        for &width in shape.layout.fixed_widths() {
            self.open(column, usize::from(width), index);
            column += usize::from(width) * capacity;
        }
        self.count = count + 1;
        self.set_columns(index, item);
        self.append_heap(index, item);
    }

    /// Overwrites the entry at `index`; there is room (see [`Node::has_room_to_replace`]).
    pub(super) fn replace(&mut self, index: usize, item: &impl Item) {
        self.set_columns(index, item);
        let columns = 0..self.shape.slot_columns();
        let fits_each = columns
            .clone()
            .all(|column| item.string(column).len() <= self.slot(column, index).1);
        self.heap_len = self.heap_len.saturating_sub(self.heap_len_of(index..index + 1));
        if fits_each {
            for column in columns {
                let bytes = item.string(column);
                let (offset, _) = self.slot(column, index);
                self.page[offset..offset + bytes.len()].copy_from_slice(bytes);
                self.set_slot(column, index, offset, bytes.len());
                self.heap_len += bytes.len();
            }
        } else {
            self.append_heap(index, item);
        }
    }

    /// Removes the entries of `range`. The bytes that they have in the heap lie waste until the node is rebuilt.
    pub(super) fn remove(&mut self, range: Range<usize>) {
        let capacity = self.capacity;
        self.heap_len = self.heap_len.saturating_sub(self.heap_len_of(range.clone()));
        self.close(HEADER_LEN, 8, &range);
        if self.shape.ties {
            self.close(Shape::<L>::tie_column(capacity), 8, &range);
        }
        for column in 0..self.shape.slot_columns() {
            self.close(self.shape.slot_column(column, capacity), SLOT_LEN, &range);
        }
        let shape = self.shape;
        let mut column = shape.fixed_columns(capacity);
        for &width in shape.layout.fixed_widths() {
            self.close(column, usize::from(width), &range);
            column += usize::from(width) * capacity;
        }
        self.count -= range.len();
    }

    /// Shifts a column's cells from `index` on by one.
    fn open(&mut self, column: usize, width: usize, index: usize) {
        let from = column + width * index;
        self.page
            .copy_within(from..column + width * self.count, from + width);
    }

    /// Shifts a column's cells behind `range` to where it begins.
    fn close(&mut self, column: usize, width: usize, range: &Range<usize>) {
        self.page.copy_within(
            column + width * range.end..column + width * self.count,
            column + width * range.start,
        );
    }

    fn set_columns(&mut self, index: usize, item: &impl Item) {
        let (shape, capacity) = (self.shape, self.capacity);
        write(self.page, HEADER_LEN + 8 * index, item.prefix().to_le_bytes());
        if shape.ties {
            let column = Shape::<L>::tie_column(capacity);
            write(self.page, column + 8 * index, item.tie().to_le_bytes());
        }
        let mut column = shape.fixed_columns(capacity);
        let mut rest = item.fixed();
        for &width in shape.layout.fixed_widths() {
            let width = usize::from(width);
            let (cell, behind) = rest.split_at(width);
            self.page[column + width * index..column + width * (index + 1)].copy_from_slice(cell);
            column += width * capacity;
            rest = behind;
        }
    }

    fn append_heap(&mut self, index: usize, item: &impl Item) {
        for column in 0..self.shape.slot_columns() {
            let bytes = item.string(column);
            self.heap_start -= bytes.len();
            self.heap_len += bytes.len();
            self.page[self.heap_start..self.heap_start + bytes.len()].copy_from_slice(bytes);
            self.set_slot(column, index, self.heap_start, bytes.len());
        }
    }

    fn slot_at(&self, column: usize, index: usize) -> usize {
        self.shape.slot_column(column, self.capacity) + SLOT_LEN * index
    }

    fn slot(&self, column: usize, index: usize) -> (usize, usize) {
        let at = self.slot_at(column, index);
        let mut slot = [0; SLOT_LEN];
        slot.copy_from_slice(&self.page[at..at + SLOT_LEN]);
        unpack_slot(slot)
    }

    fn set_slot(&mut self, column: usize, index: usize, offset: usize, len: usize) {
        let at = self.slot_at(column, index);
        write(self.page, at, pack_slot(offset, len));
    }

    fn heap_len_of(&self, range: Range<usize>) -> usize {
        (0..self.shape.slot_columns())
            .flat_map(|column| range.clone().map(move |index| (column, index)))
            .map(|(column, index)| self.slot(column, index).1)
            .sum()
    }
}
