//! Where things lie in the pages of a head.

use std::ops::Range;

use bedload_pages::{Error, PageId, Result};

use crate::pages::PAYLOAD;

pub(super) const PAYLOAD_LEN: usize = PAYLOAD.end - PAYLOAD.start;
/// Tags of the two kinds of page, in their first four bytes: of integers, and of other entries.
pub(super) const HEADS: [[u8; 4]; 2] = [*b"bhd1", *b"bhd2"];
pub(super) const FULLS: [[u8; 4]; 2] = [*b"bhf1", *b"bhf2"];

/// Where things lie in a head page.
pub(super) const ENTRIES_AT: usize = 4;
pub(super) const FULL_AT: usize = 8;
/// 1 if the last full page is open, else 0.
pub(super) const OPEN_AT: usize = 12;
pub(super) const DELETIONS_AT: usize = 16;
pub(super) const SLOTS_AT: usize = 24;
pub(super) const SLOT_LEN: usize = 24;
pub(super) const HEAD_DATA_AT: usize = SLOTS_AT + SLOTS * SLOT_LEN;
/// Where stretches end in a full page: [`STRETCHES`] two-byte numbers, zero for missing ones.
pub(super) const ENDS_AT: usize = 8;
pub(super) const FULL_DATA_AT: usize = ENDS_AT + 2 * STRETCHES;

/// The most full pages.
pub(super) const SLOTS: usize = 16;
/// The most stretches of a full page.
pub(super) const STRETCHES: usize = 8;
/// The most bytes of entries of a full page.
pub(super) const FULL_ROOM: usize = PAYLOAD_LEN - FULL_DATA_AT;

/// A full page, as the directory has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) page: PageId,
    /// The least and the greatest key, as prefixes.
    pub(super) keys: (u64, u64),
}

pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

pub(super) fn put_word(bytes: &mut [u8], at: usize, value: usize) {
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// The full pages that a head page names.
pub(super) struct Directory {
    pub(super) slots: Vec<Slot>,
    /// Whether the last one is open.
    pub(super) is_open: bool,
}

impl Directory {
    pub(super) fn read(payload: &[u8], page: PageId) -> Result<Self> {
        let damaged = || Error::Corrupt {
            page,
            reason: "its directory of full pages is impossible",
        };
        let full = usize::try_from(word(payload, FULL_AT)).unwrap_or(usize::MAX);
        if full > SLOTS {
            return Err(damaged());
        }
        let slots = payload[SLOTS_AT..][..full * SLOT_LEN].chunks_exact(SLOT_LEN);
        let decoded = slots.map(|slot| {
            Ok(Slot {
                page: PageId::new(word(slot, 0)).ok_or_else(damaged)?,
                keys: (long(slot, 8), long(slot, 16)),
            })
        });
        Ok(Self {
            slots: decoded.collect::<Result<_>>()?,
            is_open: full > 0 && word(payload, OPEN_AT) == 1,
        })
    }

    pub(super) fn put(&self, payload: &mut [u8]) {
        put_word(payload, FULL_AT, self.slots.len());
        put_word(
            payload,
            OPEN_AT,
            usize::from(self.is_open && !self.slots.is_empty()),
        );
        for (bytes, slot) in payload[SLOTS_AT..].chunks_exact_mut(SLOT_LEN).zip(&self.slots) {
            bytes[..4].copy_from_slice(&slot.page.get().to_le_bytes());
            bytes[4..8].fill(0);
            bytes[8..16].copy_from_slice(&slot.keys.0.to_le_bytes());
            bytes[16..].copy_from_slice(&slot.keys.1.to_le_bytes());
        }
    }

    /// The pages that are not open.
    pub(super) fn sealable(&self) -> &[Slot] {
        &self.slots[..self.slots.len() - usize::from(self.is_open)]
    }
}

/// Where the stretches of a full page end.
pub(super) fn ends_of(payload: &[u8], page: PageId, count: usize) -> Result<Vec<usize>> {
    let (ends, _) = payload[ENDS_AT..FULL_DATA_AT].as_chunks::<2>();
    let ends = ends.iter().map(|&end| usize::from(u16::from_le_bytes(end)));
    let ends: Vec<usize> = ends.take_while(|&end| end > 0).collect();
    if !ends.is_sorted() || ends.last().copied().unwrap_or(0) != count {
        let reason = "its stretches are not those of its entries";
        return Err(Error::Corrupt { page, reason });
    }
    Ok(ends)
}

pub(super) fn put_ends(payload: &mut [u8], ends: &[usize]) {
    for (bytes, &end) in payload[ENDS_AT..FULL_DATA_AT].chunks_exact_mut(2).zip(ends) {
        bytes.copy_from_slice(&u16::try_from(end).unwrap_or(u16::MAX).to_le_bytes());
    }
}

/// The stretches of a full page.
pub(super) fn stretches(
    payload: &[u8],
    page: PageId,
    count: usize,
) -> Result<impl Iterator<Item = Range<usize>>> {
    let mut begin = 0;
    let ends = ends_of(payload, page, count)?;
    Ok(ends
        .into_iter()
        .map(move |end| std::mem::replace(&mut begin, end)..end))
}
