//! Converts one column of a leaf between an Arrow array and a chunk.

mod summary;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ByteArrayType, ByteViewType, Date32Type, Date64Type, Decimal32Type, Decimal64Type,
    Decimal128Type, Decimal256Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray,
    OffsetSizeTrait, PrimitiveArray, StringArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

pub(crate) use self::summary::Summary;
use self::summary::{summary_of_distinct, summary_of_ints, summary_of_reals, summary_of_strings};
use crate::bitmap::{self, Bitmap};
use crate::bounds::{Bound, is_narrow};
use crate::error::{Error, Result, damaged};
use crate::floats::{self, Floats, Real};
use crate::ints::{self, Access, Ints};
use crate::native::{Narrow, Wide};
use crate::strings::{self, Strings, StringsDecoded};
use crate::types;
use crate::value::Value;
use crate::wire::{Bytes, put_counted};

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
                type $T = Int8Type;
                $narrow
            }
            DataType::Int16 => {
                type $T = Int16Type;
                $narrow
            }
            DataType::Int32 => {
                type $T = Int32Type;
                $narrow
            }
            DataType::Int64 => {
                type $T = Int64Type;
                $narrow
            }
            DataType::UInt8 => {
                type $T = UInt8Type;
                $narrow
            }
            DataType::UInt16 => {
                type $T = UInt16Type;
                $narrow
            }
            DataType::UInt32 => {
                type $T = UInt32Type;
                $narrow
            }
            DataType::UInt64 => {
                type $T = UInt64Type;
                $narrow
            }
            DataType::Float16 => {
                type $T = Float16Type;
                $narrow
            }
            DataType::Date32 => {
                type $T = Date32Type;
                $narrow
            }
            DataType::Date64 => {
                type $T = Date64Type;
                $narrow
            }
            DataType::Time32(TimeUnit::Second) => {
                type $T = Time32SecondType;
                $narrow
            }
            DataType::Time32(TimeUnit::Millisecond) => {
                type $T = Time32MillisecondType;
                $narrow
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                type $T = Time64MicrosecondType;
                $narrow
            }
            DataType::Time64(TimeUnit::Nanosecond) => {
                type $T = Time64NanosecondType;
                $narrow
            }
            DataType::Duration(TimeUnit::Second) => {
                type $T = DurationSecondType;
                $narrow
            }
            DataType::Duration(TimeUnit::Millisecond) => {
                type $T = DurationMillisecondType;
                $narrow
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                type $T = DurationMicrosecondType;
                $narrow
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                type $T = DurationNanosecondType;
                $narrow
            }
            DataType::Timestamp(TimeUnit::Second, _) => {
                type $T = TimestampSecondType;
                $narrow
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                type $T = TimestampMillisecondType;
                $narrow
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                type $T = TimestampMicrosecondType;
                $narrow
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                type $T = TimestampNanosecondType;
                $narrow
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                type $T = IntervalYearMonthType;
                $narrow
            }
            DataType::Decimal32(..) => {
                type $T = Decimal32Type;
                $narrow
            }
            DataType::Decimal64(..) => {
                type $T = Decimal64Type;
                $narrow
            }
            DataType::Float32 => {
                type $F = Float32Type;
                $real
            }
            DataType::Float64 => {
                type $F = Float64Type;
                $real
            }
            DataType::Decimal128(..) => {
                type $W = Decimal128Type;
                $wide
            }
            DataType::Decimal256(..) => {
                type $W = Decimal256Type;
                $wide
            }
            _ => $other,
        }
    };
}

/// Returns whether bounds of a column of this type can be cut off.
pub(crate) fn is_text_or_bytes(data_type: &DataType) -> bool {
    !is_narrow(data_type) && !matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..))
}

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
        array = values.map_err(|_| unsupported(&array))?;
    }
    if !types::put(array.data_type(), &mut Vec::new()) {
        return Err(unsupported(&array));
    }
    Ok(array)
}

