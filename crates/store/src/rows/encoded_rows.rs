//! Rows as the log has them: the buffers of their columns, end to end. Format: docs/format.md,
//! "Rows of a record".

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, downcast_primitive, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use bedload_trees::RowLayout;

use super::schema::{ColumnPlace, TableSchema};
use super::variable::{Variable, variable_array};
use crate::codec::Reader;

/// Each buffer begins at a multiple of this, so that arrays can use it in place.
pub(super) const BUFFER_ALIGNMENT: usize = 8;
/// Bytes before the headers of columns, and of each of them.
pub(super) const HEADER_BYTES: usize = 8;
pub(super) const COLUMN_HEADER_BYTES: usize = 8;

/// Encoded rows of a batch, in the order in which they arrived.
///
/// Decoded arrays share this memory: a batch is copied once, from the caller's arrays to here.
#[derive(Debug, Clone)]
pub(crate) struct EncodedRows {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) bytes: Buffer,
}

impl EncodedRows {
    /// The rows of a batch that has the columns of a table. `memory` is used again, whatever it
    /// holds.
    pub(crate) fn encode(schema: &TableSchema, batch: &RecordBatch, memory: MutableBuffer) -> Self {
        Self::encode_columns(schema, batch.columns(), batch.num_rows(), memory)
    }

    /// Rows that have the columns of a table.
    pub(crate) fn of_columns(schema: &TableSchema, columns: &[ArrayRef]) -> Self {
        let rows = columns.first().map_or(0, |column| column.len());
        Self::encode_columns(schema, columns, rows, MutableBuffer::new(0))
    }

    fn encode_columns(
        schema: &TableSchema,
        arrays: &[ArrayRef],
        rows: usize,
        mut memory: MutableBuffer,
    ) -> Self {
        memory.clear();
        let columns = schema.places().iter().zip(arrays);
        let lens = columns.clone().map(|(layout, array)| {
            let validity = array.nulls().filter(|nulls| nulls.null_count() > 0);
            let values = match layout.place {
                ColumnPlace::Time => rows * size_of::<i64>(),
                ColumnPlace::Bit(_) => rows.div_ceil(8),
                ColumnPlace::Fixed { width, .. } => rows * width,
                ColumnPlace::Variable(_) => variable(array).bytes(),
            };
            (validity.map_or(0, |_| rows.div_ceil(8)), values)
        });
        let headers = HEADER_BYTES + COLUMN_HEADER_BYTES * arrays.len();
        let padded = |len: usize| len.next_multiple_of(BUFFER_ALIGNMENT);
        let buffers: usize = lens.clone().map(|(v, n)| padded(v) + padded(n)).sum();
        memory.reserve(headers + buffers + schema.layout().variable_columns() * padded(4 * (rows + 1)));
        memory.push(len32(rows));
        memory.push(len32(arrays.len()));
        for (validity, values) in lens {
            memory.push(len32(validity));
            memory.push(len32(values));
        }
        for (layout, array) in columns {
            let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
            if let Some(nulls) = nulls {
                push_bits(&mut memory, nulls.inner());
            }
            match layout.place {
                ColumnPlace::Time => push_fixed(&mut memory, array, size_of::<i64>(), nulls),
                ColumnPlace::Bit(_) => {
                    let values = array.as_boolean().values();
                    match nulls {
                        Some(nulls) => push_bits(&mut memory, &(values & nulls.inner())),
                        None => push_bits(&mut memory, values),
                    }
                }
                ColumnPlace::Fixed { width, .. } => push_fixed(&mut memory, array, width, nulls),
                ColumnPlace::Variable(_) => push_variable(&mut memory, variable(array)),
            }
        }
        Self {
            rows,
            columns: arrays.len(),
            bytes: memory.into(),
        }
    }

