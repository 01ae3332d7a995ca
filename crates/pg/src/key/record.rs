//! Entries as byte strings, in pages of a head and in temporary files.
//!
//! An integer takes 16 bytes: prefix and tie. Other entries take 2 bytes of the key's length and 2
//! of the payload's, 8 of the tie, key and payload. Numbers are little-endian.

use super::entry::{Entry, EntryRef};
use super::form::Form;

/// Bytes of the record of an integer.
pub(crate) const INTEGER_LEN: usize = 16;
/// Bytes before the key of another entry, which are the fewest that a record has.
pub(crate) const HEADER_LEN: usize = 12;

fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

impl Form {
    /// Bytes of the record of an entry.
    pub(crate) fn record_len(self, entry: &Entry) -> usize {
        match self {
            Self::Integers(_) => INTEGER_LEN,
            Self::Columns(_) => HEADER_LEN + entry.len_bytes(),
        }
    }

    /// Bytes of the record that comes first; `None` if there are too few to tell.
    pub(crate) fn first_record_len(self, records: &[u8]) -> Option<usize> {
        match self {
            Self::Integers(_) => Some(INTEGER_LEN),
            Self::Columns(_) => {
                let header = records.get(..HEADER_LEN)?;
                Some(HEADER_LEN + half(header, 0) + half(header, 2))
            }
        }
    }

    /// Where the tie lies in a record.
    pub(crate) fn tie_at(self) -> usize {
        match self {
            Self::Integers(_) => 8,
            Self::Columns(_) => 4,
        }
    }

    /// Writes the record of an entry, for which there is room.
    pub(crate) fn put_record(self, entry: &Entry, record: &mut [u8]) {
        let EntryRef {
            prefix,
            tie,
            key,
            payload,
        } = entry.borrowed();
        match self {
            Self::Integers(_) => record[..8].copy_from_slice(&prefix.to_le_bytes()),
            Self::Columns(_) => {
                // Longer ones are refused.
                let len_bytes = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_le_bytes();
                record[..2].copy_from_slice(&len_bytes(key));
                record[2..4].copy_from_slice(&len_bytes(payload));
                let (key_to, rest) = record[HEADER_LEN..].split_at_mut(key.len());
                key_to.copy_from_slice(key);
                rest[..payload.len()].copy_from_slice(payload);
            }
        }
        record[self.tie_at()..][..8].copy_from_slice(&tie.to_le_bytes());
    }

    /// The entry of a record; `None` if it is too short for one.
    pub(crate) fn entry_of_record(self, record: &[u8]) -> Option<EntryRef<'_>> {
        let tie = word(record, self.tie_at())?;
        if let Self::Integers(_) = self {
            return Some(EntryRef {
                prefix: word(record, 0)?,
                tie,
                key: &[],
                payload: &[],
            });
        }
        let (key, payload) = record.get(HEADER_LEN..)?.split_at_checked(half(record, 0))?;
        Some(EntryRef {
            prefix: self.prefix(key),
            tie,
            key,
            payload,
        })
    }
}
