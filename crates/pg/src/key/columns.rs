//! Keys of several columns, or of one that is no integer, as byte strings: see the module above.

#![expect(unsafe_code, reason = "values come and go as datums")]

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Ordering;

use pgrx::pg_sys;

use super::comparator::Comparator;
use super::entry::EntryLen;
use super::kind::Kind;
use super::value::{RowMemory, RowValues, Stored};

const NULL_BEFORE: u8 = 0;
const VALUE: u8 = 1;
const NULL_AFTER: u8 = 2;
/// Behind every key that begins like the one before it.
const ABOVE: u8 = 255;

/// Ends a byte string: no other zero is followed by this.
const END: u8 = 1;
/// Bytes of such a zero and what follows it.
const END_LEN: usize = 2;
/// Follows a zero within a byte string.
const ESCAPED: u8 = 255;

/// How a column's values become bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bytes {
    Number(Kind),
    Uuid,
    Strings,
    Compared(&'static Comparator),
}

/// A key column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Column {
    bytes: Bytes,
    stored: Stored,
    is_descending: bool,
    nulls_first: bool,
}

/// The columns of an index.
#[derive(Debug, PartialEq)]
pub(crate) struct Columns {
    keys: Vec<Column>,
    included: Vec<Stored>,
    /// Whether keys have the order of `memcmp`.
    is_plain: bool,
}

/// A column of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'k> {
    /// The key ends before the column.
    End,
    /// A null, and whether it lies behind all values: a key that is no entry's may have one at
    /// either end.
    Null { is_last: bool },
    /// The bytes of a value; those of the key if it ends within them.
    Value(&'k [u8]),
    /// The key lies behind all that begin like it.
    Above,
}

/// Stands for the length of a value that does not fit into two bytes: it follows in eight. Such a
/// value is refused if it is to be stored, but a scan may ask for it.
const LONG: u16 = u16::MAX;

/// Writes the length of a value that begins two bytes behind `begin`, and ends `out`.
fn put_len(out: &mut Vec<u8>, begin: usize) {
    let value = begin + size_of::<u16>();
    let len = out.len() - value;
    let short = u16::try_from(len).ok().filter(|len| *len != LONG);
    out[begin..value].copy_from_slice(&short.unwrap_or(LONG).to_be_bytes());
    if short.is_none() {
        out.splice(value..value, (len as u64).to_be_bytes());
    }
}

/// How many bytes the length of a value takes, and the length; `None` if they end within it.
fn len_at(bytes: &[u8]) -> Option<(usize, usize)> {
    let (len, rest) = bytes.split_first_chunk()?;
    match u16::from_be_bytes(*len) {
        LONG => {
            let len = u64::from_be_bytes(*rest.first_chunk()?);
            Some((size_of::<u16>() + size_of::<u64>(), usize::try_from(len).ok()?))
        }
        len => Some((size_of::<u16>(), len.into())),
    }
}

impl Column {
    pub(super) const fn number(kind: Kind, stored: Stored) -> Self {
        Self::new(Bytes::Number(kind), stored)
    }

    pub(super) fn uuid(stored: Stored) -> Self {
        Self::new(Bytes::Uuid, stored)
    }

    pub(super) fn strings(stored: Stored) -> Self {
        Self::new(Bytes::Strings, stored)
    }

    pub(super) fn compared(comparator: &'static Comparator, stored: Stored) -> Self {
        Self::new(Bytes::Compared(comparator), stored)
    }

    const fn new(bytes: Bytes, stored: Stored) -> Self {
        Self {
            bytes,
            stored,
            is_descending: false,
            nulls_first: false,
        }
    }

    /// The column in another order.
    pub(super) fn ordered(self, is_descending: bool, nulls_first: bool) -> Self {
        Self {
            is_descending,
            nulls_first,
            ..self
        }
    }

