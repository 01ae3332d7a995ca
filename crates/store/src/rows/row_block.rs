//! Rows in memory and in the log: times apart, fixed columns packed row by row, variable columns end to end.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, StringArray};
use arrow_buffer::ScalarBuffer;
use bedload_trees::RowLayout;

use super::schema::{ColumnPlace, TableSchema};
use crate::codec::{Reader, Writer};
use crate::error::{Error, Result};

/// Rows of one batch. Row `i` has the sequence number `first_sequence + i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowBlock {
    pub(crate) first_sequence: u64,
    times: Vec<i64>,
    fixed_len: usize,
    fixed: Vec<u8>,
    variable_columns: usize,
    /// Where each variable value ends in `bytes`: row by row, column by column.
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

/// Bytes of a block in the log beside its rows.
const ENCODED_HEADER_BYTES: usize = 24;

impl RowBlock {
    /// No rows, of so many bytes of fixed columns and so many variable ones.
    pub(crate) fn empty(fixed_len: usize, variable_columns: usize) -> Self {
        Self {
            first_sequence: 0,
            times: Vec::new(),
            fixed_len,
            fixed: Vec::new(),
            variable_columns,
            ends: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Adds a row, all of whose text together is far shorter than 4 GiB.
    pub(crate) fn push<'v>(&mut self, time: i64, fixed: &[u8], variable: impl Iterator<Item = &'v [u8]>) {
        self.times.push(time);
        self.fixed.extend_from_slice(fixed);
        for text in variable {
            self.bytes.extend_from_slice(text);
            self.ends
                .push(u32::try_from(self.bytes.len()).expect("a block has far less text"));
        }
    }

    /// Adds the rows of another block of the same columns.
    pub(crate) fn append(&mut self, other: &Self) -> Result<()> {
        let text_before = self.bytes.len();
        self.times.extend_from_slice(&other.times);
        self.fixed.extend_from_slice(&other.fixed);
        self.bytes.extend_from_slice(&other.bytes);
        for &end in &other.ends {
            let end = text_before + end as usize;
            self.ends.push(u32::try_from(end).map_err(|_| Error::TooLarge {
                what: "the batch's text".into(),
                len_bytes: end,
                limit_bytes: u32::MAX as usize,
            })?);
        }
        Ok(())
    }

    /// The times of the rows of a batch that has the columns of a table.
    pub(crate) fn times_of(schema: &TableSchema, batch: &RecordBatch) -> ScalarBuffer<i64> {
        let data = batch.column(schema.time_column()).to_data();
        ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), batch.num_rows())
    }

    /// Fails unless a batch has the columns of a table, and values where they are required.
    pub(crate) fn check(schema: &TableSchema, batch: &RecordBatch) -> Result<()> {
        check_columns(schema, batch)
    }

    /// Bytes that the rows of a batch would take in memory.
    pub(crate) fn memory_of(schema: &TableSchema, batch: &RecordBatch) -> usize {
        let layout = schema.layout();
        let row_bytes = 8 + layout.fixed_len() + 4 * layout.variable_columns();
        let texts = batch
            .columns()
            .iter()
            .filter_map(|array| array.as_string_opt::<i32>());
        batch.num_rows() * row_bytes + texts.map(text_bytes).sum::<usize>()
    }

    /// The rows of `batch`, which must have the table's columns. `row_limit` bounds the bytes of a row's columns.
    pub(crate) fn of_batch(schema: &TableSchema, batch: &RecordBatch, row_limit: usize) -> Result<Self> {
        check_columns(schema, batch)?;
        Self::of_part(schema, batch, 0..batch.num_rows(), row_limit)
    }

    /// Some rows of a batch that has the table's columns.
    pub(crate) fn of_part(
        schema: &TableSchema,
        batch: &RecordBatch,
        part: Range<usize>,
        row_limit: usize,
    ) -> Result<Self> {
        let first = part.start;
        let batch = &batch.slice(part.start, part.len());
        let rows = batch.num_rows();
        let layout = schema.layout();
        let fixed_len = layout.fixed_len();
        let variable_columns = layout.variable_columns();
        let mut block = Self {
            first_sequence: 0,
            times: Self::times_of(schema, batch).to_vec(),
            fixed_len,
            fixed: vec![0; rows * fixed_len],
            variable_columns,
            ends: vec![0; rows * variable_columns],
            bytes: Vec::new(),
        };
        gather_fixed(schema, batch, &mut block.fixed);
        if variable_columns > 0 {
            block.gather_variable(schema, batch)?;
        }
        block.check_rows(first, row_limit)?;
        Ok(block)
    }

    /// Variable values stand row by row, so that a row's values are neighbours.
    fn gather_variable(&mut self, schema: &TableSchema, batch: &RecordBatch) -> Result<()> {
        let places = schema.places().iter().zip(batch.columns());
        let strings = places.filter(|(column, _)| matches!(column.place, ColumnPlace::Variable(_)));
        let strings: Vec<_> = strings.map(|(_, array)| array.as_string::<i32>()).collect();
        self.bytes
            .reserve_exact(strings.iter().map(|array| text_bytes(array)).sum());
        let mut ends = self.ends.iter_mut();
        for row in 0..batch.num_rows() {
            for (array, end) in strings.iter().zip(&mut ends) {
                if array.is_valid(row) {
                    self.bytes.extend_from_slice(array.value(row).as_bytes());
                }
                *end = u32::try_from(self.bytes.len()).map_err(|_| Error::TooLarge {
                    what: "the batch's text".into(),
                    len_bytes: self.bytes.len(),
                    limit_bytes: u32::MAX as usize,
                })?;
            }
        }
        Ok(())
    }

    /// `first` is the number of the first row, for messages.
    fn check_rows(&self, first: usize, limit_bytes: usize) -> Result<()> {
        let mut begin = 0;
        for row in 0..self.len() {
            let end = match self.variable_columns {
                0 => 0,
                columns => self.ends[(row + 1) * columns - 1] as usize,
            };
            let len_bytes = self.fixed_len + (end - begin);
            if len_bytes > limit_bytes {
                return Err(Error::TooLarge {
                    what: format!("row {}", first + row),
                    len_bytes,
                    limit_bytes,
                });
            }
            begin = end;
        }
        Ok(())
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    pub(crate) fn times(&self) -> &[i64] {
        &self.times
    }

    /// Gives each row another time.
    pub(crate) fn set_times(&mut self, times: Vec<i64>) {
        debug_assert_eq!(times.len(), self.times.len());
        self.times = times;
    }

    /// The first sequence number behind the block, if there is one.
    pub(crate) fn end_sequence(&self) -> Option<u64> {
        self.first_sequence.checked_add(self.times.len() as u64)
    }

    /// Bytes the block takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.times.capacity() * 8 + self.fixed.capacity() + self.ends.capacity() * 4 + self.bytes.capacity()
    }

    /// The fixed columns of a row.
    pub(crate) fn fixed(&self, row: usize) -> &[u8] {
        &self.fixed[row * self.fixed_len..][..self.fixed_len]
    }

    /// A variable column of a row.
    pub(crate) fn variable(&self, row: usize, column: usize) -> &[u8] {
        let at = row * self.variable_columns + column;
        let begin = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[begin..self.ends[at] as usize]
    }

    /// Bytes of the encoded block.
    pub(crate) fn encoded_len(&self) -> usize {
        ENCODED_HEADER_BYTES
            + self.times.len() * 8
            + self.fixed.len()
            + self.ends.len() * 4
            + self.bytes.len()
    }

    /// Appends the block in the form of docs/format.md, "Log".
    pub(crate) fn encode(&self, out: &mut Writer) {
        let counts = [self.fixed_len, self.variable_columns, self.bytes.len()];
        encode_header(out, self.first_sequence, &self.times, counts);
        out.bytes(&self.fixed);
        for &end in &self.ends {
            out.u32(end);
        }
        out.bytes(&self.bytes);
    }

    /// Appends the rows of a batch, with these times, as [`of_batch`](Self::of_batch) and [`encode`](Self::encode) would; values
    /// of fixed columns are copied once.
    pub(crate) fn encode_batch(
        schema: &TableSchema,
        batch: &RecordBatch,
        times: &[i64],
        row_limit: usize,
        out: &mut Writer,
    ) -> Result<()> {
        let layout = schema.layout();
        if layout.variable_columns() > 0 || layout.fixed_len() > row_limit {
            let mut block = Self::of_batch(schema, batch, row_limit)?;
            block.set_times(times.to_vec());
            block.encode(out);
            return Ok(());
        }
        check_columns(schema, batch)?;
        encode_header(out, 0, times, [layout.fixed_len(), 0, 0]);
        gather_fixed(schema, batch, out.zeros(times.len() * layout.fixed_len()));
        Ok(())
    }

    /// The block that `encode` wrote, or what is wrong with it.
    pub(crate) fn decode(fields: &mut Reader<'_>) -> Result<Self, &'static str> {
        let short = "its rows are cut short";
        let mut header = || {
            let first_sequence = fields.u64()?;
            let counts = [fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?];
            Some((first_sequence, counts.map(|count| count as usize)))
        };
        let (first_sequence, [rows, fixed_len, variable_columns, text_len]) = header().ok_or(short)?;
        let mut take = |count: Option<usize>| count.and_then(|count| fields.bytes(count)).ok_or(short);
        let times = take(rows.checked_mul(8))?
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| i64::from_le_bytes(bytes))
            .collect();
        let fixed = take(rows.checked_mul(fixed_len))?.to_vec();
        let ends = take(
            rows.checked_mul(variable_columns)
                .and_then(|count| count.checked_mul(4)),
        )?;
        let ends: Vec<u32> = ends
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| u32::from_le_bytes(bytes))
            .collect();
        let bytes = take(Some(text_len))?.to_vec();
        let mut last = 0;
        for &end in &ends {
            if end < last || end as usize > bytes.len() {
                return Err("its text does not fit its rows");
            }
            last = end;
        }
        Ok(Self {
            first_sequence,
            times,
            fixed_len,
            fixed,
            variable_columns,
            ends,
            bytes,
        })
    }

    /// Whether rows of this table's schema look like that.
    pub(crate) fn fits(&self, schema: &TableSchema) -> bool {
        self.fixed_len == schema.layout().fixed_len()
            && self.variable_columns == schema.layout().variable_columns()
    }
}

