//! Arrays and values of chunks.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray,
    PrimitiveArray, StringArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::{WIDE_AS_BYTES, WIDE_AS_INTEGERS};
use crate::bitmap::Bitmap;
use crate::bounds::Bound;
use crate::error::{Error, Result, damaged};
use crate::floats::{Floats, Real};
use crate::ints::Ints;
use crate::native::{Narrow, Wide};
use crate::strings::{Strings, StringsDecoded};
use crate::value::Value;
use crate::wire::Bytes;

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
