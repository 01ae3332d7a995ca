//! Chunks of arrays.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, ByteArrayType, ByteViewType};
use arrow_array::{Array, ArrayRef, BooleanArray, OffsetSizeTrait};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, IntervalUnit, TimeUnit};

use super::summary::{Summary, summary_of_distinct, summary_of_ints, summary_of_reals, summary_of_strings};
use super::{WIDE_AS_BYTES, WIDE_AS_INTEGERS};
use crate::bitmap;
use crate::bounds::Bound;
use crate::error::{Error, Result};
use crate::floats;
use crate::ints::{self, Access};
use crate::limits::MAX_COLUMN_BYTES;
use crate::native::{Narrow, Wide};
use crate::strings;
use crate::types;
use crate::wire::put_counted;

/// Returns the bytes of a column's values in memory.
pub(crate) fn content_bytes(array: &dyn Array) -> usize {
    let rows = array.len();
    match array.data_type() {
        DataType::Utf8 => bytes_between(array.as_string::<i32>().offsets()),
        DataType::LargeUtf8 => bytes_between(array.as_string::<i64>().offsets()),
        DataType::Binary => bytes_between(array.as_binary::<i32>().offsets()),
        DataType::LargeBinary => bytes_between(array.as_binary::<i64>().offsets()),
        DataType::Utf8View => views(array.as_string_view()).iter().map(|view| view.len()).sum(),
        DataType::BinaryView => views(array.as_binary_view()).iter().map(|view| view.len()).sum(),
        DataType::FixedSizeBinary(width) => rows.saturating_mul(usize::try_from(*width).unwrap_or(0)),
        other => rows * other.primitive_width().unwrap_or(1),
    }
}

/// Returns the bytes of all strings together.
fn bytes_between<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> usize {
    offsets[offsets.len() - 1].as_usize() - offsets[0].as_usize()
}

/// Appends the chunk of a column of a supported type and returns its summary.
pub(crate) fn encode(array: &dyn Array, out: &mut Vec<u8>) -> Summary {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    if let Some(nulls) = &nulls {
        let mut validity = Vec::new();
        bitmap::encode(nulls.inner(), &mut validity);
        put_counted(out, &validity);
        if nulls.null_count() == array.len() {
            return Summary::default();
        }
    }
    let nulls = nulls.as_ref();
    by_type!(array.data_type(),
        narrow T => {
            let ordered = filled(array.as_primitive::<T>().values(), nulls, Narrow::ordered);
            ints::encode(&ordered, Access::Any, out);
            summary_of_ints(&ordered, nulls)
        },
        real F => {
            let values = array.as_primitive::<F>().values();
            let filled_values;
            let values = match nulls {
                None => &values[..],
                Some(_) => {
                    filled_values = filled(values, nulls, |value| value);
                    &filled_values
                }
            };
            floats::encode(values, out);
            summary_of_reals(values, nulls)
        },
        wide W => {
            let values = filled(array.as_primitive::<W>().values(), nulls, |value| value);
            encode_wide(&values, nulls, out)
        },
        other => encode_other(array, nulls, out)
    )
}

/// Returns the summary of a column of a supported type, as [`encode`] does.
pub(crate) fn summary(array: &dyn Array) -> Summary {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    if nulls
        .as_ref()
        .is_some_and(|nulls| nulls.null_count() == array.len())
    {
        return Summary::default();
    }
    let nulls = nulls.as_ref();
    by_type!(array.data_type(),
        narrow T => {
            let values = array.as_primitive::<T>().values();
            summary_of_ints(&filled(values, nulls, Narrow::ordered), nulls)
        },
        real F => {
            let values = array.as_primitive::<F>().values();
            summary_of_reals(&filled(values, nulls, |value| value), nulls)
        },
        wide W => {
            let bytes = ordered_bytes(array.as_primitive::<W>().values());
            let ordered: Vec<&[u8]> = bytes.chunks_exact(<W as ArrowPrimitiveType>::Native::BYTES).collect();
            summary_of_strings(&ordered, nulls)
        },
        other => match array.as_boolean_opt() {
            Some(booleans) => summary_of_booleans(booleans, nulls),
            None => summary_of_strings(&filled_strings(array, nulls), nulls),
        }
    )
}

/// Bits of nulls may be any, and are no values of the column.
fn summary_of_booleans(booleans: &BooleanArray, nulls: Option<&NullBuffer>) -> Summary {
    let values: Vec<bool> = booleans.values().iter().collect();
    summary_of_ints(&filled(&values, nulls, i64::from), nulls)
}

fn encode_other(array: &dyn Array, nulls: Option<&NullBuffer>, out: &mut Vec<u8>) -> Summary {
    if let Some(booleans) = array.as_boolean_opt() {
        bitmap::encode(booleans.values(), out);
        return summary_of_booleans(booleans, nulls);
    }
    let strings = filled_strings(array, nulls);
    match strings::encode(&strings, out) {
        Some(distinct) if nulls.is_none() => summary_of_distinct(&distinct),
        _ => summary_of_strings(&strings, nulls),
    }
}

