//! The bytes of a node: reading a header and columns, and writing a header.
//!
//! All numbers are little-endian. A node is a header, columns with room for `capacity` entries
//! each, free space, and a heap of key and variable column bytes that grows from the end of the
//! page towards the columns:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | magic `0xBED1` |
//! | 2 | 1 | kind: 1 leaf, 2 branch, 3 unlinked |
//! | 3 | 1 | level: 0 for a leaf, a parent's is its children's plus one |
//! | 4 | 2 | entries |
//! | 6 | 2 | capacity of each column |
//! | 8 | 8 | generation of the page |
//! | 16 | 4 | right neighbour, 0 for none |
//! | 20 | 2 | where the heap begins |
//! | 22 | 2 | bytes of the heap in use, those of the fence not counted |
//! | 24 | 2 | bytes of the high fence's key, which end the page |
//! | 26 | 1 | flags: 1 there is a high fence, 2 there is a tie column |
//! | 27 | 1 | zero |
//! | 28 | 4 | root of the tree that the node belongs to |
//! | 32 | 8 | prefix of the high fence |
//! | 40 | 8 | tie of the high fence |
//! | 48 | 8 × capacity | prefixes |
//! | … | 8 × capacity | ties, if kept |
//! | … | 4 × capacity | (offset, length) of key bytes, unless prefixes are exact |
//! | … | 4 × capacity | (offset, length) in each variable column |
//! | … | width × capacity | each fixed column |
//!
//! # Invariants of a node
//!
//! 1. Entries ascend strictly by (key, tie), and lie below the high fence. There is no high fence
//!    exactly where there is no right neighbour.
//! 2. Columns, free space and heap do not overlap:
//!    `columns_end(capacity) <= heap_start <= payload_len - fence_len`.
//! 3. Slots lie behind the columns, and their lengths add up to the bytes of the heap in use.
//! 4. A branch has at least one child. The first child's pivot is its low bound, and is never
//!    compared.
//!
//! [`Node::parse`] checks what takes constant time. Slots and entries are checked where they are
//! used.

use std::ops::Range;

use super::shape::{ChildRow, HEADER_LEN, SLOT_LEN, Shape};
use crate::entry::RowLayout;
use crate::point::Point;
use bedload_pages::{Error, PageId, Result};

const MAGIC: u16 = 0xBED1;
const LEAF: u8 = 1;
const BRANCH: u8 = 2;
const UNLINKED: u8 = 3;
const HAS_HIGH: u8 = 1;
const HAS_TIES: u8 = 2;

const AT_KIND: usize = 2;
const AT_LEVEL: usize = 3;
const AT_COUNT: usize = 4;
const AT_CAPACITY: usize = 6;
const AT_GENERATION: usize = 8;
const AT_RIGHT: usize = 16;
const AT_HEAP_START: usize = 20;
const AT_HEAP_LEN: usize = 22;
const AT_FENCE_LEN: usize = 24;
const AT_FLAGS: usize = 26;
const AT_TREE: usize = 28;
const AT_HIGH_PREFIX: usize = 32;
const AT_HIGH_TIE: usize = 40;

/// No tree of 2³² pages is higher, as nodes split at four entries or more.
pub(super) const LEVEL_MAX: u8 = 40;

/// The bytes of a header.
type Header = [u8; HEADER_LEN];

/// A branch node.
pub(super) type Branch<'p> = Node<'p, ChildRow>;

/// The root of the tree that the node on a page says it belongs to; none if there is no node on it.
/// So pages can be told apart by tree where the way to them is damaged.
///
/// ```
/// use bedload_pages::{HeapPages, PageRead};
/// use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions, tree_of};
/// use bedload_trees::{NoRow, U64Order};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = HeapPages::new(4096);
/// let tree = BPlusTree::create(&pages, U64Order, NoRow, BPlusTreeOptions::new())?;
/// assert_eq!(tree_of(&pages.read(tree.root())?), Some(tree.root()));
/// assert_eq!(tree_of(&[0; 4096]), None);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn tree_of(page: &[u8]) -> Option<PageId> {
    let header: &Header = page.first_chunk()?;
    PageId::new(u32_at(header, AT_TREE)).filter(|_| u16_at(header, 0) == MAGIC)
}

