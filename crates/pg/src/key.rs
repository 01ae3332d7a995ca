//! What stands in the index for a row: its value and its address.
//!
//! An entry's key is a 64-bit integer that stands for the value, in the order of [`I64Order`] ([`Kind`]); its tie is the
//! row's address, 48 bits: block, then offset. A null has the greatest key, and a bit of the tie above every address: so nulls come
//! last, and are part of the same tree.

#![expect(unsafe_code, reason = "addresses of rows come as pointers")]

use bedload_trees::I64Order;
use pgrx::pg_sys;

/// An entry of an index, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Entry {
    /// The prefix, in the sense of [`I64Order`], that is its key.
    pub(crate) prefix: u64,
    pub(crate) tie: u64,
}

/// Set in the tie of a null.
const NULL: u64 = 1 << 48;
/// The greatest tie that a value has.
const TIE_MAX: u64 = NULL - 1;

impl Entry {
    /// The least position there is.
    pub(crate) const FIRST: Self = Self { prefix: 0, tie: 0 };
    /// The greatest position of a null.
    pub(crate) const LAST: Self = Self {
        prefix: u64::MAX,
        tie: NULL | TIE_MAX,
    };
    /// The least position of a null.
    pub(crate) const FIRST_NULL: Self = Self {
        prefix: u64::MAX,
        tie: NULL,
    };
    /// The greatest position of a value.
    pub(crate) const LAST_VALUE: Self = Self {
        prefix: u64::MAX,
        tie: TIE_MAX,
    };

    /// The entry of the row at `address`.
    pub(crate) fn new(value: Option<i64>, address: u64) -> Self {
        match value {
            Some(value) => Self {
                prefix: I64Order::prefix_of(value),
                tie: address,
            },
            None => Self {
                prefix: u64::MAX,
                tie: NULL | address,
            },
        }
    }

    /// The least position of a value.
    pub(crate) fn first_of(value: i64) -> Self {
        Self::new(Some(value), 0)
    }

    /// The greatest position of a value.
    pub(crate) fn last_of(value: i64) -> Self {
        Self::new(Some(value), TIE_MAX)
    }

    /// The value; `None` of a null.
    pub(crate) fn value(self) -> Option<i64> {
        (self.tie & NULL == 0).then(|| I64Order::value_of(self.prefix))
    }

    /// The address of the row as a number, as in [`address_of`].
    pub(crate) fn address_bits(self) -> u64 {
        self.tie & TIE_MAX
    }

    /// The block of the row in its table.
    pub(crate) fn block(self) -> u32 {
        let [_, _, high_1, high_0, low_1, low_0, _, _] = self.address_bits().to_be_bytes();
        u32::from_be_bytes([high_1, high_0, low_1, low_0])
    }

    /// The address of the row.
    pub(crate) fn address(self) -> pg_sys::ItemPointerData {
        let [_, _, high_1, high_0, low_1, low_0, offset_1, offset_0] = self.address_bits().to_be_bytes();
        pg_sys::ItemPointerData {
            ip_blkid: pg_sys::BlockIdData {
                bi_hi: u16::from_be_bytes([high_1, high_0]),
                bi_lo: u16::from_be_bytes([low_1, low_0]),
            },
            ip_posid: u16::from_be_bytes([offset_1, offset_0]),
        }
    }
}

/// The address of a row as a number, in the order of the rows in the table.
fn address_of(address: pg_sys::ItemPointerData) -> u64 {
    u64::from(address.ip_blkid.bi_hi) << 32
        | u64::from(address.ip_blkid.bi_lo) << 16
        | u64::from(address.ip_posid)
}

