//! Types whose values are kept as integers of 64 bits, in their order.

#![expect(unsafe_code, reason = "values come as datums")]

use std::cell::Cell;

use bedload_trees::I64Order;
use pgrx::pg_sys;

use super::support::HASH_FUNCTION;

/// How values of a column become the 64-bit integers of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Signed integers of so many bytes, as the server keeps and compares them.
    Signed(u8),
    /// Unsigned ones.
    Unsigned(u8),
    /// Floating-point numbers of 4 and of 8 bytes: by their bits, so that both zeros are equal, and
    /// all that are not numbers are, which come last.
    Float4,
    Float8,
    /// By their first eight bytes.
    Uuid,
    /// By the hash that the operator class has: equal values have equal hashes.
    Hashed,
}

impl Kind {
    /// How values of a type are kept, if they are in the order of the type.
    pub(crate) fn of_type(of: pg_sys::Oid) -> Option<Self> {
        match of {
            pg_sys::INT2OID => Some(Self::Signed(2)),
            pg_sys::INT4OID | pg_sys::DATEOID => Some(Self::Signed(4)),
            pg_sys::INT8OID
            | pg_sys::TIMEOID
            | pg_sys::TIMESTAMPOID
            | pg_sys::TIMESTAMPTZOID
            | pg_sys::MONEYOID => Some(Self::Signed(8)),
            pg_sys::CHAROID | pg_sys::BOOLOID => Some(Self::Unsigned(1)),
            pg_sys::OIDOID => Some(Self::Unsigned(4)),
            pg_sys::PG_LSNOID => Some(Self::Unsigned(8)),
            pg_sys::FLOAT4OID => Some(Self::Float4),
            pg_sys::FLOAT8OID => Some(Self::Float8),
            pg_sys::UUIDOID => Some(Self::Uuid),
            _ => None,
        }
    }

    /// Whether different values may have equal entries: rows that are found may not match.
    pub(crate) fn is_lossy(self) -> bool {
        matches!(self, Self::Uuid | Self::Hashed)
    }

    /// Whether an entry says which value the row has, to the bit.
    pub(crate) fn is_returnable(self) -> bool {
        matches!(self, Self::Signed(_) | Self::Unsigned(_))
    }

