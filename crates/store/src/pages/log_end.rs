//! How far the log was durable when the store was closed. Format: docs/format.md, "Log end".
//!
//! The log never ends before that position again, or before the `log_start` of a later checkpoint.
//! So the record is never taken back, and may be written in place: if the write is cut short,
//! nothing is known.

use super::superblock::SUPERBLOCK_BYTES;
use crate::codec::{Reader, Writer};

/// Offset in the data file: in a block of its own, so that a write of it harms nothing else.
pub(super) const LOG_END_OFFSET: u64 = SUPERBLOCK_BYTES as u64;
/// Bytes of the record; the rest of its block is zero.
pub(super) const LOG_END_BYTES: usize = 20;
const BLOCK_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"bedend\n\0";

/// The block with the record.
pub(super) fn encode(log_end: u64) -> Vec<u8> {
    let mut out = Writer::with_capacity(BLOCK_BYTES);
    out.bytes(&MAGIC);
    out.u64(log_end);
    let mut bytes = out.into_bytes();
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.resize(BLOCK_BYTES, 0);
    bytes
}

/// The position that a record names; none if it is not whole.
pub(super) fn decode(bytes: &[u8; LOG_END_BYTES]) -> Option<u64> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    let mut fields = Reader::new(body);
    let is_whole = fields.array() == Some(MAGIC) && crc32c::crc32c(body) == u32::from_le_bytes(*crc);
    fields.u64().filter(|_| is_whole)
}
