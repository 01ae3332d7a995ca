//! Changing a node in place: entries are shifted within their columns, bytes are added to the heap,
//! nothing is allocated.
//!
//! The functions here run inside a commit and cannot fail. The caller has checked what they rely
//! on, on the same latched page: the header ([`Node::parse`]), the slots in question, and that
//! there is room.

use std::ops::Range;

use super::item::Item;
use super::node;
use super::node::{Extent, Node, pack_slot, unpack_slot, write};
use super::shape::{HEADER_LEN, SLOT_LEN, Shape};
use crate::entry::RowLayout;
use bedload_pages::{PageId, Result};

impl<L: RowLayout> Node<'_, L> {
    /// Whether one more entry with `heap_len` bytes outside the columns fits without moving
    /// anything.
    pub(super) fn has_room(&self, heap_len: usize) -> bool {
        self.count() < self.capacity() && self.gap() >= heap_len
    }

    /// Whether the entry at `index` can be overwritten by `item`. Fails if its own slots are
    /// damaged.
    pub(super) fn has_room_to_replace(&self, index: usize, item: &impl Item) -> Result<bool> {
        self.check_slots(index..index + 1)?;
        let fits_each = (0..self.shape().slot_columns()).all(|column| {
            let (_, len) = unpack_slot(self.slots(column, index..index + 1)[0]);
            item.string(column).len() <= len
        });
        Ok(fits_each || self.gap() >= item.heap_len(self.shape()))
    }
}