    /// Encoded rows that take all of some bytes, or what is wrong with them. Columns are looked at
    /// by [`decode`](Self::decode), which knows their types.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut fields = Reader::new(bytes);
        let counts = fields.u32().zip(fields.u32()).ok_or(CUT_SHORT)?;
        // Aligned memory: a position in the log is not aligned.
        let mut memory = MutableBuffer::new(bytes.len());
        memory.extend_from_slice(bytes);
        Ok(Self {
            rows: counts.0 as usize,
            columns: counts.1 as usize,
            bytes: memory.into(),
        })
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Returns the bytes for the log.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The memory, unless arrays use it.
    pub(crate) fn into_memory(self) -> Option<MutableBuffer> {
        self.bytes.into_mutable().ok()
    }

    /// The columns of a table with this schema, or what is wrong with them. Columns that were
    /// added to the table later are null.
    pub(crate) fn decode(&self, schema: &TableSchema) -> Result<Vec<ArrayRef>, &'static str> {
        if self.columns > schema.places().len() {
            return Err("its rows do not have the columns of their table");
        }
        let mut fields = Reader::new(&self.bytes);
        fields.bytes(HEADER_BYTES).ok_or(CUT_SHORT)?;
        let mut lens = Vec::with_capacity(self.columns);
        for _ in 0..self.columns {
            let (validity, values) = fields.u32().zip(fields.u32()).ok_or(CUT_SHORT)?;
            lens.push((validity as usize, values as usize));
        }
        let mut buffers = Buffers {
            bytes: &self.bytes,
            at: HEADER_BYTES + COLUMN_HEADER_BYTES * self.columns,
        };
        let mut arrays = Vec::with_capacity(self.columns);
        for ((layout, field), lens) in schema.places().iter().zip(schema.arrow().fields()).zip(lens) {
            let nulls = match lens.0 {
                0 => None,
                len if len == self.rows.div_ceil(8) && layout.valid_bit.is_some() => Some(NullBuffer::new(
                    BooleanBuffer::new(buffers.take(len)?, 0, self.rows),
                )),
                _ => return Err("its rows have no value where one is required"),
            };
            arrays.push(self.array(field.data_type(), layout.place, lens.1, nulls, &mut buffers)?);
        }
        if buffers.at < self.bytes.len() {
            return Err("its rows are followed by something else");
        }
        schema.fill_up(arrays, self.rows)
    }

    /// A column whose values have so many bytes.
    fn array(
        &self,
        kind: &DataType,
        place: ColumnPlace,
        len: usize,
        nulls: Option<NullBuffer>,
        buffers: &mut Buffers<'_>,
    ) -> Result<ArrayRef, &'static str> {
        let rows = self.rows;
        let expected = match place {
            ColumnPlace::Time => rows.checked_mul(size_of::<i64>()),
            ColumnPlace::Bit(_) => Some(rows.div_ceil(8)),
            ColumnPlace::Fixed { width, .. } => rows.checked_mul(width),
            ColumnPlace::Variable(_) => Some(len),
        };
        if expected != Some(len) {
            return Err("its columns do not have the values of their rows");
        }
        Ok(match place {
            ColumnPlace::Bit(_) => {
                let values = BooleanBuffer::new(buffers.take(len)?, 0, rows);
                Arc::new(BooleanArray::new(values, nulls))
            }
            ColumnPlace::Variable(_) => {
                let ends = rows
                    .checked_add(1)
                    .and_then(|ends| ends.checked_mul(4))
                    .ok_or(CUT_SHORT)?;
                let ends: ScalarBuffer<i32> = buffers.take(ends)?.into();
                let ascend = ends.windows(2).all(|pair| pair[0] <= pair[1]);
                let is_whole = ends[0] == 0 && usize::try_from(ends[rows]).is_ok_and(|end| end == len);
                if !(ascend && is_whole) {
                    return Err("its text does not fit its rows");
                }
                let array = variable_array(kind, OffsetBuffer::new(ends), buffers.take(len)?, nulls);
                array.map_err(|_| "its text is not UTF-8")?
            }
            ColumnPlace::Time | ColumnPlace::Fixed { .. } => {
                let data = ArrayData::builder(kind.clone())
                    .len(rows)
                    .add_buffer(buffers.take(len)?)
                    .nulls(nulls)
                    // Wide decimals need more alignment than buffers have.
                    .align_buffers(true)
                    .build();
                make_array(data.map_err(|_| "its values do not fit their columns")?)
            }
        })
    }
}