fn encode_wide<W: Wide>(values: &[W], nulls: Option<&NullBuffer>, out: &mut Vec<u8>) -> Summary {
    let ordered = ordered_bytes(values);
    let ordered: Vec<&[u8]> = ordered.chunks_exact(W::BYTES).collect();
    let integers: Option<Vec<i64>> = values.iter().map(|value| value.to_i64()).collect();
    match integers {
        Some(integers) => {
            out.push(WIDE_AS_INTEGERS);
            ints::encode(&integers, Access::Any, out);
        }
        None => {
            out.push(WIDE_AS_BYTES);
            strings::encode(&ordered, out);
        }
    }
    summary_of_strings(&ordered, nulls)
}

/// Returns the bytes of all values, which sort like the numbers.
fn ordered_bytes<W: Wide>(values: &[W]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * W::BYTES);
    for value in values {
        value.put_ordered(&mut bytes);
    }
    bytes
}

/// Returns the values with each null replaced by the value before it or, at the start, by the first
/// value, which costs few bits.
fn filled<N: Copy, V: Copy>(values: &[N], nulls: Option<&NullBuffer>, map: impl Fn(N) -> V) -> Vec<V> {
    let Some(nulls) = nulls else {
        return values.iter().map(|value| map(*value)).collect();
    };
    let first = nulls.valid_indices().next().expect("not all are null");
    let mut last = map(values[first]);
    let value = |(value, valid): (&N, bool)| {
        if valid {
            last = map(*value);
        }
        last
    };
    values.iter().zip(nulls.iter()).map(value).collect()
}

/// Returns the strings of a column; a null repeats the string before it if that is short, else is
/// empty.
fn filled_strings<'a>(array: &'a dyn Array, nulls: Option<&NullBuffer>) -> Vec<&'a [u8]> {
    let mut strings = match array.data_type() {
        DataType::Utf8 => slices(array.as_string::<i32>()),
        DataType::LargeUtf8 => slices(array.as_string::<i64>()),
        DataType::Binary => slices(array.as_binary::<i32>()),
        DataType::LargeBinary => slices(array.as_binary::<i64>()),
        DataType::Utf8View => views(array.as_string_view()),
        DataType::BinaryView => views(array.as_binary_view()),
        _ => {
            let array = array.as_fixed_size_binary();
            (0..array.len()).map(|row| array.value(row)).collect()
        }
    };
    if let Some(nulls) = nulls {
        let fixed = matches!(array.data_type(), DataType::FixedSizeBinary(_));
        let first = strings[nulls.valid_indices().next().expect("not all are null")];
        let mut last: &[u8] = if fixed || first.len() <= 16 { first } else { &[] };
        for (string, valid) in strings.iter_mut().zip(nulls.iter()) {
            if !valid {
                *string = last;
            } else if fixed || string.len() <= 16 {
                last = string;
            }
        }
    }
    strings
}

fn slices<T: ByteArrayType>(array: &arrow_array::GenericByteArray<T>) -> Vec<&[u8]> {
    (0..array.len()).map(|row| array.value(row).as_ref()).collect()
}

fn views<T: ByteViewType + ?Sized>(array: &arrow_array::GenericByteViewArray<T>) -> Vec<&[u8]> {
    (0..array.len()).map(|row| array.value(row).as_ref()).collect()
}

/// Returns each non-null value of `array` as a bound.
pub(crate) fn bounds_of_each(array: &dyn Array) -> Result<Vec<Bound>> {
    let array = unpacked(array, 0)?;
    let rows = (0..array.len())
        .map(|row| array.slice(row, 1))
        .filter(|row| row.null_count() == 0);
    Ok(rows
        .filter_map(|row| encode(&row, &mut Vec::new()).bounds.map(|bounds| bounds.min))
        .collect())
}

/// Returns the array itself, or the values of a dictionary array.
pub(crate) fn unpacked(array: &dyn Array, column: usize) -> Result<ArrayRef> {
    let mut array = array.slice(0, array.len());
    let unsupported = |array: &dyn Array| Error::UnsupportedType {
        column,
        data_type: array.data_type().clone(),
    };
    while let Some(dictionary) = array.as_any_dictionary_opt() {
        let values = arrow_select::take::take(dictionary.values(), dictionary.keys(), None);
        array = values.map_err(|error| match error {
            // Counted up to the first row that does not fit.
            ArrowError::OffsetOverflowError(found) => Error::TooLarge {
                what: "bytes of a column",
                found,
                limit: MAX_COLUMN_BYTES,
            },
            _ => unsupported(&array),
        })?;
    }
    if !types::put(array.data_type(), &mut Vec::new()) {
        return Err(unsupported(&array));
    }
    Ok(array)
}
