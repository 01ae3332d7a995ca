//! The columns of an index, and the keys and payloads of its rows: see the module above.

#![expect(unsafe_code, reason = "values come and go as datums")]

use std::cell::RefCell;
use std::cmp::Ordering;

use bedload_trees::{ByteOrder, KeyOrder};
use pgrx::pg_sys;

use super::column::{Column, take};
use super::entry::EntryLen;
use super::value::{RowMemory, RowValues, Stored};

/// The columns of an index.
#[derive(Debug, PartialEq)]
pub(crate) struct Columns {
    keys: Vec<Column>,
    included: Vec<Stored>,
    /// Whether keys have the order of `memcmp`.
    is_plain: bool,
    /// Whether keys are equal only where their bytes are, so that they can be hashed.
    is_equality_of_bytes: bool,
}

thread_local! {
    /// The columns of all indexes that this process has used. They stay: indexes with the same
    /// columns share them.
    static COLUMNS: RefCell<Vec<&'static Columns>> = const { RefCell::new(Vec::new()) };
}

impl Columns {
    pub(super) fn new(keys: Vec<Column>, included: Vec<Stored>) -> &'static Self {
        let columns = Self {
            is_plain: !keys.iter().any(Column::is_compared),
            is_equality_of_bytes: keys.iter().all(Column::is_equality_of_bytes),
            keys,
            included,
        };
        let known = COLUMNS.with_borrow(|all| all.iter().find(|known| ***known == columns).copied());
        known.unwrap_or_else(|| {
            let columns: &Self = Box::leak(Box::new(columns));
            COLUMNS.with_borrow_mut(|all| all.push(columns));
            columns
        })
    }

    /// The key columns.
    pub(crate) fn keys(&self) -> &[Column] {
        &self.keys
    }

    pub(super) fn has_payload(&self) -> bool {
        !self.included.is_empty() || self.keys.iter().any(Column::is_in_payload)
    }

    pub(super) fn has_hashes(&self) -> bool {
        self.is_equality_of_bytes
    }

    /// A hash of a key, which equal keys share; `None` if they may differ in their bytes.
    pub(super) fn hash(&self, key: &[u8]) -> Option<u64> {
        self.has_hashes().then(|| ByteOrder.hash(key)).flatten()
    }

    pub(super) fn compare(&self, mut a: &[u8], mut b: &[u8]) -> Ordering {
        if self.is_plain {
            return a.cmp(b);
        }
        for column in &self.keys {
            let order = column.compare_parts(column.take(&mut a), column.take(&mut b));
            if order.is_ne() || (a.is_empty() && b.is_empty()) {
                return order;
            }
        }
        a.cmp(b)
    }

    /// The first bytes of a key, as far as they have the order of `memcmp`.
    pub(super) fn prefix(&self, key: &[u8]) -> u64 {
        let mut plain_len = key.len().min(size_of::<u64>());
        if !self.is_plain {
            let mut rest = key;
            for column in &self.keys {
                if column.is_compared() {
                    plain_len = plain_len.min(key.len() - rest.len() + 1);
                    break;
                }
                column.take(&mut rest);
            }
        }
        let mut first = [0; size_of::<u64>()];
        first[..plain_len].copy_from_slice(&key[..plain_len]);
        u64::from_be_bytes(first)
    }

    /// The fewest bytes that key and payload of a row take.
    ///
    /// # Safety
    ///
    /// The arrays have the values of an index with these columns.
    pub(super) unsafe fn least_len_of_row(
        &self,
        values: *const pg_sys::Datum,
        nulls: *const bool,
    ) -> EntryLen {
        // SAFETY: the caller's.
        let value_at = |at: usize| unsafe { (!*nulls.add(at)).then(|| *values.add(at)) };
        let mut len = EntryLen::default();
        for (at, column) in self.keys.iter().enumerate() {
            len.key += 1;
            if let Some(value) = value_at(at) {
                // SAFETY: the caller's.
                len.key += unsafe { column.least_len_of(value) };
                len.payload += usize::from(column.is_in_payload());
            }
        }
        for (at, stored) in self.included.iter().enumerate() {
            len.payload += 1;
            if let Some(value) = value_at(self.keys.len() + at) {
                // SAFETY: the caller's.
                len.payload += stored.len_len() + unsafe { stored.len_of(value) };
            }
        }
        len
    }

    /// Appends key and payload of a row; returns the length of the key.
    ///
    /// # Safety
    ///
    /// The index is open and has these columns, and the arrays have their values.
    pub(super) unsafe fn push_row(
        &self,
        index: pg_sys::Relation,
        values: *const pg_sys::Datum,
        nulls: *const bool,
        out: &mut Vec<u8>,
    ) -> usize {
        // SAFETY: the caller's.
        let value_at = |at: usize| unsafe { (!*nulls.add(at)).then(|| *values.add(at)) };
        for ((at, column), attribute) in self.keys.iter().enumerate().zip(1..) {
            let value = value_at(at);
            out.push(column.tag(value.is_none()));
            if let Some(value) = value {
                // SAFETY: the caller's.
                unsafe { column.push_value(index, attribute, value, out) };
            }
        }
        let key_len = out.len();
        for (at, column) in self.keys.iter().enumerate() {
            if let Some(value) = value_at(at) {
                // SAFETY: the caller's.
                unsafe { column.push_inexact(value, out) };
            }
        }
        for (at, stored) in self.included.iter().enumerate() {
            let value = value_at(self.keys.len() + at);
            out.push(value.is_some().into());
            let Some(value) = value else { continue };
            let begin = out.len();
            let len_len = stored.len_len();
            out.resize(begin + len_len, 0);
            // SAFETY: the caller's.
            unsafe { stored.push_bytes(value, out) };
            // A longer one is refused for its length.
            let len = u16::try_from(out.len() - begin - len_len).unwrap_or(u16::MAX);
            out[begin..begin + len_len].copy_from_slice(&len.to_le_bytes()[..len_len]);
        }
        key_len
    }

    /// Puts the values of an entry into `row`, in place of those that it has. Values that a damaged
    /// entry lacks are null.
    pub(super) fn values(&self, mut key: &[u8], mut payload: &[u8], row: &mut RowValues) {
        let columns = self.keys.len() + self.included.len();
        row.begin(columns, key.len() + payload.len());
        for column in &self.keys {
            let bytes = column.take_value(&mut key).filter(|_| !column.is_lossy());
            row.push_with(|memory| column.datum_of(bytes?, &mut payload, memory));
        }
        for stored in &self.included {
            row.push_with(|memory| take_included(*stored, &mut payload, memory));
        }
    }
}

/// Takes a column of `INCLUDE` off the beginning of a payload; `None` of a null.
fn take_included(stored: Stored, payload: &mut &[u8], memory: &mut RowMemory) -> Option<pg_sys::Datum> {
    if take(payload, 1)? == [0] {
        return None;
    }
    let len = match stored.width() {
        Some(width) => width,
        None => usize::from(u16::from_le_bytes(*take(payload, 2)?.first_chunk()?)),
    };
    take(payload, len).map(|bytes| stored.datum_of(bytes, memory))
}
