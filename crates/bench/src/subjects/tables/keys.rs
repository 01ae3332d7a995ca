//! Keys of stores that order bytes: the time, then the number in order of arrival.

use super::super::contract::key_of_time;
pub(super) use super::super::contract::time_of_key as time_of;
use super::readings::RowId;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 12;

/// Returns bytes that sort like rows.
pub(super) fn key_of(id: RowId) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&key_of_time(id.time));
    key[8..].copy_from_slice(&id.arrival.to_be_bytes());
    key
}

/// Returns the least key of a time.
pub(super) fn key_from(time: i64) -> [u8; KEY_BYTES] {
    key_of(RowId { time, arrival: 0 })
}