/// Bytes of the text that an array has: of a slice far less than the text it is a part of, and nothing where there are no
/// values.
fn text_bytes(array: &StringArray) -> usize {
    let ends = array.value_offsets();
    if array.null_count() == 0 {
        return ends[ends.len() - 1].abs_diff(ends[0]) as usize;
    }
    let ends = ends.windows(2).enumerate();
    let valid = ends.filter(|(row, _)| array.is_valid(*row));
    valid.map(|(_, ends)| ends[1].abs_diff(ends[0]) as usize).sum()
}

/// Appends what stands before the values: bytes of fixed columns, variable columns and bytes of text are the `counts`.
fn encode_header(out: &mut Writer, first_sequence: u64, times: &[i64], counts: [usize; 3]) {
    let count = |n: usize| u32::try_from(n).expect("a batch is smaller than 4 GiB");
    out.u64(first_sequence);
    out.u32(count(times.len()));
    counts.into_iter().for_each(|n| out.u32(count(n)));
    for &time in times {
        out.i64(time);
    }
}

/// Copies the fixed columns of a batch, flags included, to `out`, which is zero: row by row.
fn gather_fixed(schema: &TableSchema, batch: &RecordBatch, out: &mut [u8]) {
    let fixed_len = schema.layout().fixed_len();
    for (column, array) in schema.places().iter().zip(batch.columns()) {
        let nulls = array.logical_nulls();
        let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        if let Some(bit) = column.valid_bit {
            set_bits(out, fixed_len, bit, is_valid);
        }
        match column.place {
            ColumnPlace::Time | ColumnPlace::Variable(_) => {}
            ColumnPlace::Bit(bit) => {
                let values = array.as_boolean().values();
                set_bits(out, fixed_len, bit, |row| is_valid(row) && values.value(row));
            }
            ColumnPlace::Fixed { offset, width, .. } => {
                let data = array.to_data();
                let values = &data.buffers()[0].as_slice()[data.offset() * width..];
                let places = out.chunks_exact_mut(fixed_len).map(|row| &mut row[offset..]);
                match (nulls.as_ref().filter(|nulls| nulls.null_count() > 0), width) {
                    (None, 4) => copy_values::<4>(places, values),
                    (None, 8) => copy_values::<8>(places, values),
                    (None, 16) => copy_values::<16>(places, values),
                    (None, 32) => copy_values::<32>(places, values),
                    _ => {
                        for (row, (place, value)) in places.zip(values.chunks_exact(width)).enumerate() {
                            if is_valid(row) {
                                place[..width].copy_from_slice(value);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Copies values of a width that is known, one to the beginning of each place.
fn copy_values<'p, const WIDTH: usize>(places: impl Iterator<Item = &'p mut [u8]>, values: &[u8]) {
    for (place, value) in places.zip(values.as_chunks::<WIDTH>().0) {
        place[..WIDTH].copy_from_slice(value);
    }
}

fn set_bits(fixed: &mut [u8], fixed_len: usize, bit: usize, is_set: impl Fn(usize) -> bool) {
    for (row, fixed) in fixed.chunks_exact_mut(fixed_len).enumerate() {
        fixed[bit / 8] |= u8::from(is_set(row)) << (bit % 8);
    }
}

/// Fails unless the batch has the table's columns: names, order and types, and values where they are required.
fn check_columns(schema: &TableSchema, batch: &RecordBatch) -> Result<()> {
    let expected = schema.arrow().fields();
    let found = batch.schema_ref().fields();
    if expected.len() != found.len() {
        let reason = format!(
            "the batch has {} columns, the table {}",
            found.len(),
            expected.len()
        );
        return Err(Error::schema(reason));
    }
    for (position, (expected, found)) in expected.iter().zip(found).enumerate() {
        if expected.name() != found.name() || expected.data_type() != found.data_type() {
            return Err(Error::schema(format!(
                "column {position} of the batch is {:?} of type {}, that of the table {:?} of type {}",
                found.name(),
                found.data_type(),
                expected.name(),
                expected.data_type()
            )));
        }
        let Some(nulls) = batch
            .column(position)
            .logical_nulls()
            .filter(|nulls| nulls.null_count() > 0)
        else {
            continue;
        };
        if !expected.is_nullable() {
            let row = (0..nulls.len())
                .find(|&row| nulls.is_null(row))
                .unwrap_or_default();
            let column = expected.name().clone();
            return Err(if position == schema.time_column() {
                Error::NullTime { column, row }
            } else {
                Error::schema(format!(
                    "row {row} has no value in column {column:?}, which requires one"
                ))
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BooleanArray, Date32Array, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array,
        Int16Array, Int32Array, Int64Array, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray, TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
    };

    use super::*;

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
            ("binary", wide(5)),
            ("wide", wide(4096)),
            ("text", Arc::new(texts().collect::<StringArray>())),
            ("more text", Arc::new(texts().collect::<StringArray>())),
        ]
    }

    #[test]
    fn a_slice_counts_as_the_rows_that_it_has() {
        let batch_of = |column: usize, numbers: Range<u8>| {
            let times = numbers.clone().map(i64::from);
            let at: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(times));
            let (name, values) = column_of_each_type(numbers).swap_remove(column);
            let columns = [("at", at, false), (name, values, true)];
            RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
        };
        for column in 0..column_of_each_type(0..1).len() {
            let whole = batch_of(column, 0..200);
            let schema = TableSchema::new(whole.schema(), "at").expect("storable");
            let rows = |batch: &RecordBatch| RowBlock::of_batch(&schema, batch, 10_000).expect("short rows");
            for (first, len) in [(0, 1), (97, 1), (99, 1), (199, 1), (50, 7), (0, 200)] {
                let sliced = rows(&whole.slice(usize::from(first), usize::from(len)));
                let alone = rows(&batch_of(column, first..first + len));
                assert_eq!(sliced, alone);
                let name = whole.schema().field(1).name().clone();
                assert_eq!(
                    sliced.memory_bytes(),
                    alone.memory_bytes(),
                    "{name}, {len} from {first}"
                );
                // No more than the log has of them.
                assert!(
                    sliced.memory_bytes() <= sliced.encoded_len(),
                    "{name}, {len} from {first}"
                );
            }
        }
    }

    /// Five rows with values of several widths, some missing; with text if so wished.
    fn batch(has_text: bool) -> (TableSchema, RecordBatch) {
        let bytes = |width: usize| -> ArrayRef {
            let values = (0..5).map(|row| (row != 3).then(|| vec![row + 1; width]));
            let width = i32::try_from(width).expect("small");
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, width).expect("of a width"))
        };
        let mut columns: Vec<(&str, ArrayRef, bool)> = vec![
            (
                "at",
                Arc::new(TimestampSecondArray::from_iter_values(0..5)),
                false,
            ),
            (
                "two",
                Arc::new(Int16Array::from_iter_values([7, -8, 9, 10, 11])),
                false,
            ),
            (
                "four",
                Arc::new(Int32Array::from_iter_values([1, 2, 3, -4, 5])),
                true,
            ),
            (
                "eight",
                Arc::new(Int64Array::from(vec![Some(1), None, Some(3), None, Some(5)])),
                true,
            ),
            (
                "flag",
                Arc::new(BooleanArray::from(vec![
                    Some(true),
                    None,
                    Some(false),
                    Some(true),
                    None,
                ])),
                true,
            ),
            ("sixteen", bytes(16), true),
            ("odd", bytes(5), true),
        ];
        if has_text {
            let text = StringArray::from(vec![Some("a"), None, Some(""), Some("bcd"), Some("e")]);
            columns.push(("text", Arc::new(text), true));
        }
        let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length");
        let schema = TableSchema::new(batch.schema(), "at").expect("storable");
        (schema, batch)
    }

    #[test]
    fn a_batch_is_encoded_as_its_rows_are() {
        for has_text in [false, true] {
            let (schema, batch) = batch(has_text);
            // A part of it, too, whose arrays begin elsewhere.
            for batch in [batch.clone(), batch.slice(1, 4), batch.slice(2, 0)] {
                let times: Vec<i64> = (0..).step_by(10).take(batch.num_rows()).collect();
                let mut rows = RowBlock::of_batch(&schema, &batch, 1000).expect("short rows");
                rows.set_times(times.clone());
                let (mut expected, mut found) = (Writer::default(), Writer::default());
                rows.encode(&mut expected);
                RowBlock::encode_batch(&schema, &batch, &times, 1000, &mut found).expect("short rows");
                let found = found.into_bytes();
                assert_eq!(found, expected.into_bytes());
                let decoded = RowBlock::decode(&mut Reader::new(&found)).expect("as it was encoded");
                assert_eq!(decoded, rows);
                let mut out = Writer::default();
                let refused = RowBlock::encode_batch(&schema, &batch, &times, 20, &mut out);
                assert_eq!(refused.is_err(), batch.num_rows() > 0, "rows that are too long");
            }
        }
    }
}