    /// How its values are kept as integers, if they are.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match self.bytes {
            Bytes::Number(kind) => Some(kind),
            _ => None,
        }
    }

    pub(crate) fn is_descending(&self) -> bool {
        self.is_descending
    }

    /// Whether different values may have equal bytes: rows that are found may not match.
    pub(crate) fn is_lossy(&self) -> bool {
        self.kind().is_some_and(Kind::is_lossy)
    }

    /// Whether its keys do not say its values to the bit.
    fn is_in_payload(&self) -> bool {
        matches!(self.bytes, Bytes::Number(Kind::Float4 | Kind::Float8))
    }

    /// Inverts the bytes of a value if the column descends.
    fn direct(&self, bytes: &mut [u8]) {
        if self.is_descending && !matches!(self.bytes, Bytes::Compared(_)) {
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// The bytes of an integer.
    pub(crate) fn push_integer(&self, value: i64, out: &mut Vec<u8>) {
        let begin = out.len();
        self.kind().unwrap_or(Kind::Signed(8)).push_bytes(value, out);
        self.direct(&mut out[begin..]);
    }

    /// The bytes of a value, without what says that it is one.
    ///
    /// # Safety
    ///
    /// The index is open, this is its column of number `attribute`, and the datum of its type and
    /// not null.
    pub(crate) unsafe fn push_value(
        &self,
        index: pg_sys::Relation,
        attribute: i16,
        datum: pg_sys::Datum,
        out: &mut Vec<u8>,
    ) {
        let begin = out.len();
        match self.bytes {
            // SAFETY: the caller's.
            Bytes::Number(kind) => kind.push_bytes(unsafe { kind.integer_of(index, attribute, datum) }, out),
            // SAFETY: the caller's.
            Bytes::Uuid => unsafe { self.stored.push_bytes(datum, out) },
            Bytes::Strings => {
                let mut bytes = Vec::new();
                // SAFETY: the caller's.
                unsafe { self.stored.push_bytes(datum, &mut bytes) };
                for byte in bytes {
                    out.push(byte);
                    if byte == 0 {
                        out.push(ESCAPED);
                    }
                }
                out.extend_from_slice(&[0, END]);
            }
            Bytes::Compared(_) => {
                out.extend_from_slice(&[0; 2]);
                // SAFETY: the caller's.
                unsafe { self.stored.push_bytes(datum, out) };
                put_len(out, begin);
            }
        }
        self.direct(&mut out[begin..]);
    }

    /// The fewest bytes that a value takes in a key. It is neither copied nor fetched for that.
    ///
    /// # Safety
    ///
    /// The datum is of the column's type, and not null.
    pub(crate) unsafe fn least_len_of(&self, datum: pg_sys::Datum) -> usize {
        // SAFETY: the caller's.
        let len_of = |stored: Stored| unsafe { stored.len_of(datum) };
        match self.bytes {
            Bytes::Number(kind) => kind.len_bytes(),
            Bytes::Uuid => 16,
            // Both take two bytes more: an end, or a length.
            Bytes::Strings | Bytes::Compared(_) => len_of(self.stored) + 2,
        }
    }

    /// How many of the first bytes are those of a value; `None` if they end within it.
    fn len_of(&self, bytes: &[u8]) -> Option<usize> {
        let len = match self.bytes {
            Bytes::Number(kind) => kind.len_bytes(),
            Bytes::Uuid => 16,
            Bytes::Strings => {
                let mut end = [0, END];
                self.direct(&mut end);
                let mut at = 0;
                loop {
                    at += memchr::memchr(end[0], bytes.get(at..)?)?;
                    if *bytes.get(at + 1)? == end[1] {
                        break at + 2;
                    }
                    at += 2;
                }
            }
            Bytes::Compared(_) => {
                let (len_len, len) = len_at(bytes)?;
                len_len.checked_add(len)?
            }
        };
        (len <= bytes.len()).then_some(len)
    }

    /// Takes the column off the beginning of a key.
    pub(crate) fn take<'k>(&self, key: &mut &'k [u8]) -> Part<'k> {
        let Some((tag, rest)) = key.split_first() else {
            return Part::End;
        };
        match *tag {
            tag @ (NULL_BEFORE | NULL_AFTER) => {
                *key = rest;
                Part::Null {
                    is_last: tag == NULL_AFTER,
                }
            }
            VALUE => {
                let (value, behind) = rest.split_at(self.len_of(rest).unwrap_or(rest.len()));
                *key = behind;
                Part::Value(value)
            }
            _ => {
                *key = &[];
                Part::Above
            }
        }
    }

    /// How the bytes of two values stand to each other in the order of the index.
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let Bytes::Compared(comparator) = self.bytes else {
            return a.cmp(b);
        };
        let value = |bytes| self.compared_value(bytes);
        match (value(a), value(b)) {
            (Some(a), Some(b)) => {
                let order = comparator.compare(self.stored, a, b);
                if self.is_descending {
                    order.reverse()
                } else {
                    order
                }
            }
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }

    /// The bytes of the type; `None` if there are not as many as there should be.
    fn compared_value<'k>(&self, bytes: &'k [u8]) -> Option<&'k [u8]> {
        let (len_len, len) = len_at(bytes)?;
        let value = bytes.get(len_len..)?;
        (len == value.len() && self.stored.fits(value)).then_some(value)
    }

    /// How two columns of keys stand to each other.
    fn compare_parts(&self, a: Part<'_>, b: Part<'_>) -> Ordering {
        let rank = |part: Part<'_>| match part {
            Part::End => 0,
            Part::Null { is_last: false } => 1,
            Part::Value(_) => 2,
            Part::Null { is_last: true } => 3,
            Part::Above => 4,
        };
        match (a, b) {
            (Part::Value(a), Part::Value(b)) => self.compare(a, b),
            _ => rank(a).cmp(&rank(b)),
        }
    }

    /// The tag of a null, or of a value.
    pub(crate) fn tag(&self, is_null: bool) -> u8 {
        match (is_null, self.nulls_first) {
            (false, _) => VALUE,
            (true, true) => NULL_BEFORE,
            (true, false) => NULL_AFTER,
        }
    }

    /// Takes the bytes of a value off the beginning of a key; `None` if there is none, or not all
    /// of it.
    fn take_value<'k>(&self, key: &mut &'k [u8]) -> Option<&'k [u8]> {
        if let Some((&VALUE, rest)) = key.split_first()
            && let Some(len) = self.len_of(rest)
        {
            return take(key, 1 + len).map(|value| &value[1..]);
        }
        self.take(key);
        None
    }

    /// The value of the bytes of one, in the memory of its row; `None` if they are damaged.
    fn datum_of(&self, bytes: &[u8], memory: &mut RowMemory) -> Option<pg_sys::Datum> {
        let mut bytes = Cow::Borrowed(bytes);
        if self.is_descending {
            self.direct(bytes.to_mut());
        }
        Some(match self.bytes {
            Bytes::Number(kind) => kind.datum_of(kind.integer_of_bytes(&bytes)),
            Bytes::Uuid => self.stored.datum_of(&bytes, memory),
            Bytes::Strings => {
                let value = &bytes[..bytes.len().checked_sub(END_LEN)?];
                if !value.contains(&0) {
                    return Some(self.stored.datum_of(value, memory));
                }
                let mut unescaped = Vec::with_capacity(value.len());
                let mut rest = value.iter();
                while let Some(&byte) = rest.next() {
                    unescaped.push(byte);
                    if byte == 0 {
                        rest.next();
                    }
                }
                self.stored.datum_of(&unescaped, memory)
            }
            Bytes::Compared(_) => self.stored.datum_of(self.compared_value(&bytes)?, memory),
        })
    }
}

