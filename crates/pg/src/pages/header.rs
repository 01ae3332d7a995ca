//! The bytes of a page that are the store's own.
//!
//! ```text
//! 0       24                                   8168            8192
//! ├ header ┼ payload ──────────────────────────┼ life ──────────┤
//! ```
//!
//! The header is PostgreSQL's `PageHeaderData`. The bytes between its `pd_lower` and `pd_upper` are
//! not logged, and zero after a replay: so a page that batches write has no such gap, as a tree may
//! use all of its payload, and a page of a run has one behind its payload.
//!
//! The life of a page, in its special space: which life it is, what the page is in it, and since
//! when.

use std::ops::Range;

use bedload_pages::{Error, PageId, Result};
use pgrx::pg_sys;

/// Bytes of a page.
pub(crate) const PAGE_LEN: usize = pg_sys::BLCKSZ as usize;
/// Bytes before the payload: `PageHeaderData`, which ends aligned to 8.
const HEADER_LEN: usize = size_of::<pg_sys::PageHeaderData>();
/// Bytes behind the payload.
pub(super) const LIFE_LEN: usize = 24;
const LIFE_AT: usize = PAGE_LEN - LIFE_LEN;
/// Bytes that a tree may use in a page.
pub(crate) const PAYLOAD_LEN: usize = LIFE_AT - HEADER_LEN;
/// Where the payload lies in a page.
pub(crate) const PAYLOAD: Range<usize> = HEADER_LEN..LIFE_AT;

/// Marks a page as ours, in the last two bytes, where other access methods keep their marks too.
const MARK: u16 = 0xbed1;

const PD_LOWER: usize = std::mem::offset_of!(pg_sys::PageHeaderData, pd_lower);
const PD_UPPER: usize = std::mem::offset_of!(pg_sys::PageHeaderData, pd_upper);

const _: () = assert!(HEADER_LEN == 24 && PAYLOAD_LEN.is_multiple_of(8));

/// The role of a page in its present life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum State {
    /// Given back unwritten.
    Free = 1,
    /// Handed out, and not written yet.
    Reserved = 2,
    /// Written by batches.
    Node = 3,
    /// Written by a run writer, and by nobody since.
    Run = 4,
    /// Unreachable since the transaction id of its stamp.
    Retired = 5,
    /// The page that names the tree.
    Meta = 6,
    /// As `Retired`, and was of a run.
    RetiredRun = 7,
}

impl State {
    /// Whether the page holds what a run writer has written.
    pub(crate) fn is_run(self) -> bool {
        matches!(self, Self::Run | Self::RetiredRun)
    }
}

/// A page's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    /// Greater than that of every earlier life of the page that was written.
    pub(crate) generation: u64,
    /// The next full transaction id when the page came into its state.
    pub(crate) stamp: u64,
    pub(crate) state: State,
}

/// Whether nothing was ever written to the page.
pub(crate) fn is_new(page: &[u8]) -> bool {
    number(page, PD_UPPER) == 0
}

/// The life of a page; `None` if it is not a page of ours.
pub(crate) fn life(page: &[u8]) -> Option<Life> {
    if is_new(page) || number(page, PAGE_LEN - 2) != MARK {
        return None;
    }
    let state = match number(page, PAGE_LEN - 4) {
        1 => State::Free,
        2 => State::Reserved,
        3 => State::Node,
        4 => State::Run,
        5 => State::Retired,
        6 => State::Meta,
        7 => State::RetiredRun,
        _ => return None,
    };
    Some(Life {
        generation: long(page, LIFE_AT),
        stamp: long(page, LIFE_AT + 8),
        state,
    })
}

/// Where the log record of the last logged change of the page ends.
pub(super) fn version(page: &[u8]) -> u64 {
    // `PageXLogRecPtr`: the upper half first, whatever the order of bytes.
    let half = |at: usize| {
        u64::from(u32::from_ne_bytes([
            page[at],
            page[at + 1],
            page[at + 2],
            page[at + 3],
        ]))
    };
    half(0) << 32 | half(4)
}

/// Notes where the log record of a change of the page ends.
pub(super) fn set_version(page: &mut [u8], end: u64) {
    let [a, b, c, d, lower @ ..] = end.to_be_bytes();
    page[..4].copy_from_slice(&u32::from_be_bytes([a, b, c, d]).to_ne_bytes());
    page[4..8].copy_from_slice(&u32::from_be_bytes(lower).to_ne_bytes());
}

/// The life of the page, which a tree has asked for.
pub(super) fn life_of(page: &[u8], id: PageId) -> Result<Life> {
    life(page).ok_or(Error::Corrupt {
        page: id,
        reason: "it is not a page of a bedload index",
    })
}

pub(crate) fn set_life(page: &mut [u8], life: Life) {
    page[LIFE_AT..LIFE_AT + 8].copy_from_slice(&life.generation.to_ne_bytes());
    page[LIFE_AT + 8..LIFE_AT + 16].copy_from_slice(&life.stamp.to_ne_bytes());
    page[LIFE_AT + 16..PAGE_LEN - 4].fill(0);
    page[PAGE_LEN - 4..PAGE_LEN - 2].copy_from_slice(&(life.state as u16).to_ne_bytes());
    page[PAGE_LEN - 2..].copy_from_slice(&MARK.to_ne_bytes());
}

/// Declares the first `len` bytes of the payload to be in use, and the others to be zero, as they
/// are.
pub(crate) fn set_used(page: &mut [u8], len: usize) {
    let end = if len == PAYLOAD_LEN {
        LIFE_AT
    } else {
        HEADER_LEN + len
    };
    let end = u16::try_from(end).expect("an offset in a page");
    page[PD_LOWER..PD_LOWER + 2].copy_from_slice(&end.to_ne_bytes());
}

fn number(page: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([page[at], page[at + 1]])
}

fn long(page: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(*page[at..].first_chunk().expect("eight bytes of a page"))
}
