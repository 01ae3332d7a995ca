//! Entries, and their order.

#![expect(unsafe_code, reason = "addresses of rows come as pointers")]

use std::cmp::Ordering;

use bedload_trees::I64Order;
use pgrx::pg_sys;
use triomphe::ThinArc;

use super::column::{Column, Part};
use super::columns::Columns;
use super::value::RowValues;

/// An entry of an index, in its order.
///
/// Its tie is the row's address, 48 bits: block, then offset. The prefix of an integer is the key,
/// as [`I64Order`] has it. A null has the greatest key, and a bit of the tie above every address:
/// so nulls come last, and are part of the same tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entry {
    /// The prefix of its key.
    pub(crate) prefix: u64,
    pub(crate) tie: u64,
    /// Its key and then its payload, unless it is an integer: one allocation, as scans and sorts
    /// have many entries.
    bytes: Option<ThinArc<Described, u8>>,
}

/// How to read the bytes of an entry: its columns, and where the key ends.
#[derive(Debug)]
struct Described {
    columns: &'static Columns,
    key_len: usize,
}

/// Bytes of an entry's key and of its payload; none of an integer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EntryLen {
    pub(crate) key: usize,
    pub(crate) payload: usize,
}

/// An entry as it lies on a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryRef<'p> {
    pub(crate) prefix: u64,
    pub(crate) tie: u64,
    /// Empty, as the payload is, of an integer.
    pub(crate) key: &'p [u8],
    pub(crate) payload: &'p [u8],
}

/// Bytes of memory that an entry takes beside itself and those of its key and payload, if it has
/// any.
const ALLOCATION_BYTES: usize = 48;

/// Set in the tie of a null.
const NULL: u64 = 1 << 48;
/// The greatest tie that a value has.
const TIE_MAX: u64 = NULL - 1;

impl Entry {
    /// The least position of an integer there is.
    pub(crate) const FIRST: Self = Self::at(0, 0);
    /// The greatest position of a null.
    pub(crate) const LAST: Self = Self::at(u64::MAX, NULL | TIE_MAX);
    /// The least position of a null.
    pub(crate) const FIRST_NULL: Self = Self::at(u64::MAX, NULL);
    /// The greatest position of an integer.
    pub(crate) const LAST_VALUE: Self = Self::at(u64::MAX, TIE_MAX);

    /// An entry whose prefix is its key.
    pub(crate) const fn at(prefix: u64, tie: u64) -> Self {
        Self {
            prefix,
            tie,
            bytes: None,
        }
    }

    /// The entry of an integer, or of a null, of the row at `address`.
    pub(super) fn of_integer(value: Option<i64>, address: u64) -> Self {
        match value {
            Some(value) => Self::at(I64Order::prefix_of(value), address),
            None => Self::at(u64::MAX, NULL | address),
        }
    }

    /// The entry of columns, whose key is the first `key_len` bytes, and its payload the others.
    pub(super) fn of_bytes(columns: &'static Columns, bytes: &[u8], key_len: usize, tie: u64) -> Self {
        let described = Described { columns, key_len };
        Self {
            prefix: columns.prefix(&bytes[..key_len]),
            tie,
            bytes: Some(ThinArc::from_header_and_slice(described, bytes)),
        }
    }

    /// The least position of a key, or of one that begins so.
    pub(super) fn first_of(columns: &'static Columns, key: &[u8]) -> Self {
        Self::of_bytes(columns, key, key.len(), 0)
    }

    /// The greatest position of a key.
    pub(super) fn last_of(columns: &'static Columns, key: &[u8]) -> Self {
        Self::of_bytes(columns, key, key.len(), TIE_MAX)
    }

    /// The greatest position of an integer, by its prefix.
    pub(super) const fn last_of_prefix(prefix: u64) -> Self {
        Self::at(prefix, TIE_MAX)
    }

