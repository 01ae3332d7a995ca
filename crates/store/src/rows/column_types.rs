//! The types that columns of tables have, and those of batches that become one of them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, StringArray, make_array};
use arrow_schema::{ArrowError, DataType, IntervalUnit, TimeUnit};
use arrow_select::take::take;

use crate::error::{Error, Result};

/// Bytes that values of a column of byte strings of one width may have.
const BINARY_BYTES: RangeInclusive<usize> = 1..=4096;

/// How many bytes the values of a column have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueWidth {
    Bit,
    Bytes(usize),
    Variable,
}

impl ValueWidth {
    /// The width of a type's values; `None` if tables do not store it.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Boolean => Some(Self::Bit),
            DataType::Utf8 | DataType::Binary => Some(Self::Variable),
            DataType::FixedSizeBinary(width) => {
                let width = usize::try_from(*width).ok()?;
                BINARY_BYTES.contains(&width).then_some(Self::Bytes(width))
            }
            DataType::Decimal32(precision, scale) => decimal(*precision, *scale, 9, 4),
            DataType::Decimal64(precision, scale) => decimal(*precision, *scale, 18, 8),
            DataType::Decimal128(precision, scale) => decimal(*precision, *scale, 38, 16),
            DataType::Decimal256(precision, scale) => decimal(*precision, *scale, 76, 32),
            DataType::Interval(unit) if *unit != IntervalUnit::YearMonth => None,
            DataType::Time32(TimeUnit::Microsecond | TimeUnit::Nanosecond)
            | DataType::Time64(TimeUnit::Second | TimeUnit::Millisecond) => None,
            other => other.primitive_width().map(Self::Bytes),
        }
    }
}

fn decimal(precision: u8, scale: i8, precision_max: u8, bytes: usize) -> Option<ValueWidth> {
    let is_known = (1..=precision_max).contains(&precision) && i16::from(scale) <= i16::from(precision);
    is_known.then_some(ValueWidth::Bytes(bytes))
}

/// The type that a table stores for columns of a type: text and bytes of every layout become one,
/// dictionaries what they stand for, and a time zone without a name none.
pub(crate) fn stored_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::LargeUtf8 | DataType::Utf8View => &DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => &DataType::Binary,
        DataType::Dictionary(_, values) => stored_type(values),
        DataType::Timestamp(unit, Some(zone)) if zone.is_empty() => match unit {
            TimeUnit::Second => &DataType::Timestamp(TimeUnit::Second, None),
            TimeUnit::Millisecond => &DataType::Timestamp(TimeUnit::Millisecond, None),
            TimeUnit::Microsecond => &DataType::Timestamp(TimeUnit::Microsecond, None),
            TimeUnit::Nanosecond => &DataType::Timestamp(TimeUnit::Nanosecond, None),
        },
        other => other,
    }
}

/// The batch with its columns in the types that tables store; `None` if they are already.
///
/// # Errors
///
/// The text or the bytes of a column are more than 2 GiB.
pub(crate) fn to_stored(batch: &RecordBatch) -> Result<Option<RecordBatch>> {
    let same = |column: &ArrayRef| std::ptr::eq(stored_type(column.data_type()), column.data_type());
    if batch.columns().iter().all(same) {
        return Ok(None);
    }
    let columns = batch.columns().iter().map(stored_array).collect::<Result<_>>()?;
    let fields = batch.schema_ref().fields().iter().map(|field| {
        let stored = field.as_ref().clone();
        stored.with_data_type(stored_type(field.data_type()).clone())
    });
    let schema = arrow_schema::Schema::new(fields.collect::<Vec<_>>());
    let batch = RecordBatch::try_new(Arc::new(schema), columns);
    batch.map(Some).map_err(|error| Error::schema(error.to_string()))
}

/// Bytes of the values of a column whose type addresses more than that of the table. A slice is
/// measured, not what it is a part of, and rows without a value take none.
fn long_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::LargeUtf8 => between_ends(array.as_string::<i64>().value_offsets()),
        DataType::LargeBinary => between_ends(array.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => lengths_of_valid(array, array.as_string_view().lengths()),
        DataType::BinaryView => lengths_of_valid(array, array.as_binary_view().lengths()),
        _ => 0,
    }
}

fn between_ends(offsets: &[i64]) -> usize {
    let ends = offsets.first().zip(offsets.last());
    ends.map_or(0, |(first, last)| {
        usize::try_from(last - first).unwrap_or(usize::MAX)
    })
}

fn lengths_of_valid(array: &ArrayRef, lengths: impl Iterator<Item = u32>) -> usize {
    let lengths = lengths.enumerate();
    lengths
        .filter(|(row, _)| array.is_valid(*row))
        .map(|(_, len)| len as usize)
        .sum()
}

fn stored_array(array: &ArrayRef) -> Result<ArrayRef> {
    let too_large = |len_bytes| Error::TooLarge {
        what: "a column of one batch".into(),
        len_bytes,
        limit_bytes: i32::MAX as usize,
    };
    let bytes = long_bytes(array);
    if i32::try_from(bytes).is_err() {
        return Err(too_large(bytes));
    }
    Ok(match array.data_type() {
        DataType::LargeUtf8 => Arc::new(array.as_string::<i64>().iter().collect::<StringArray>()),
        DataType::Utf8View => Arc::new(array.as_string_view().iter().collect::<StringArray>()),
        DataType::LargeBinary => Arc::new(array.as_binary::<i64>().iter().collect::<BinaryArray>()),
        DataType::BinaryView => Arc::new(array.as_binary_view().iter().collect::<BinaryArray>()),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = stored_array(dictionary.values())?;
            let rows = take(&values, dictionary.keys(), None);
            rows.map_err(|error| match error {
                // Counted up to the first row that does not fit.
                ArrowError::OffsetOverflowError(bytes) => too_large(bytes),
                other => Error::schema(other.to_string()),
            })?
        }
        DataType::Timestamp(..) => {
            let stored = stored_type(array.data_type()).clone();
            let data = array.to_data().into_builder().data_type(stored).build();
            make_array(data.map_err(|error| Error::schema(error.to_string()))?)
        }
        _ => array.clone(),
    })
}
