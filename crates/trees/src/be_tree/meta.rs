//! The meta page, by which a tree is named.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | magic `0xBED4` |
//! | 2 | 2 | version of the format, 1 |
//! | 4 | 4 | root, the page of the node at the top |
//! | 8 | 8 | generation of the page |
//! | 16 | 8 | vacuum cycle that was begun last, 0 if none was |
//! | 24 | 4 | bytes of the fixed columns of a row |
//! | 28 | 4 | variable columns |
//! | 32 | 1 | flags: 1 there are ties, 2 pages keep key bytes |
//! | 33 | 7 | zero |

use super::bytes::{Reader, put};
use super::runs::{RowForm, Runs};
use crate::key_order::KeyOrder;
use bedload_pages::{Error, PageId, Result};

const MAGIC: u16 = 0xBED4;
const VERSION: u16 = 1;
const HAS_TIES: u8 = 1;
const HAS_KEYS: u8 = 2;

/// The contents of the meta page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) root: PageId,
    pub(super) generation: u64,
    pub(super) cycle: u64,
    pub(super) shape: Form,
}

/// The parts of a tree's order, layout and options on which its pages depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    row: RowForm,
    flags: u8,
}

impl Form {
    pub(super) fn new(order: &impl KeyOrder, row: RowForm, ties: bool) -> Self {
        let keys = !order.prefix_is_exact();
        Self {
            row,
            flags: if ties { HAS_TIES } else { 0 } | if keys { HAS_KEYS } else { 0 },
        }
    }

    /// Whether it is that of a tree with runs of a kind.
    pub(super) fn fits<O: KeyOrder>(&self, order: &O, kind: &impl Runs<O>, ties: bool) -> bool {
        kind.admits(self.row) && *self == Self::new(order, self.row, ties)
    }
}

impl Meta {
    pub(super) fn decode(page: &[u8], id: PageId) -> Result<Self> {
        let corrupt = |reason| Error::Corrupt { page: id, reason };
        let mut bytes = Reader::new(page);
        if bytes.u16() != Some(MAGIC) {
            return Err(corrupt("it is not the meta page of a Bε-tree"));
        }
        if bytes.u16() != Some(VERSION) {
            return Err(corrupt(
                "its format version is not the one this program knows: rebuild the tree",
            ));
        }
        let mut read = || {
            Some(Self {
                root: PageId::new(bytes.u32()?)?,
                generation: bytes.u64()?,
                cycle: bytes.u64()?,
                shape: Form {
                    row: RowForm {
                        fixed_bytes: bytes.u32()?,
                        variable_columns: bytes.u32()?,
                    },
                    flags: bytes.u8()?,
                },
            })
        };
        read().ok_or_else(|| corrupt("it names no root"))
    }

    pub(super) fn encode(&self, page: &mut [u8]) {
        page.fill(0);
        put(page, 0, &MAGIC.to_le_bytes());
        put(page, 2, &VERSION.to_le_bytes());
        put(page, 4, &self.root.get().to_le_bytes());
        put(page, 8, &self.generation.to_le_bytes());
        put(page, 16, &self.cycle.to_le_bytes());
        put(page, 24, &self.shape.row.fixed_bytes.to_le_bytes());
        put(page, 28, &self.shape.row.variable_columns.to_le_bytes());
        put(page, 32, &[self.shape.flags]);
    }
}