    /// The entry on its page.
    pub(crate) fn borrowed(&self) -> EntryRef<'_> {
        let (key, payload) = match &self.bytes {
            Some(bytes) => bytes.slice.split_at(bytes.header.header.key_len),
            None => (&[][..], &[][..]),
        };
        EntryRef {
            prefix: self.prefix,
            tie: self.tie,
            key,
            payload,
        }
    }

    /// The columns of its key; none of an integer.
    pub(crate) fn key_columns(&self) -> &'static [Column] {
        self.columns().map_or(&[], Columns::keys)
    }

    fn columns(&self) -> Option<&'static Columns> {
        self.bytes.as_ref().map(|bytes| bytes.header.header.columns)
    }

    /// Puts the values of its columns into `row`; none of an integer.
    pub(super) fn values(&self, row: &mut RowValues) {
        let EntryRef { key, payload, .. } = self.borrowed();
        if let Some(columns) = self.columns() {
            columns.values(key, payload, row);
        }
    }

    /// Bytes of its key and of its payload.
    pub(crate) fn len(&self) -> EntryLen {
        let EntryRef { key, payload, .. } = self.borrowed();
        EntryLen {
            key: key.len(),
            payload: payload.len(),
        }
    }

    /// Bytes of key and payload.
    pub(crate) fn len_bytes(&self) -> usize {
        self.bytes.as_ref().map_or(0, |bytes| bytes.slice.len())
    }

    /// Bytes of memory that it takes beside itself.
    pub(crate) fn bytes_beside(&self) -> usize {
        self.bytes
            .as_ref()
            .map_or(0, |bytes| ALLOCATION_BYTES + bytes.slice.len())
    }

    /// Memory that it takes, in entries of integers.
    pub(crate) fn weight(&self) -> usize {
        1 + self.bytes_beside() / size_of::<Self>()
    }

    /// The key as trees know it, which `scratch` has if the entry is an integer.
    pub(crate) fn key<'s>(&'s self, scratch: &'s mut [u8; 8]) -> &'s [u8] {
        match &self.bytes {
            Some(bytes) => &bytes.slice[..bytes.header.header.key_len],
            None => {
                *scratch = self.prefix.to_be_bytes();
                scratch
            }
        }
    }

    /// The integer; `None` of a null, and of other entries.
    pub(crate) fn integer(&self) -> Option<i64> {
        (self.bytes.is_none() && self.tie & NULL == 0).then(|| I64Order::value_of(self.prefix))
    }

    /// Whether a column of its key is null.
    pub(crate) fn has_null(&self) -> bool {
        let Some(columns) = self.columns() else {
            return self.tie & NULL != 0;
        };
        let mut key = self.borrowed().key;
        let mut columns = columns.keys().iter();
        columns.any(|column| matches!(column.take(&mut key), Part::Null { .. }))
    }

    /// Whether the other has an equal key.
    pub(crate) fn has_key_of(&self, other: &Self) -> bool {
        let tie = |entry: &Self| entry.tie & NULL;
        let (own, others) = (self.at_tie(tie(self)), other.at_tie(tie(other)));
        own == others
    }

    /// The position of its key with another tie.
    fn at_tie(&self, tie: u64) -> Self {
        Self { tie, ..self.clone() }
    }

    /// The first and the last position of its key.
    pub(crate) fn range_of_key(&self) -> (Self, Self) {
        let null = self.tie & NULL;
        (self.at_tie(null), self.at_tie(null | TIE_MAX))
    }

    /// The address of the row as a number, in the order of the rows in the table.
    pub(crate) fn address_bits(&self) -> u64 {
        self.tie & TIE_MAX
    }

    /// The block of the row in its table.
    pub(crate) fn block(&self) -> u32 {
        u32::try_from(self.address_bits() >> 16).unwrap_or(u32::MAX)
    }

    /// The address of the row.
    pub(crate) fn address(&self) -> pg_sys::ItemPointerData {
        let part = |bits: u64| u16::try_from(bits & 0xffff).unwrap_or(u16::MAX);
        let bits = self.address_bits();
        pg_sys::ItemPointerData {
            ip_blkid: pg_sys::BlockIdData {
                bi_hi: part(bits >> 32),
                bi_lo: part(bits >> 16),
            },
            ip_posid: part(bits),
        }
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = self.prefix.cmp(&other.prefix).then_with(|| {
            let (Some(columns), Some(_)) = (self.columns(), &other.bytes) else {
                return Ordering::Equal;
            };
            columns.compare(self.borrowed().key, other.borrowed().key)
        });
        keys.then(self.tie.cmp(&other.tie))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

/// The address of a row as a number, in the order of the rows in the table.
///
/// # Safety
///
/// The pointer is valid.
pub(super) unsafe fn address_of(address: pg_sys::ItemPointer) -> u64 {
    // SAFETY: the caller's.
    let address = unsafe { *address };
    u64::from(address.ip_blkid.bi_hi) << 32
        | u64::from(address.ip_blkid.bi_lo) << 16
        | u64::from(address.ip_posid)
}