/// The level that a page says it has.
pub(super) fn level_of(page: &[u8], id: PageId) -> Result<u8> {
    match page.first_chunk() {
        Some(header) => level_in(header, id),
        None => Err(no_node(id)),
    }
}

fn no_node(id: PageId) -> Error {
    Error::Corrupt {
        page: id,
        reason: "it is not a node of a tree",
    }
}

fn level_in(header: &Header, id: PageId) -> Result<u8> {
    let level = header[AT_LEVEL];
    let reason = match (u16::from_le_bytes([header[0], header[1]]), header[AT_KIND]) {
        (MAGIC, LEAF) if level == 0 => return Ok(0),
        (MAGIC, BRANCH) if (1..=LEVEL_MAX).contains(&level) => return Ok(level),
        (MAGIC, LEAF | BRANCH) => "its level does not belong to its kind",
        (MAGIC, UNLINKED) => "it was unlinked from its tree",
        (MAGIC, _) => "its kind is unknown",
        _ => return Err(no_node(id)),
    };
    Err(Error::Corrupt { page: id, reason })
}

/// A node whose header was found in order.
#[derive(Debug)]
pub(super) struct Node<'p, L> {
    header: &'p Header,
    page: &'p [u8],
    shape: &'p Shape<L>,
    id: PageId,
    extent: Extent,
}

/// How much of a node's columns is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) count: usize,
    pub(super) capacity: usize,
}

impl<L> Clone for Node<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Node<'_, L> {}

impl<'p, L: RowLayout> Node<'p, L> {
    /// The node of the given level on a page, its header checked (invariant 2) in constant time.
    pub(super) fn parse(page: &'p [u8], shape: &'p Shape<L>, id: PageId, level: u8) -> Result<Self> {
        let header: &Header = page.first_chunk().ok_or_else(|| no_node(id))?;
        let level_found = level_in(header, id)?;
        let extent = Extent {
            count: usize::from(u16_at(header, AT_COUNT)),
            capacity: usize::from(u16_at(header, AT_CAPACITY)),
        };
        let heap_start = usize::from(u16_at(header, AT_HEAP_START));
        let heap_len = usize::from(u16_at(header, AT_HEAP_LEN));
        let fence_len = usize::from(u16_at(header, AT_FENCE_LEN));
        let right = u32_at(header, AT_RIGHT);
        let has_high = header[AT_FLAGS] & HAS_HIGH != 0;
        let reason = if u32_at(header, AT_TREE) != shape.tree.map_or(0, PageId::get) {
            "it belongs to another tree"
        } else if level_found != level {
            "its level is not the one its parent has it for"
        } else if page.len() != shape.payload_len {
            "it has not the length of its tree's pages"
        } else if extent.count > extent.capacity {
            "it counts more entries than its columns hold"
        } else if shape.columns_end(extent.capacity) > heap_start
            || heap_start + fence_len > shape.payload_len
        {
            "its columns and its heap overlap"
        } else if heap_start + heap_len + fence_len > shape.payload_len {
            "it counts more bytes than its heap holds"
        } else if (header[AT_FLAGS] & HAS_TIES != 0) != shape.ties {
            "it differs from its tree in whether ties are kept"
        } else if has_high != (right != 0) {
            "it has a high fence without a right neighbour, or the reverse"
        } else if has_high && shape.key_width.is_some_and(|width| width != fence_len) {
            "its high fence has not the width of its order's keys"
        } else if right == id.get() {
            "it is its own right neighbour"
        } else if level > 0 && extent.count == 0 {
            "it is a branch without children"
        } else {
            return Ok(Self {
                header,
                page,
                shape,
                id,
                extent,
            });
        };
        Err(Error::Corrupt { page: id, reason })
    }