/// A column's chunk and its directory entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) data_type: &'a DataType,
    pub(crate) rows: usize,
    pub(crate) nulls: usize,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// Returns the bitmap of non-null rows, if some are null, and the bytes of the values.
    fn validity(&self) -> Result<(Option<Bitmap<'a>>, &'a [u8])> {
        let mut bytes = Bytes::new(self.bytes);
        if self.nulls == 0 {
            return Ok((None, self.bytes));
        }
        let validity = Bitmap::parse(self.rows, bytes.counted()?)?;
        Ok((Some(validity), bytes.rest()))
    }

    /// Verifies that no value is valid if all are said to be null; otherwise decoding tells.
    pub(crate) fn check_nulls(&self) -> Result<()> {
        if self.rows == 0 || self.nulls < self.rows {
            return Ok(());
        }
        match self.validity()? {
            (Some(validity), []) if validity.decode(0..self.rows)?.count_set_bits() == 0 => Ok(()),
            _ => damaged("a column has other nulls than its directory says"),
        }
    }

    /// Returns the ticks of a column of times without nulls; `None` if it is another one.
    pub(crate) fn ticks(&self) -> Result<Option<Ints<'a>>> {
        if self.nulls > 0 || !matches!(self.data_type, DataType::Timestamp(..)) {
            return Ok(None);
        }
        Ints::parse(self.rows, self.bytes).map(Some)
    }

    /// Returns the values of `rows`, which must lie within the chunk.
    pub(crate) fn decode(&self, rows: Range<usize>) -> Result<ArrayRef> {
        if self.nulls == self.rows {
            return Ok(arrow_array::new_null_array(self.data_type, rows.len()));
        }
        let (validity, bytes) = self.validity()?;
        let nulls = match validity {
            Some(validity) => {
                let nulls = NullBuffer::new(validity.decode(rows.clone())?);
                if nulls.len() == self.rows && nulls.null_count() != self.nulls {
                    return damaged("the nulls of a column are not as many as the directory says");
                }
                Some(nulls).filter(|nulls| nulls.null_count() > 0)
            }
            None => None,
        };
        by_type!(self.data_type,
            narrow T => {
                let mut values = Vec::with_capacity(rows.len());
                Ints::parse(self.rows, bytes)?.for_each(rows, |ordered| narrowed(ordered, &mut values))?;
                Ok(Arc::new(self.primitive::<T>(values, nulls)))
            },
            real F => {
                type Native = <F as ArrowPrimitiveType>::Native;
                let values = Floats::parse::<Native>(self.rows, bytes)?.decode::<Native>(rows)?;
                Ok(Arc::new(self.primitive::<F>(values, nulls)))
            },
            wide W => {
                let values = self.decode_wide(bytes, rows)?;
                Ok(Arc::new(self.primitive::<W>(values, nulls)))
            },
            other => self.decode_other(bytes, rows, nulls)
        )
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        values: Vec<T::Native>,
        nulls: Option<NullBuffer>,
    ) -> PrimitiveArray<T> {
        PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls).with_data_type(self.data_type.clone())
    }

    fn decode_wide<W: Wide>(&self, bytes: &[u8], rows: Range<usize>) -> Result<Vec<W>> {
        let mut bytes = Bytes::new(bytes);
        match bytes.u8()? {
            WIDE_AS_INTEGERS => {
                let integers = Ints::parse(self.rows, bytes.rest())?.decode(rows)?;
                Ok(integers.into_iter().map(W::from_i64).collect())
            }
            WIDE_AS_BYTES => {
                let strings = Strings::parse(self.rows, bytes.rest())?.decode(rows)?;
                strings.check_widths(W::BYTES)?;
                let values = strings
                    .bytes
                    .chunks_exact(W::BYTES)
                    .map(W::from_ordered)
                    .collect();
                Option::ok_or(
                    values,
                    Error::Damaged {
                        what: "a decimal has too few bytes",
                    },
                )
            }
            _ => damaged("a column of decimals is of an unknown kind"),
        }
    }

    fn decode_other(&self, bytes: &[u8], rows: Range<usize>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        if *self.data_type == DataType::Boolean {
            let bits = Bitmap::parse(self.rows, bytes)?.decode(rows)?;
            return Ok(Arc::new(BooleanArray::new(bits, nulls)));
        }
        let strings = Strings::parse(self.rows, bytes)?.decode(rows)?;
        if let DataType::FixedSizeBinary(width) = self.data_type {
            strings.check_widths(usize::try_from(*width).or(damaged("a width is negative"))?)?;
            let array = FixedSizeBinaryArray::try_new(*width, Buffer::from_vec(strings.bytes), nulls);
            return Ok(Arc::new(
                array.or(damaged("strings of a fixed size have others"))?,
            ));
        }
        strings.into_array(self.data_type, nulls)
    }

    /// Returns the value of one row, which must lie within the chunk.
    pub(crate) fn value_at(&self, row: usize) -> Result<Value> {
        if self.nulls == self.rows {
            return Ok(Value::Null);
        }
        let (validity, bytes) = self.validity()?;
        if let Some(validity) = validity
            && !validity.get(row)?
        {
            return Ok(Value::Null);
        }
        by_type!(self.data_type,
            narrow T => narrow_value::<<T as ArrowPrimitiveType>::Native>(Ints::parse(self.rows, bytes)?.get(row)?),
            real F => {
                type Native = <F as ArrowPrimitiveType>::Native;
                Ok(Floats::parse::<Native>(self.rows, bytes)?.get::<Native>(row)?.into())
            },
            wide W => {
                let mut bytes = Bytes::new(bytes);
                if bytes.u8()? == WIDE_AS_INTEGERS {
                    let integer = Ints::parse(self.rows, bytes.rest())?.get(row)?;
                    return Ok(<W as ArrowPrimitiveType>::Native::from_i64(integer).into());
                }
                wide_value::<<W as ArrowPrimitiveType>::Native>(&Strings::parse(self.rows, bytes.rest())?.get(row)?)
            },
            other => self.other_value(bytes, row)
        )
    }

    fn other_value(&self, bytes: &[u8], row: usize) -> Result<Value> {
        if *self.data_type == DataType::Boolean {
            return Ok(Value::Boolean(Bitmap::parse(self.rows, bytes)?.get(row)?));
        }
        string_value(self.data_type, Strings::parse(self.rows, bytes)?.get(row)?)
    }
}