thread_local! {
    /// The columns of all indexes that this process has used. They stay: indexes with the same
    /// columns share them.
    static COLUMNS: RefCell<Vec<&'static Columns>> = const { RefCell::new(Vec::new()) };
}

impl Columns {
    pub(super) fn new(keys: Vec<Column>, included: Vec<Stored>) -> &'static Self {
        let columns = Self {
            is_plain: !keys.iter().any(|key| matches!(key.bytes, Bytes::Compared(_))),
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

    pub(super) fn is_plain(&self) -> bool {
        self.is_plain
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
                if matches!(column.bytes, Bytes::Compared(_)) {
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
            if let (Some(kind), true, Some(value)) = (column.kind(), column.is_in_payload(), value_at(at)) {
                // SAFETY: the caller's; the index is not looked at for numbers.
                let integer = unsafe { kind.integer_of(index, 0, value) };
                let begin = out.len();
                out.push(1);
                let mut bytes = Vec::new();
                // SAFETY: the caller's; the datum of the key is one of the type, too.
                unsafe {
                    column.stored.push_bytes(value, out);
                    column.stored.push_bytes(kind.datum_of(integer), &mut bytes);
                }
                if out[begin + 1..] == bytes {
                    out.truncate(begin);
                    out.push(0);
                }
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
            let is_inexact = bytes.is_some() && column.is_in_payload() && take(&mut payload, 1) == Some(&[1]);
            let width = column.stored.width().filter(|_| is_inexact);
            let exact = width.and_then(|width| take(&mut payload, width));
            row.push_with(|memory| match exact {
                Some(exact) => Some(column.stored.datum_of(exact, memory)),
                None => bytes.and_then(|bytes| column.datum_of(bytes, memory)),
            });
        }
        for stored in &self.included {
            row.push_with(|memory| take_included(*stored, &mut payload, memory));
        }
    }
}

/// Takes so many bytes off the beginning.
fn take<'p>(bytes: &mut &'p [u8], len: usize) -> Option<&'p [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
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

/// A byte that has a key lie behind all that begin like it.
pub(super) const BEHIND: u8 = ABOVE;
