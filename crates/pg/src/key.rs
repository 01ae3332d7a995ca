//! What stands in the index for a row: its value and its address.
//!
//! An entry's key is the value as a 64-bit integer, in the order of [`I64Order`]: columns are of types that the server
//! keeps and compares as signed integers of 2, 4 or 8 bytes; its tie is the row's address, 48
//! bits: block, then offset. A null has the greatest key, and a bit of the tie above every address: so nulls come
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

/// The bytes of a value of a type, if its values are signed integers and compared as such.
pub(crate) fn len_of(of: pg_sys::Oid) -> Option<i16> {
    match of {
        pg_sys::INT2OID => Some(2),
        pg_sys::INT4OID | pg_sys::DATEOID => Some(4),
        pg_sys::INT8OID | pg_sys::TIMEOID | pg_sys::TIMESTAMPOID | pg_sys::TIMESTAMPTZOID => Some(8),
        _ => None,
    }
}

/// The value of a datum that has so many bytes.
pub(crate) fn integer_of(datum: pg_sys::Datum, len: i16) -> i64 {
    let bytes = datum.value().to_le_bytes();
    match len {
        2 => i16::from_le_bytes([bytes[0], bytes[1]]).into(),
        4 => i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into(),
        _ => i64::from_le_bytes(bytes),
    }
}

/// The bytes of a value of an index's column.
///
/// # Safety
///
/// The index is open.
pub(crate) unsafe fn column_len(index: pg_sys::Relation) -> i16 {
    // SAFETY: the caller's; an index has a column.
    unsafe { (*(*(*index).rd_att).attrs.as_ptr()).attlen }
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
    // SAFETY: the caller's. Where pgrx builds, a datum has eight bytes, and holds such values by value.
    let (datum, is_null, address, len) = unsafe { (*values, *nulls, *address, column_len(index)) };
    let value = (!is_null).then(|| integer_of(datum, len));
    Entry::new(value, address_of(address))
}