const CUT_SHORT: &str = "its rows are cut short";

/// Buffers that were not taken yet.
struct Buffers<'b> {
    bytes: &'b Buffer,
    at: usize,
}

impl Buffers<'_> {
    fn take(&mut self, len: usize) -> Result<Buffer, &'static str> {
        let end = len
            .checked_next_multiple_of(BUFFER_ALIGNMENT)
            .and_then(|len| self.at.checked_add(len))
            .filter(|&end| end <= self.bytes.len())
            .ok_or(CUT_SHORT)?;
        let buffer = self.bytes.slice_with_length(self.at, len);
        self.at = end;
        Ok(buffer)
    }
}

pub(super) fn len32(len: usize) -> u32 {
    u32::try_from(len).expect("the log refuses records of 1 GiB, and no array of a longer batch fits one")
}

pub(super) fn pad(memory: &mut MutableBuffer) {
    memory.resize(memory.len().next_multiple_of(BUFFER_ALIGNMENT), 0);
}

pub(super) fn push_bits(memory: &mut MutableBuffer, bits: &BooleanBuffer) {
    memory.extend_from_slice(&bits.sliced()[..bits.len().div_ceil(8)]);
    // Bits of a slice's neighbours do not belong to these rows.
    let used = bits.len() % 8;
    if used > 0
        && let Some(last) = memory.as_slice_mut().last_mut()
    {
        *last &= (1 << used) - 1;
    }
    pad(memory);
}

/// Values of a fixed width; where there is none, zero.
fn push_fixed(memory: &mut MutableBuffer, array: &ArrayRef, width: usize, nulls: Option<&NullBuffer>) {
    let begin = memory.len();
    with_fixed_values(array, width, |values| {
        memory.extend_from_slice(&values[..array.len() * width]);
    });
    if let Some(nulls) = nulls {
        let values = memory.as_slice_mut()[begin..].chunks_exact_mut(width);
        for (value, is_valid) in values.zip(nulls.iter()) {
            if !is_valid {
                value.fill(0);
            }
        }
    }
    pad(memory);
}

/// Hands on the values of a column of this width. Primitive arrays need no [`ArrayData`] for it,
/// which costs several times as much as copying one value.
fn with_fixed_values(array: &ArrayRef, width: usize, take: impl FnOnce(&[u8])) {
    macro_rules! primitive {
        ($type:ty) => {
            take(array.as_primitive::<$type>().values().inner())
        };
    }
    downcast_primitive! {
        array.data_type() => (primitive),
        _ => {
            let data = array.to_data();
            take(&data.buffers()[0][data.offset() * width..]);
        }
    }
}

/// A column of a type of variable length.
fn variable(array: &ArrayRef) -> Variable<'_> {
    Variable::of(&**array).expect("a variable column is one of text or of bytes")
}

fn push_variable(memory: &mut MutableBuffer, column: Variable<'_>) {
    let ends = column.ends();
    memory.push(0_i32);
    if column.has_all() {
        memory.extend(ends[1..].iter().map(|end| end - ends[0]));
        pad(memory);
        memory.extend_from_slice(column.values());
    } else {
        let rows = 0..ends.len() - 1;
        let mut end = 0;
        for row in rows.clone() {
            end += column.get(row).map_or(0, |_| ends[row + 1] - ends[row]);
            memory.push(end);
        }
        pad(memory);
        let values = rows.filter_map(|row| column.get(row));
        values.for_each(|value| memory.extend_from_slice(value));
    }
    pad(memory);
}

#[cfg(test)]
pub(super) mod tests {
    use std::ops::Range;