/// A node being changed. The numbers of its header are read once, and written back by
/// [`NodeMut::finish`].
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

    /// Removes the entries of `range`. The bytes that they have in the heap lie waste until the
    /// node is rebuilt.
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

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use bedload_testkit::Rng;

    use super::super::assemble::Sequence;
    use super::super::item::EntryItem;
    use super::super::node::Frame;
    use super::super::options::BPlusTreeOptions;
    use super::*;
    use crate::entry::{Columns, Entry, FixedRow, NoRow, Row};
    use crate::key_order::{ByteOrder, KeyOrder, U64Order};
    use crate::point::Point;

    /// Key, tie, fixed columns, variable columns.
    type Model = Vec<(Vec<u8>, u64, Vec<u8>, Vec<Vec<u8>>)>;

    fn page_id() -> PageId {
        PageId::new(1).expect("not zero")
    }

    fn frame(high: Point<'_>) -> Frame<'_> {
        Frame {
            level: 0,
            generation: 9,
            right: PageId::new(2),
            high: Some(high),
        }
    }

    fn check<L: RowLayout>(
        page: &[u8],
        shape: &Shape<L>,
        order: &impl KeyOrder,
        model: &Model,
        high: Point<'_>,
    ) {
        let node = Node::parse(page, shape, page_id(), 0).expect("a sound header");
        node.check_slots(0..node.count()).expect("sound slots");
        assert_eq!(node.heap_len(), node.heap_len_of(0..node.count()));
        assert_eq!(
            (node.count(), node.generation(), node.right()),
            (model.len(), 9, PageId::new(2))
        );
        let fence = node.high().expect("a fence");
        assert_eq!(fence.cmp(order, &high), Ordering::Equal);
        for (index, (key, tie, fixed, variable)) in model.iter().enumerate() {
            assert_eq!((node.prefix(index), node.tie(index)), (order.prefix(key), *tie));
            if shape.keys {
                assert_eq!(node.key(index).expect("a key"), key);
            }
            let columns = 0..shape.layout.fixed_widths().len();
            let found: Vec<u8> = columns
                .flat_map(|column| node.fixed(column, index..index + 1).to_vec())
                .collect();
            assert_eq!(&found, fixed);
            for (column, bytes) in variable.iter().enumerate() {
                assert_eq!(
                    node.slot_bytes(node.key_slots() + column, index),
                    Some(&bytes[..])
                );
            }
        }
    }

    /// Random changes of one node, as a tree makes them: in place, or by writing the node anew.
    fn change<O: KeyOrder, L: RowLayout>(order: &O, layout: &L, ties: bool, key_of: fn(u64) -> Vec<u8>) {
        let shape = Shape::new(layout.clone(), order, 1024, &BPlusTreeOptions::new().ties(ties));
        let last = key_of(u64::MAX);
        let high = Point {
            prefix: order.prefix(&last),
            tie: 0,
            key: &last,
        };
        let mut page = vec![0xaa; 1024];
        Sequence::new(&shape).write(&mut page, &frame(high));
        let mut model = Model::new();
        let mut rng = Rng::new(3);
        let mut rewritten = 0;
        for _ in 0..if cfg!(miri) { 60 } else { 3000 } {
            let key = key_of(rng.below(60));
            let tie = if ties { rng.below(3) } else { 0 };
            let mut bytes = |len: u64| {
                (0..len)
                    .map(|_| rng.next_u64().to_le_bytes()[0])
                    .collect::<Vec<u8>>()
            };
            let fixed = bytes(layout.fixed_len() as u64);
            let variable: Vec<Vec<u8>> = (0..layout.variable_columns() as u64)
                .map(|column| bytes(column * 9))
                .collect();
            let slices: Vec<&[u8]> = variable
                .iter()
                .map(|bytes| &bytes[rng.index(bytes.len() + 1)..])
                .collect();
            let row = Row {
                fixed: &fixed,
                variable: &slices,
            };
            let item = EntryItem::new(order, Entry { key: &key, tie, row });
            let old = page.clone();
            let node = Node::parse(&old, &shape, page_id(), 0).expect("a sound header");
            let (index, is_at) = node.find(order, 0, &item.point()).expect("sound keys");
            let expected = model.binary_search_by(|(other, other_tie, ..)| {
                order.compare(other, &key).then(other_tie.cmp(&tie))
            });
            assert_eq!(expected.is_ok(), is_at);
            assert_eq!(expected.unwrap_or_else(|index| index), index);
            let mut edit = NodeMut::new(&mut page, &shape, page_id(), node.extent());
            if rng.below(if node.count() > 20 { 2 } else { 5 }) == 0 {
                if is_at {
                    edit.remove(index..index + 1);
                    edit.finish();
                    model.remove(index);
                }
            } else {
                let has_room = if is_at {
                    node.has_room_to_replace(index, &item).expect("sound slots")
                } else {
                    node.has_room(item.heap_len(&shape))
                };
                if has_room && is_at {
                    edit.replace(index, &item);
                    edit.finish();
                } else if has_room {
                    edit.insert(index, &item);
                    edit.finish();
                } else {
                    let sequence = Sequence::with_item(node, index, is_at, item).expect("sound slots");
                    if !sequence.fits(node.fence_len()) {
                        continue;
                    }
                    sequence.write(&mut page, &Frame::of(&node));
                    rewritten += 1;
                }
                let variable = slices.iter().map(|slice| slice.to_vec()).collect();
                let entry = (key.clone(), tie, fixed.clone(), variable);
                if is_at {
                    model[index] = entry
                } else {
                    model.insert(index, entry)
                }
            }
            check(&page, &shape, order, &model, high);
        }
        assert_eq!(
            rewritten > 0,
            shape.has_heap(),
            "a heap is compacted now and then"
        );
    }

    #[test]
    fn a_node_is_what_was_put_into_it() {
        let big_endian = |number: u64| number.to_be_bytes().to_vec();
        let text = |number: u64| {
            format!("{:>width$}", number % 1000, width = 3 + (number % 20) as usize).into_bytes()
        };
        change(&U64Order, &FixedRow::<8>, false, big_endian);
        change(&U64Order, &Columns::new(&[1, 8, 3], 0), true, big_endian);
        change(&U64Order, &Columns::new(&[2], 3), true, big_endian);
        change(&ByteOrder, &NoRow, false, text);
        change(&ByteOrder, &Columns::new(&[4, 1], 2), true, text);
    }

    #[test]
    fn headers_that_contradict_themselves_are_refused() {
        let shape = Shape::new(Columns::new(&[4], 1), &ByteOrder, 256, &BPlusTreeOptions::new());
        let high = Point {
            prefix: ByteOrder.prefix(b"zebra"),
            tie: 1,
            key: b"zebra",
        };
        let mut page = vec![0xaa; 256];
        Sequence::new(&shape).write(&mut page, &frame(high));
        assert!(
            page[48..256 - high.key.len()].iter().all(|&byte| byte == 0),
            "nothing is left of what was there"
        );
        assert!(Node::parse(&page, &shape, page_id(), 0).is_ok());
        let spoilt = [
            (0, 0),     // magic
            (2, 7),     // kind
            (3, 1),     // level
            (4, 200),   // entries
            (6, 200),   // capacity
            (21, 0xff), // where the heap begins
            (23, 0xff), // bytes of the heap
            (25, 0xff), // bytes of the fence
            (26, 0),    // flags
            (16, 0),    // no right neighbour
            (16, 1),    // its own right neighbour
        ];
        for (offset, byte) in spoilt {
            let mut page = page.clone();
            page[offset] = byte;
            assert!(
                Node::parse(&page, &shape, page_id(), 0).is_err(),
                "byte {offset} is {byte}"
            );
        }
        assert!(
            Node::parse(&page, &shape, page_id(), 1).is_err(),
            "another level was expected"
        );
        assert!(
            Node::parse(&page[..40], &shape, page_id(), 0).is_err(),
            "it is cut short"
        );
    }
}
