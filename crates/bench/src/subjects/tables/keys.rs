//! Keys of stores that order bytes: the time, and the number in the order of arrival.

use super::readings::RowId;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 12;

/// Bytes that sort as rows do.
pub(super) fn key_of(id: RowId) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&(id.time.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    key[8..].copy_from_slice(&id.arrival.to_be_bytes());
    key
}

/// The least key of a time.
pub(super) fn key_from(time: i64) -> [u8; KEY_BYTES] {
    key_of(RowId { time, arrival: 0 })
}

/// The time of a key.
pub(super) fn time_of(key: &[u8]) -> i64 {
    (u64::from_be_bytes(*key.first_chunk().expect("a key begins with 8 bytes")) ^ (1 << 63)).cast_signed()
}