    use arrow_array::types::{
        ArrowPrimitiveType, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
        DurationMicrosecondType, IntervalYearMonthType, Time32MillisecondType, Time64NanosecondType,
    };
    use arrow_array::{
        BinaryArray, Date32Array, Decimal256Array, FixedSizeBinaryArray, Float32Array, Float64Array,
        Int8Array, Int16Array, Int32Array, Int64Array, PrimitiveArray, StringArray,
        TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
        UInt8Array, UInt16Array, UInt32Array, UInt64Array,
    };

    use arrow_buffer::i256;

    use super::*;
    use crate::rows::SortedRows;

    /// A column of a type of numbers.
    fn number<T: ArrowPrimitiveType<Native: From<u8>>>(
        numbers: impl Iterator<Item = Option<u8>>,
    ) -> ArrayRef {
        let natives = numbers.map(|number| number.map(T::Native::from));
        Arc::new(natives.collect::<PrimitiveArray<T>>())
    }

    /// A column of each type for the rows of some numbers; every third has no value.
    fn column_of_each_type(numbers: Range<u8>) -> Vec<(&'static str, ArrayRef)> {
        let some = |number: u8| (!number.is_multiple_of(3)).then_some(number);
        let numbers = || numbers.clone().map(some);
        let wide = |width: i32| -> ArrayRef {
            let bytes = usize::try_from(width).expect("small");
            let values = numbers().map(|number| number.map(|number| vec![number; bytes]));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, width).expect("of a width"))
        };
        let ticks = || numbers().map(|number| number.map(i64::from));
        let texts = || numbers().map(|number| number.map(|number| "é".repeat(usize::from(number))));
        vec![
            (
                "bool",
                Arc::new(numbers().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()),
            ),
            (
                "int8",
                Arc::new(numbers().map(|n| n.map(u8::cast_signed)).collect::<Int8Array>()),
            ),
            (
                "int16",
                Arc::new(numbers().map(|n| n.map(i16::from)).collect::<Int16Array>()),
            ),
            (
                "int32",
                Arc::new(numbers().map(|n| n.map(i32::from)).collect::<Int32Array>()),
            ),
            ("int64", Arc::new(ticks().collect::<Int64Array>())),
            ("uint8", Arc::new(numbers().collect::<UInt8Array>())),
            (
                "uint16",
                Arc::new(numbers().map(|n| n.map(u16::from)).collect::<UInt16Array>()),
            ),
            (
                "uint32",
                Arc::new(numbers().map(|n| n.map(u32::from)).collect::<UInt32Array>()),
            ),
            (
                "uint64",
                Arc::new(numbers().map(|n| n.map(u64::from)).collect::<UInt64Array>()),
            ),
            (
                "float32",
                Arc::new(numbers().map(|n| n.map(f32::from)).collect::<Float32Array>()),
            ),
            (
                "float64",
                Arc::new(numbers().map(|n| n.map(f64::from)).collect::<Float64Array>()),
            ),
            (
                "date32",
                Arc::new(numbers().map(|n| n.map(i32::from)).collect::<Date32Array>()),
            ),
            ("second", Arc::new(ticks().collect::<TimestampSecondArray>())),
            ("milli", Arc::new(ticks().collect::<TimestampMillisecondArray>())),
            ("micro", Arc::new(ticks().collect::<TimestampMicrosecondArray>())),
            ("nano", Arc::new(ticks().collect::<TimestampNanosecondArray>())),
            ("decimal32", number::<Decimal32Type>(numbers())),
            ("decimal64", number::<Decimal64Type>(numbers())),
            ("decimal128", number::<Decimal128Type>(numbers())),
            (
                "decimal256",
                Arc::new(
                    ticks()
                        .map(|n| n.map(|n| i256::from_parts(0, i128::from(n))))
                        .collect::<Decimal256Array>(),
                ),
            ),
            ("date64", number::<Date64Type>(numbers())),
            ("time_ms", number::<Time32MillisecondType>(numbers())),
            ("time_ns", number::<Time64NanosecondType>(numbers())),
            ("duration", number::<DurationMicrosecondType>(numbers())),
            ("months", number::<IntervalYearMonthType>(numbers())),
            (
                "bytes",
                Arc::new(
                    texts()
                        .map(|text| text.map(String::into_bytes))
                        .collect::<BinaryArray>(),
                ),
            ),
            ("binary", wide(5)),
            ("wide", wide(4096)),
            ("text", Arc::new(texts().collect::<StringArray>())),
            ("more text", Arc::new(texts().collect::<StringArray>())),
        ]
    }

    /// Rows of some numbers with a column of each type.
    pub(in crate::rows) fn batch(numbers: Range<u8>) -> RecordBatch {
        let times = numbers.clone().map(i64::from);
        let at: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(times));
        let others = column_of_each_type(numbers);
        let others = others.into_iter().map(|(name, values)| (name, values, true));
        let columns = std::iter::once(("at", at, false)).chain(others);
        RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
    }

    fn encode(schema: &TableSchema, batch: &RecordBatch) -> EncodedRows {
        // Memory that held something else.
        let mut memory = MutableBuffer::new(0);
        memory.extend_from_slice(&[0xff; 1000]);
        EncodedRows::encode(schema, batch, memory)
    }

    #[test]
    fn rows_come_back_as_they_were_and_a_slice_is_as_long_as_its_rows() {
        let whole = batch(0..200);
        let schema = TableSchema::new(whole.schema(), "at").expect("storable");
        for (first, len) in [
            (0, 0),
            (0, 1),
            (97, 1),
            (99, 1),
            (199, 1),
            (50, 7),
            (3, 160),
            (0, 200),
        ] {
            let slice = whole.slice(usize::from(first), usize::from(len));
            let alone = batch(first..first + len);
            let encoded = encode(&schema, &slice);
            assert_eq!(
                encoded.bytes(),
                encode(&schema, &alone).bytes(),
                "{len} from {first}"
            );
            assert_eq!(
                SortedRows::bytes_of(&schema, &slice),
                SortedRows::bytes_of(&schema, &alone),
                "{len} from {first}"
            );
            let parsed = EncodedRows::parse(encoded.bytes()).expect("as it was encoded");
            assert_eq!(parsed.len(), usize::from(len));
            let columns = parsed.decode(&schema).expect("as it was encoded");
            assert_eq!(columns, slice.columns(), "{len} from {first}");
        }
    }

    #[test]
    fn text_without_a_value_is_not_kept() {
        let ends = OffsetBuffer::new(vec![0, 3, 6].into());
        let nulls = NullBuffer::from(vec![false, true]);
        let text: ArrayRef = Arc::new(StringArray::new(ends, b"gonabc"[..].into(), Some(nulls)));
        let at: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter_with_nullable([("at", at, false), ("text", text, true)]);
        let batch = batch.expect("columns of one length");
        let schema = TableSchema::new(batch.schema(), "at").expect("storable");
        let encoded = encode(&schema, &batch);
        assert!(!encoded.bytes().windows(3).any(|bytes| bytes == b"gon"));
        let columns = encoded.decode(&schema).expect("as it was encoded");
        assert_eq!(columns, batch.columns());
    }

    #[test]
    fn damaged_rows_are_refused_or_are_other_rows() {
        let whole = batch(0..20);
        let schema = TableSchema::new(whole.schema(), "at").expect("storable");
        let encoded = encode(&schema, &whole);
        let bytes = encoded.bytes();
        let read = |bytes: &[u8]| EncodedRows::parse(bytes).and_then(|rows| rows.decode(&schema));
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "cut to {len} bytes");
        }
        let mut refused = 0;
        let mut damaged = bytes.to_vec();
        for at in 0..bytes.len() {
            for bit in [1, 0x80] {
                damaged[at] ^= bit;
                refused += u32::from(read(&damaged).is_err());
                damaged[at] ^= bit;
            }
        }
        assert!(
            refused > 300,
            "{refused} changes were noticed: those of headers, ends and text"
        );
        let other = TableSchema::new(whole.project(&[0, 1]).expect("it has them").schema(), "at");
        assert!(encoded.decode(&other.expect("storable")).is_err());
    }
}
