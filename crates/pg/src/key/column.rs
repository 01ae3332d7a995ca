//! A key column, and its values as bytes: see the module above.

#![expect(unsafe_code, reason = "values come and go as datums")]

use std::borrow::Cow;
use std::cmp::Ordering;

use pgrx::pg_sys;

use super::comparator::Comparator;
use super::kind::Kind;
use super::numeric::{self, Number};
use super::value::{RowMemory, Stored};

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

/// Stands in a payload for decimal places that do not fit into a byte: they follow in two.
const LONG_SCALE: u8 = u8::MAX;

/// How a column's values become bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bytes {
    Number(Kind),
    Uuid,
    Strings,
    Numeric,
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

    pub(super) fn numeric(stored: Stored) -> Self {
        Self::new(Bytes::Numeric, stored)
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

    /// Whether a function compares its values.
    pub(super) fn is_compared(&self) -> bool {
        matches!(self.bytes, Bytes::Compared(_))
    }

    /// Whether its values are equal only where their bytes are.
    pub(super) fn is_equality_of_bytes(&self) -> bool {
        match self.bytes {
            Bytes::Compared(comparator) => comparator.is_equality_of_bytes(),
            _ => true,
        }
    }

    /// Whether its keys do not say its values to the bit.
    pub(super) fn is_in_payload(&self) -> bool {
        matches!(
            self.bytes,
            Bytes::Number(Kind::Float4 | Kind::Float8) | Bytes::Numeric
        )
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
            // SAFETY: the caller's.
            Bytes::Strings => unsafe {
                self.stored.with_bytes(datum, |bytes| {
                    for (at, piece) in bytes.split(|&byte| byte == 0).enumerate() {
                        if at > 0 {
                            out.extend_from_slice(&[0, ESCAPED]);
                        }
                        out.extend_from_slice(piece);
                    }
                });
                out.extend_from_slice(&[0, END]);
            },
            // SAFETY: the caller's.
            Bytes::Numeric => unsafe {
                self.stored
                    .with_bytes(datum, |bytes| numeric::push_key(bytes, out));
            },
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
            Bytes::Numeric => numeric::least_key_len(len_of(self.stored)),
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
            Bytes::Numeric => numeric::key_len(bytes, self.is_descending)?,
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
            // The same bytes are equal by any comparison function.
            (Some(a), Some(b)) if a == b => Ordering::Equal,
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
    pub(super) fn compare_parts(&self, a: Part<'_>, b: Part<'_>) -> Ordering {
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
    pub(super) fn take_value<'k>(&self, key: &mut &'k [u8]) -> Option<&'k [u8]> {
        if let Some((&VALUE, rest)) = key.split_first()
            && let Some(len) = self.len_of(rest)
        {
            return take(key, 1 + len).map(|value| &value[1..]);
        }
        self.take(key);
        None
    }

    /// Appends to a payload what keys do not say of a value, if the column [is in
    /// it](Self::is_in_payload).
    ///
    /// # Safety
    ///
    /// The datum is of the column's type, and not null.
    pub(super) unsafe fn push_inexact(&self, datum: pg_sys::Datum, out: &mut Vec<u8>) {
        match self.bytes {
            Bytes::Number(kind) if self.is_in_payload() => {
                // SAFETY: the caller's; no index is looked at for floating-point numbers.
                let integer = unsafe { kind.integer_of(std::ptr::null_mut(), 0, datum) };
                let begin = out.len();
                out.push(1);
                let mut bytes = Vec::new();
                // SAFETY: the caller's; the datum of the key is one of the type, too.
                unsafe {
                    self.stored.push_bytes(datum, out);
                    self.stored.push_bytes(kind.datum_of(integer), &mut bytes);
                }
                if out[begin + 1..] == bytes {
                    out.truncate(begin);
                    out.push(0);
                }
            }
            Bytes::Numeric => {
                // SAFETY: the caller's.
                let scale = unsafe { self.stored.with_bytes(datum, numeric::scale_of) };
                match u8::try_from(scale) {
                    Ok(scale) if scale != LONG_SCALE => out.push(scale),
                    _ => {
                        out.push(LONG_SCALE);
                        out.extend_from_slice(&scale.to_le_bytes());
                    }
                }
            }
            _ => {}
        }
    }

    /// The value that bytes stand for, in the memory of its row; `None` if they are damaged. Takes
    /// the part of the value that the bytes lack off the beginning of the payload.
    pub(super) fn datum_of(
        &self,
        bytes: &[u8],
        payload: &mut &[u8],
        memory: &mut RowMemory,
    ) -> Option<pg_sys::Datum> {
        let mut bytes = Cow::Borrowed(bytes);
        if self.is_descending {
            self.direct(bytes.to_mut());
        }
        Some(match self.bytes {
            Bytes::Number(kind) => {
                let is_inexact = self.is_in_payload() && take(payload, 1) == Some(&[1]);
                let width = self.stored.width().filter(|_| is_inexact);
                match width.and_then(|width| take(payload, width)) {
                    Some(exact) => self.stored.datum_of(exact, memory),
                    None => kind.datum_of(kind.integer_of_bytes(&bytes)),
                }
            }
            Bytes::Numeric => {
                let scale = match take(payload, 1)? {
                    [LONG_SCALE] => u16::from_le_bytes(*take(payload, 2)?.first_chunk()?),
                    scale => scale[0].into(),
                };
                let number = Number::of_key(&bytes, scale)?;
                self.stored
                    .datum_with(number.stored_len(), memory, |stored| number.put(stored))
            }
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

/// Takes so many bytes off the beginning.
pub(super) fn take<'p>(bytes: &mut &'p [u8], len: usize) -> Option<&'p [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

/// A byte that has a key lie behind all that begin like it.
pub(super) const BEHIND: u8 = ABOVE;
