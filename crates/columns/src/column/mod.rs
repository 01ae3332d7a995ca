//! Converts one column of a leaf between an Arrow array and a chunk.

use arrow_schema::DataType;

use crate::bounds::is_narrow;

/// Numbers of more than 64 bits are stored as integers if all fit; else as byte strings.
const WIDE_AS_INTEGERS: u8 = 0;
const WIDE_AS_BYTES: u8 = 1;

/// Evaluates the expression for the type's kind, with `$T` the Arrow type of numbers stored as
/// integers, `$F` that of floats, and so on.
macro_rules! by_type {
    ($data_type:expr, narrow $T:ident => $narrow:expr, real $F:ident => $real:expr, wide $W:ident => $wide:expr,
     other => $other:expr) => {
        match $data_type {
            DataType::Int8 => {
                type $T = arrow_array::types::Int8Type;
                $narrow
            }
            DataType::Int16 => {
                type $T = arrow_array::types::Int16Type;
                $narrow
            }
            DataType::Int32 => {
                type $T = arrow_array::types::Int32Type;
                $narrow
            }
            DataType::Int64 => {
                type $T = arrow_array::types::Int64Type;
                $narrow
            }
            DataType::UInt8 => {
                type $T = arrow_array::types::UInt8Type;
                $narrow
            }
            DataType::UInt16 => {
                type $T = arrow_array::types::UInt16Type;
                $narrow
            }
            DataType::UInt32 => {
                type $T = arrow_array::types::UInt32Type;
                $narrow
            }
            DataType::UInt64 => {
                type $T = arrow_array::types::UInt64Type;
                $narrow
            }
            DataType::Float16 => {
                type $T = arrow_array::types::Float16Type;
                $narrow
            }
            DataType::Date32 => {
                type $T = arrow_array::types::Date32Type;
                $narrow
            }
            DataType::Date64 => {
                type $T = arrow_array::types::Date64Type;
                $narrow
            }
            DataType::Time32(TimeUnit::Second) => {
                type $T = arrow_array::types::Time32SecondType;
                $narrow
            }
            DataType::Time32(TimeUnit::Millisecond) => {
                type $T = arrow_array::types::Time32MillisecondType;
                $narrow
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                type $T = arrow_array::types::Time64MicrosecondType;
                $narrow
            }
            DataType::Time64(TimeUnit::Nanosecond) => {
                type $T = arrow_array::types::Time64NanosecondType;
                $narrow
            }
            DataType::Duration(TimeUnit::Second) => {
                type $T = arrow_array::types::DurationSecondType;
                $narrow
            }
            DataType::Duration(TimeUnit::Millisecond) => {
                type $T = arrow_array::types::DurationMillisecondType;
                $narrow
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                type $T = arrow_array::types::DurationMicrosecondType;
                $narrow
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                type $T = arrow_array::types::DurationNanosecondType;
                $narrow
            }
            DataType::Timestamp(TimeUnit::Second, _) => {
                type $T = arrow_array::types::TimestampSecondType;
                $narrow
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                type $T = arrow_array::types::TimestampMillisecondType;
                $narrow
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                type $T = arrow_array::types::TimestampMicrosecondType;
                $narrow
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                type $T = arrow_array::types::TimestampNanosecondType;
                $narrow
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                type $T = arrow_array::types::IntervalYearMonthType;
                $narrow
            }
            DataType::Decimal32(..) => {
                type $T = arrow_array::types::Decimal32Type;
                $narrow
            }
            DataType::Decimal64(..) => {
                type $T = arrow_array::types::Decimal64Type;
                $narrow
            }
            DataType::Float32 => {
                type $F = arrow_array::types::Float32Type;
                $real
            }
            DataType::Float64 => {
                type $F = arrow_array::types::Float64Type;
                $real
            }
            DataType::Decimal128(..) => {
                type $W = arrow_array::types::Decimal128Type;
                $wide
            }
            DataType::Decimal256(..) => {
                type $W = arrow_array::types::Decimal256Type;
                $wide
            }
            _ => $other,
        }
    };
}

// After the macro, which they use.
mod decode;
mod encode;
mod summary;

pub(crate) use decode::{Chunk, value_of_bound};
pub(crate) use encode::{bounds_of_each, content_bytes, encode, summary, unpacked};

/// Returns whether bounds of a column of this type can be cut off.
pub(crate) fn is_text_or_bytes(data_type: &DataType) -> bool {
    !is_narrow(data_type) && !matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..))
}
