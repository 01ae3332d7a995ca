//! One value of a column, outside any array.

use arrow_buffer::i256;
use half::f16;

/// One value of a column, as returned by [`LeafReader::value_at`](crate::LeafReader::value_at) and
/// [`ColumnDirectory::bounds`](crate::ColumnDirectory::bounds).
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array};
/// use bedload_columns::{EncodeOptions, LeafReader, Value, encode};
///
/// let column: ArrayRef = Arc::new(Float64Array::from(vec![Some(21.57), None]));
/// let leaf = LeafReader::open(encode(&[column], &EncodeOptions::default())?.bytes)?;
/// assert_eq!(leaf.value_at(0, 0)?, Value::Float64(21.57));
/// assert_eq!(leaf.value_at(0, 1)?, Value::Null);
/// # Ok::<(), bedload_columns::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Null,
    /// A value of a column of booleans.
    Boolean(bool),
    /// A value of a column of signed integers, dates, times, durations, year-month intervals,
    /// timestamps, or decimals of 32 or 64 bits: the number that Arrow's array holds.
    Int(i64),
    /// A value of a column of unsigned integers.
    UInt(u64),
    /// A value of a column of `Float16`.
    Float16(f16),
    /// A value of a column of `Float32`.
    Float32(f32),
    /// A value of a column of `Float64`.
    Float64(f64),
    /// A value of a column of `Decimal128`: the number without its scale.
    Decimal128(i128),
    /// A value of a column of `Decimal256`: the number without its scale.
    Decimal256(i256),
    /// A value of a column of text.
    Text(String),
    /// A value of a column of bytes.
    Bytes(Vec<u8>),
}

macro_rules! into_value {
    ($($native:ty => $variant:ident),*) => {$(
        impl From<$native> for Value {
            fn from(native: $native) -> Self {
                Self::$variant(native.into())
            }
        }
    )*};
}

into_value!(
    i8 => Int, i16 => Int, i32 => Int, i64 => Int, u8 => UInt, u16 => UInt, u32 => UInt, u64 => UInt,
    f16 => Float16, f32 => Float32, f64 => Float64, i128 => Decimal128, i256 => Decimal256
);