/// Converts a bound to a value of the column.
pub(crate) fn value_of_bound(data_type: &DataType, bound: &Bound) -> Result<Value> {
    match bound {
        Bound::Int(int) => by_type!(data_type,
            narrow T => narrow_value::<<T as ArrowPrimitiveType>::Native>(*int),
            real F => {
                let value = <F as ArrowPrimitiveType>::Native::from_ordered(*int);
                value.map(Value::from).ok_or(Error::Damaged { what: "a bound is out of range" })
            },
            wide W => wide_value::<<W as ArrowPrimitiveType>::Native>(&int.to_be_bytes()),
            other => Ok(Value::Boolean(*int != 0))
        ),
        Bound::Bytes(bytes) => match data_type {
            DataType::Decimal128(..) => wide_value::<i128>(bytes),
            DataType::Decimal256(..) => wide_value::<i256>(bytes),
            _ => string_value(data_type, bytes.clone()),
        },
    }
}

fn narrow_value<N: Narrow + Into<Value>>(ordered: i64) -> Result<Value> {
    N::from_ordered(ordered).map(N::into).ok_or(OUT_OF_RANGE)
}

fn wide_value<W: Wide + Into<Value>>(bytes: &[u8]) -> Result<Value> {
    W::from_ordered(bytes).map(W::into).ok_or(OUT_OF_RANGE)
}

fn string_value(data_type: &DataType, bytes: Vec<u8>) -> Result<Value> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match String::from_utf8(bytes) {
            Ok(text) => Ok(Value::Text(text)),
            Err(_) => damaged("text is not UTF-8"),
        },
        DataType::FixedSizeBinary(width) if usize::try_from(*width) != Ok(bytes.len()) => {
            damaged("strings of a fixed size have others")
        }
        _ => Ok(Value::Bytes(bytes)),
    }
}

const OUT_OF_RANGE: Error = Error::Damaged {
    what: "a number is out of the range of its type",
};

/// Appends integers as a narrower type; all must be in its range.
fn narrowed<N: Narrow + Default>(ordered: &[i64], values: &mut Vec<N>) -> Result<()> {
    let mut sound = true;
    values.extend(ordered.iter().map(|ordered| {
        let value = N::from_ordered(*ordered);
        sound &= value.is_some();
        value.unwrap_or_default()
    }));
    if sound { Ok(()) } else { Err(OUT_OF_RANGE) }
}

impl StringsDecoded {
    fn check_widths(&self, width: usize) -> Result<()> {
        let mut widths = self.offsets.windows(2).map(|pair| pair[1] - pair[0]);
        if widths.all(|found| usize::try_from(found) == Ok(width)) {
            return Ok(());
        }
        damaged("strings of a fixed size have others")
    }

    fn into_array(self, data_type: &DataType, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let large =
            |offsets: &[i32]| OffsetBuffer::new(offsets.iter().map(|offset| i64::from(*offset)).collect());
        let bytes = Buffer::from_vec(self.bytes);
        let array: std::result::Result<ArrayRef, _> = match data_type {
            DataType::Utf8 | DataType::Utf8View => {
                StringArray::try_new(OffsetBuffer::new(self.offsets.into()), bytes, nulls).map(|array| {
                    if *data_type == DataType::Utf8 {
                        return Arc::new(array) as ArrayRef;
                    }
                    let mut views = StringViewBuilder::with_capacity(array.len());
                    array.iter().for_each(|text| views.append_option(text));
                    Arc::new(views.finish())
                })
            }
            DataType::LargeUtf8 => LargeStringArray::try_new(large(&self.offsets), bytes, nulls)
                .map(|array| Arc::new(array) as _),
            DataType::LargeBinary => LargeBinaryArray::try_new(large(&self.offsets), bytes, nulls)
                .map(|array| Arc::new(array) as _),
            _ => BinaryArray::try_new(OffsetBuffer::new(self.offsets.into()), bytes, nulls).map(|array| {
                if *data_type == DataType::Binary {
                    return Arc::new(array) as ArrayRef;
                }
                let mut views = BinaryViewBuilder::with_capacity(array.len());
                array.iter().for_each(|bytes| views.append_option(bytes));
                Arc::new(views.finish())
            }),
        };
        array.or(damaged("text is not UTF-8"))
    }
}