/// How values of a column become the 64-bit integers of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Signed integers of so many bytes, as the server keeps and compares them.
    Signed(u8),
    /// Unsigned ones.
    Unsigned(u8),
    /// Floating-point numbers of 4 and of 8 bytes: by their bits, so that both zeros are equal, and all that are not numbers
    /// are, which come last.
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
            pg_sys::CHAROID => Some(Self::Unsigned(1)),
            pg_sys::OIDOID => Some(Self::Unsigned(4)),
            pg_sys::PG_LSNOID => Some(Self::Unsigned(8)),
            pg_sys::FLOAT4OID => Some(Self::Float4),
            pg_sys::FLOAT8OID => Some(Self::Float8),
            pg_sys::UUIDOID => Some(Self::Uuid),
            _ => None,
        }
    }

    /// How the values of an index's column are kept; `None` if they cannot be.
    ///
    /// # Safety
    ///
    /// The index is open.
    pub(crate) unsafe fn of_index(index: pg_sys::Relation) -> Option<Self> {
        // SAFETY: the caller's; an index has a column, and room for a support function, if it has none.
        let (of, function) = unsafe { (*(*index).rd_opcintype, *(*index).rd_support) };
        if function == pg_sys::InvalidOid {
            Self::of_type(of)
        } else {
            Some(Self::Hashed)
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
    /// The index is open, and the datum is of this kind and not null.
    unsafe fn integer_of(self, index: pg_sys::Relation, datum: pg_sys::Datum) -> i64 {
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
            // SAFETY: the caller's; the function takes a value of the type and a number, and returns a number.
            Self::Hashed => unsafe {
                let hash = pg_sys::index_getprocinfo(index, 1, HASH_FUNCTION);
                let collation = *(*index).rd_indcollation;
                i64::from_le_bytes(
                    pg_sys::FunctionCall2Coll(hash, collation, datum, pg_sys::Datum::from(0_i64))
                        .value()
                        .to_le_bytes(),
                )
            },
        }
    }

    /// What a column of this kind is compared with, as entries would have it.
    ///
    /// # Safety
    ///
    /// The index is open and its column of this kind; the key has an argument.
    pub(crate) unsafe fn argument_of(self, index: pg_sys::Relation, key: &pg_sys::ScanKeyData) -> i64 {
        let kind = match self {
            Self::Hashed => self,
            _ => Self::of_type(key.sk_subtype).unwrap_or(self),
        };
        // SAFETY: the caller's; operators of other types are of integers with integers, and of floats with floats.
        unsafe { kind.integer_of(index, key.sk_argument) }
    }

    /// The value that an entry stands for, if the kind [is returnable](Self::is_returnable).
    pub(crate) fn datum_of(self, value: i64) -> pg_sys::Datum {
        let bits = match self {
            Self::Unsigned(8) => I64Order::prefix_of(value),
            _ => value.cast_unsigned(),
        };
        pg_sys::Datum::from(bits)
    }
}

/// The support function of an operator class whose values are hashed.
const HASH_FUNCTION: u16 = 1;

/// A number as an integer, in the server's order of such numbers.
fn in_order(value: f64) -> i64 {
    let canonical = if value.is_nan() {
        f64::NAN.abs()
    } else {
        // The sum has both zeros equal.
        value + 0.0
    };
    let bits = canonical.to_bits().cast_signed();
    // Of negative numbers the greater bits are those of lesser numbers.
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// The entry of a row, as PostgreSQL hands it over.
///
/// # Safety
///
/// The index is open. `values` and `nulls` have a first element, the former of the column's type unless it is null, and
/// `address` is valid.
pub(crate) unsafe fn entry_of(
    index: pg_sys::Relation,
    values: *const pg_sys::Datum,
    nulls: *const bool,
    address: pg_sys::ItemPointer,
) -> Entry {
    // SAFETY: the caller's. Where pgrx builds, a datum has eight bytes. An index is built only if its kind is known.
    unsafe {
        let kind = Kind::of_index(index).unwrap_or(Kind::Signed(8));
        let value = (!*nulls).then(|| kind.integer_of(index, *values));
        Entry::new(value, address_of(*address))
    }
}