    /// Bytes of a value in a tuple, if the kind [is returnable](Self::is_returnable).
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Signed(width) | Self::Unsigned(width) => width.into(),
            _ => size_of::<pg_sys::Datum>(),
        }
    }

    /// The value as entries have it.
    ///
    /// # Safety
    ///
    /// The index is open, its column of number `attribute` of this kind, and the datum not null.
    pub(super) unsafe fn integer_of(
        self,
        index: pg_sys::Relation,
        attribute: i16,
        datum: pg_sys::Datum,
    ) -> i64 {
        let bytes = datum.value().to_le_bytes();
        let [b0, b1, b2, b3, ..] = bytes;
        match self {
            Self::Signed(2) => i16::from_le_bytes([b0, b1]).into(),
            Self::Signed(4) => i32::from_le_bytes([b0, b1, b2, b3]).into(),
            Self::Signed(_) => i64::from_le_bytes(bytes),
            Self::Unsigned(1) => b0.into(),
            Self::Unsigned(4) => u32::from_le_bytes([b0, b1, b2, b3]).into(),
            Self::Unsigned(_) => I64Order::value_of(u64::from_le_bytes(bytes)),
            // Widening keeps the order, and a value equal to one of the wider type.
            Self::Float4 => in_order(f32::from_le_bytes([b0, b1, b2, b3]).into()),
            Self::Float8 => in_order(f64::from_le_bytes(bytes)),
            // SAFETY: the caller's; such a datum is a pointer to 16 bytes.
            Self::Uuid => unsafe { I64Order::value_of(u64::from_be_bytes(*datum.cast_mut_ptr::<[u8; 8]>())) },
            // SAFETY: the caller's; the function takes a value of the type and a number, and
            // returns a number.
            Self::Hashed => unsafe {
                let hash = pg_sys::index_getprocinfo(index, attribute, HASH_FUNCTION);
                let collation = *(*index).rd_indcollation.offset(isize::from(attribute) - 1);
                let seed = pg_sys::Datum::from(0_i64);
                let hash = in_passing(|| pg_sys::FunctionCall2Coll(hash, collation, datum, seed));
                i64::from_le_bytes(hash.value().to_le_bytes())
            },
        }
    }

    /// The value that a column of this kind is compared with, as entries would have it.
    ///
    /// # Safety
    ///
    /// The index is open and the key's column of this kind; the argument is of the key's type, or
    /// that of an element if it has an array, and not null.
    pub(crate) unsafe fn argument_of(
        self,
        index: pg_sys::Relation,
        key: &pg_sys::ScanKeyData,
        argument: pg_sys::Datum,
    ) -> i64 {
        let kind = match self {
            Self::Hashed => self,
            _ => Self::of_type(key.sk_subtype).unwrap_or(self),
        };
        // SAFETY: the caller's; operators of other types are of integers with integers, and of
        // floats with floats.
        unsafe { kind.integer_of(index, key.sk_attno, argument) }
    }

    /// The value that an integer stands for, if the kind [is returnable](Self::is_returnable) or of
    /// floating-point numbers: of these, one that is equal.
    pub(crate) fn datum_of(self, value: i64) -> pg_sys::Datum {
        match self {
            Self::Unsigned(8) => pg_sys::Datum::from(I64Order::prefix_of(value)),
            Self::Float8 => pg_sys::Datum::from(number_of(value).to_bits()),
            // It was widened, so it fits.
            #[expect(clippy::cast_possible_truncation, reason = "it was a float4 before")]
            Self::Float4 => pg_sys::Datum::from((number_of(value) as f32).to_bits()),
            _ => pg_sys::Datum::from(value.cast_unsigned()),
        }
    }

    /// The least and the greatest integer of a value.
    pub(crate) fn limits(self) -> (i64, i64) {
        match self {
            Self::Signed(width @ 1..8) => {
                let greatest = (1 << (8 * width - 1)) - 1;
                (-greatest - 1, greatest)
            }
            Self::Unsigned(width @ 1..8) => (0, (1 << (8 * width)) - 1),
            _ => (i64::MIN, i64::MAX),
        }
    }

    /// Bytes of an integer in a key.
    pub(super) fn len_bytes(self) -> usize {
        match self {
            Self::Signed(width @ 1..8) | Self::Unsigned(width @ 1..8) => width.into(),
            _ => 8,
        }
    }

    /// Appends the bytes of an integer, which have its order.
    pub(super) fn push_bytes(self, value: i64, out: &mut Vec<u8>) {
        let (least, _) = self.limits();
        let bytes = value.wrapping_sub(least).cast_unsigned().to_be_bytes();
        out.extend_from_slice(&bytes[bytes.len() - self.len_bytes()..]);
    }

    /// The integer of its bytes.
    pub(super) fn integer_of_bytes(self, bytes: &[u8]) -> i64 {
        let mut word = [0; 8];
        let len = bytes.len().min(word.len());
        word[8 - len..].copy_from_slice(&bytes[..len]);
        let (least, _) = self.limits();
        u64::from_be_bytes(word).cast_signed().wrapping_add(least)
    }
}

thread_local! {
    /// The memory context of such calls; null until the first one.
    static PASSING: Cell<pg_sys::MemoryContext> = const { Cell::new(std::ptr::null_mut()) };
}

/// Returns the result of a function of the server that is passed by value, and frees the memory
/// that the function has left allocated. `hash_numeric_extended` leaves a copy of each value with a
/// short header, and all rows of a statement share one memory context.
fn in_passing(call: impl FnOnce() -> pg_sys::Datum) -> pg_sys::Datum {
    // SAFETY: the context stays as long as the process. An error leaves it current, and what
    // catches the error restores its own.
    unsafe {
        if PASSING.get().is_null() {
            PASSING.set(pg_sys::AllocSetContextCreateInternal(
                pg_sys::TopMemoryContext,
                c"bedload hash functions".as_ptr(),
                pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
            ));
        }
        let before = pg_sys::CurrentMemoryContext;
        pg_sys::CurrentMemoryContext = PASSING.get();
        let result = call();
        pg_sys::CurrentMemoryContext = before;
        pg_sys::MemoryContextReset(PASSING.get());
        result
    }
}

/// A number as an integer, in the server's order of such numbers.
fn in_order(value: f64) -> i64 {
    let canonical = if value.is_nan() {
        f64::NAN.abs()
    } else {
        // The sum has both zeros equal.
        value + 0.0
    };
    let bits = canonical.to_bits().cast_signed();
    // The greater bits among negative numbers are those of lesser numbers.
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// The number that stands for an integer: one of those that are equal.
fn number_of(integer: i64) -> f64 {
    let bits = if integer < 0 { integer ^ i64::MAX } else { integer };
    f64::from_bits(bits.cast_unsigned())
}
