//! The entry of a row in an index: of a key, a payload and the address of the row.
//!
//! | | |
//! |---|---|
//! | `entry` | entries, and their order |
//! | `form` | which form the entries of an index have |
//! | `kind` | types whose values are kept as integers of 64 bits |
//! | `record` | entries in pages of a head and in temporary files |
//! | `column` | a key column, and its values as bytes |
//! | `columns` | entries of several columns, or of one that is no integer, as byte strings |
//! | `numeric` | values of `numeric` as bytes in their order |
//! | `value` | values of columns as bytes |
//! | `comparator` | the comparison function of a type |
//!
//! # Two forms
//!
//! An entry of one column that is kept as an integer has no byte string: the integer is its prefix,
//! and pages keep nothing else. All other entries have a key, the values of the key columns one
//! after another:
//!
//! | bytes | |
//! |---|---|
//! | 1 | 0: a null before all values, 1: a value, 2: a null after all values |
//! | … | the value, if there is one |
//!
//! | column | value |
//! |---|---|
//! | integers, times, `bool` | as many bytes as the type has, the greatest first, the sign flipped |
//! | floating-point numbers, hashes | 8 bytes of the integer that stands for them |
//! | `uuid` | 16 bytes |
//! | `bytea`, and text in the order of its bytes | the bytes, a zero as 0 255; then 0 1 |
//! | `numeric` | as `numeric` describes |
//! | others | 2 bytes of length, the greatest first, then the bytes of the type |
//!
//! The bits of values but those of the last line are inverted where a column descends. So keys
//! without such columns have the order of `memcmp`; others are compared column by column, by the
//! functions of the types.
//!
//! A key that ends early sorts before all keys that begin with it, and one that continues with a
//! byte of 255 sorts after them: scans begin and end at these.
//!
//! The payload is what else an index-only scan returns: of each floating-point column 0, or 1 and
//! its bytes where the key does not say its value to the bit; of each `numeric` column the decimal
//! places that the value shows, a byte, or 255 and two bytes, the lowest first; then the columns of
//! `INCLUDE`, each as 0 for a null, or as 1, 2 bytes of length where the type has no fixed width,
//! the lowest first, and the bytes of the type.

mod column;
mod columns;
mod comparator;
mod entry;
mod form;
mod kind;
mod numeric;
mod record;
mod support;
mod value;

pub(crate) use column::{Column, Part};
pub(crate) use entry::{Entry, EntryLen, EntryRef};
pub(crate) use form::{EntryOrder, EntryRow, Form, KeyRange};
pub(crate) use kind::Kind;
pub(crate) use record::{HEADER_LEN as RECORD_HEADER_LEN, INTEGER_LEN};
pub(crate) use support::{COMPARE_FUNCTION, HASH_FUNCTION, SUPPORT_FUNCTIONS};
pub(crate) use value::RowValues;