    /// The node on a page that was parsed and is latched ever since, or columns copied out of such
    /// a node.
    pub(super) fn trusted(page: &'p [u8], shape: &'p Shape<L>, id: PageId, extent: Extent) -> Self {
        Self {
            header: page.first_chunk().unwrap_or(&[0; HEADER_LEN]),
            page,
            shape,
            id,
            extent,
        }
    }

    pub(super) fn corrupt<T>(&self, reason: &'static str) -> Result<T> {
        Err(Error::Corrupt {
            page: self.id,
            reason,
        })
    }

    pub(super) fn page(&self) -> &'p [u8] {
        self.page
    }

    pub(super) fn shape(&self) -> &'p Shape<L> {
        self.shape
    }

    pub(super) fn id(&self) -> PageId {
        self.id
    }

    pub(super) fn extent(&self) -> Extent {
        self.extent
    }

    pub(super) fn count(&self) -> usize {
        self.extent.count
    }

    pub(super) fn capacity(&self) -> usize {
        self.extent.capacity
    }

    pub(super) fn level(&self) -> u8 {
        self.header[AT_LEVEL]
    }

    pub(super) fn generation(&self) -> u64 {
        u64_at(self.header, AT_GENERATION)
    }

    pub(super) fn right(&self) -> Option<PageId> {
        PageId::new(u32_at(self.header, AT_RIGHT))
    }

    pub(super) fn high(&self) -> Option<Point<'p>> {
        let fence_len = usize::from(u16_at(self.header, AT_FENCE_LEN));
        (self.header[AT_FLAGS] & HAS_HIGH != 0).then(|| Point {
            prefix: u64_at(self.header, AT_HIGH_PREFIX),
            tie: u64_at(self.header, AT_HIGH_TIE),
            key: &self.page[self.page.len() - fence_len..],
        })
    }

    /// Bytes of the high fence's key.
    pub(super) fn fence_len(&self) -> usize {
        usize::from(u16_at(self.header, AT_FENCE_LEN))
    }

    /// Bytes of the heap in use, without the fence's.
    pub(super) fn heap_len(&self) -> usize {
        usize::from(u16_at(self.header, AT_HEAP_LEN))
    }

    pub(super) fn heap_start(&self) -> usize {
        usize::from(u16_at(self.header, AT_HEAP_START))
    }

    /// Bytes between the columns and the heap.
    pub(super) fn gap(&self) -> usize {
        usize::from(u16_at(self.header, AT_HEAP_START)) - self.shape.columns_end(self.capacity())
    }

    /// The bytes of `range` in a column of the given width that begins at `column`.
    fn cells(&self, column: usize, width: usize, range: Range<usize>) -> &'p [u8] {
        &self.page[column + width * range.start..column + width * range.end]
    }

    /// The prefixes, in little-endian bytes.
    pub(super) fn prefixes(&self) -> &'p [[u8; 8]] {
        self.cells(HEADER_LEN, 8, 0..self.count()).as_chunks().0
    }

    /// The ties of `range`, in little-endian bytes; empty if none are kept.
    pub(super) fn ties(&self, range: Range<usize>) -> &'p [[u8; 8]] {
        if self.shape.ties {
            self.cells(Shape::<L>::tie_column(self.capacity()), 8, range)
                .as_chunks()
                .0
        } else {
            &[]
        }
    }

    pub(super) fn prefix(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.prefixes()[index])
    }

    pub(super) fn tie(&self, index: usize) -> u64 {
        self.ties(index..index + 1)
            .first()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// The slots of `range` in the given column of slots.
    pub(super) fn slots(&self, column: usize, range: Range<usize>) -> &'p [[u8; SLOT_LEN]] {
        self.cells(self.shape.slot_column(column, self.capacity()), SLOT_LEN, range)
            .as_chunks()
            .0
    }

    /// The bytes behind a slot; `None` if they reach out of the page.
    pub(super) fn slot_bytes(&self, column: usize, index: usize) -> Option<&'p [u8]> {
        let (offset, len) = unpack_slot(self.slots(column, index..index + 1)[0]);
        if len == 0 {
            Some(&[])
        } else {
            self.page.get(offset..offset + len)
        }
    }

    /// The key bytes of an entry; empty where prefixes are exact.
    pub(super) fn key(&self, index: usize) -> Result<&'p [u8]> {
        if !self.shape.keys {
            return Ok(&[]);
        }
        match self.slot_bytes(0, index) {
            Some(bytes) if self.shape.key_width.is_none_or(|width| width == bytes.len()) => Ok(bytes),
            Some(_) => self.corrupt("a key has not the width of its order"),
            None => self.corrupt("the bytes of a key reach out of it"),
        }
    }

    pub(super) fn point(&self, index: usize) -> Result<Point<'p>> {
        Ok(Point {
            prefix: self.prefix(index),
            tie: self.tie(index),
            key: self.key(index)?,
        })
    }

    /// The number of slot columns before those of the variable columns.
    pub(super) fn key_slots(&self) -> usize {
        usize::from(self.shape.keys)
    }

    /// The bytes of `range` in a fixed column.
    pub(super) fn fixed(&self, column: usize, range: Range<usize>) -> &'p [u8] {
        let widths = self.shape.layout.fixed_widths();
        let before: usize = widths[..column].iter().map(|&width| usize::from(width)).sum();
        self.cells(
            self.shape.fixed_columns(self.capacity()) + before * self.capacity(),
            usize::from(widths[column]),
            range,
        )
    }

    /// Fails unless every slot of `range`, and their total length, lies within the page, so that
    /// these entries can be copied without further checks.
    pub(super) fn check_slots(&self, range: Range<usize>) -> Result<()> {
        let mut sum = 0;
        let heap = self.shape.columns_end(self.capacity())..=self.page.len();
        for column in 0..self.shape.slot_columns() {
            for &slot in self.slots(column, range.clone()) {
                let (offset, len) = unpack_slot(slot);
                if len > 0 && !(heap.contains(&offset) && heap.contains(&(offset + len))) {
                    return self.corrupt("a slot lies outside of its heap");
                }
                sum += len;
            }
        }
        if sum > self.shape.usable() {
            return self.corrupt("its slots overlap");
        }
        Ok(())
    }

    /// Bytes outside the columns of the entries of `range`.
    pub(super) fn heap_len_of(&self, range: Range<usize>) -> usize {
        (0..self.shape.slot_columns())
            .flat_map(|column| self.slots(column, range.clone()))
            .map(|&slot| unpack_slot(slot).1)
            .sum()
    }
}

impl Branch<'_> {
    /// The child at `index`.
    pub(super) fn child(&self, index: usize) -> Result<PageId> {
        match self
            .fixed(0, index..index + 1)
            .try_into()
            .map(u32::from_le_bytes)
            .ok()
            .and_then(PageId::new)
        {
            // A page that is its own child would be latched by who holds it.
            Some(child) if child != self.id() => Ok(child),
            Some(_) => self.corrupt("it is its own child"),
            None => self.corrupt("a child is page 0"),
        }
    }
}

pub(super) fn unpack_slot([a, b, c, d]: [u8; SLOT_LEN]) -> (usize, usize) {
    (
        usize::from(u16::from_le_bytes([a, b])),
        usize::from(u16::from_le_bytes([c, d])),
    )
}

pub(super) fn pack_slot(offset: usize, len: usize) -> [u8; SLOT_LEN] {
    let [a, b] = narrow(offset).to_le_bytes();
    let [c, d] = narrow(len).to_le_bytes();
    [a, b, c, d]
}

/// The fields of a header that do not follow from the entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) level: u8,
    pub(super) generation: u64,
    pub(super) right: Option<PageId>,
    pub(super) high: Option<Point<'a>>,
}

impl<'a> Frame<'a> {
    pub(super) fn of<L: RowLayout>(node: &Node<'a, L>) -> Self {
        Self {
            level: node.level(),
            generation: node.generation(),
            right: node.right(),
            high: node.high(),
        }
    }

    pub(super) fn fence_len<L: RowLayout>(&self, shape: &Shape<L>) -> usize {
        self.high.filter(|_| shape.keys).map_or(0, |high| high.key.len())
    }
}

/// Writes the header of a node without entries, and its fence's key, to a page of zeros.
pub(super) fn write_header<L: RowLayout>(
    page: &mut [u8],
    shape: &Shape<L>,
    capacity: usize,
    frame: &Frame<'_>,
) {
    let fence_len = frame.fence_len(shape);
    let heap_start = shape.payload_len - fence_len;
    write(page, 0, MAGIC.to_le_bytes());
    page[AT_KIND] = if frame.level == 0 { LEAF } else { BRANCH };
    page[AT_LEVEL] = frame.level;
    write(page, AT_CAPACITY, narrow(capacity).to_le_bytes());
    write(page, AT_GENERATION, frame.generation.to_le_bytes());
    write(page, AT_RIGHT, frame.right.map_or(0, PageId::get).to_le_bytes());
    write(page, AT_TREE, shape.tree.map_or(0, PageId::get).to_le_bytes());
    write(page, AT_HEAP_START, narrow(heap_start).to_le_bytes());
    write(page, AT_FENCE_LEN, narrow(fence_len).to_le_bytes());
    page[AT_FLAGS] = if frame.high.is_some() { HAS_HIGH } else { 0 } | if shape.ties { HAS_TIES } else { 0 };
    if let Some(high) = frame.high {
        write(page, AT_HIGH_PREFIX, high.prefix.to_le_bytes());
        write(page, AT_HIGH_TIE, high.tie.to_le_bytes());
        page[heap_start..].copy_from_slice(&high.key[..fence_len]);
    }
}

/// Marks a page as no longer a node, so that handles that remember it notice.
pub(super) fn write_unlinked(page: &mut [u8]) {
    page[AT_KIND] = UNLINKED;
}

pub(super) fn set_count(page: &mut [u8], count: usize) {
    write(page, AT_COUNT, narrow(count).to_le_bytes());
}

pub(super) fn set_heap(page: &mut [u8], start: usize, len: usize) {
    write(page, AT_HEAP_START, narrow(start).to_le_bytes());
    write(page, AT_HEAP_LEN, narrow(len).to_le_bytes());
}

/// Every offset and count within a page fits in 16 bits, as a payload is shorter than 64 KiB.
#[expect(
    clippy::cast_possible_truncation,
    reason = "callers stay within a payload, which is shorter than 64 KiB"
)]
fn narrow(value: usize) -> u16 {
    debug_assert!(value <= usize::from(u16::MAX), "{value} lies outside of any page");
    value as u16
}

fn u16_at(header: &Header, at: usize) -> u16 {
    u16::from_le_bytes([header[at], header[at + 1]])
}

fn u32_at(header: &Header, at: usize) -> u32 {
    u32::from(u16_at(header, at)) | u32::from(u16_at(header, at + 2)) << 16
}

fn u64_at(header: &Header, at: usize) -> u64 {
    u64::from(u32_at(header, at)) | u64::from(u32_at(header, at + 4)) << 32
}

pub(super) fn write<const N: usize>(page: &mut [u8], at: usize, bytes: [u8; N]) {
    page[at..at + N].copy_from_slice(&bytes);
}
