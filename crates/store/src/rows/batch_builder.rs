//! Building record batches out of columns of leaf pages and rows of heads.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeBinaryArray, PrimitiveArray, RecordBatch, RecordBatchOptions, UInt64Array,
    downcast_primitive, make_array,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::Place;
use super::batch_memory::BatchMemory;
use super::schema::{ColumnPlace, SEQUENCE_COLUMN, TableSchema};
use crate::error::{Error, Result};

/// A batch of at most so many bytes that is complete with one stretch of rows has one piece of memory for all columns.
const SHARED_BYTES_MAX: usize = 64 << 10;
/// Where a column may begin in shared memory: no value needs more.
const COLUMN_ALIGNMENT: usize = size_of::<u64>();

/// Rows that can be copied out column by column.
pub(crate) trait RowSource {
    fn place(&self, row: usize) -> Place;
    /// Appends the times of some rows.
    fn times(&self, rows: Range<usize>, out: &mut MutableBuffer) {
        rows.for_each(|row| out.push(self.place(row).0));
    }
    /// Appends a bit of the flags of some rows; `flags` is the column of flags.
    fn bits(&self, flags: FixedColumn, bit: usize, rows: Range<usize>, out: &mut BooleanBufferBuilder);
    /// Appends a fixed column of some rows, end to end.
    fn fixed(&self, column: FixedColumn, rows: Range<usize>, out: &mut MutableBuffer);
    /// A variable column of a row.
    fn variable(&self, column: usize, row: usize) -> &[u8];
}

/// A fixed column: its number in the layout, and where it stands in a packed row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FixedColumn {
    pub(crate) column: usize,
    pub(crate) offset: usize,
    pub(crate) width: usize,
}

/// Which columns a batch has.
#[derive(Debug, Clone)]
pub(crate) struct Projection {
    schema: Arc<TableSchema>,
    /// None for all, in the order of the schema.
    columns: Option<Arc<[usize]>>,
    with_sequence: bool,
    arrow: SchemaRef,
}

impl Projection {
    /// All columns.
    pub(crate) fn all(schema: Arc<TableSchema>) -> Self {
        Self {
            arrow: schema.arrow().clone(),
            schema,
            columns: None,
            with_sequence: false,
        }
    }

    /// The columns with these positions in the schema, in this order, and the sequence numbers if asked for.
    pub(crate) fn new(schema: Arc<TableSchema>, columns: Vec<usize>, with_sequence: bool) -> Self {
        let mut fields: Vec<Arc<Field>> = columns
            .iter()
            .map(|&i| schema.arrow().fields()[i].clone())
            .collect();
        if with_sequence {
            fields.push(Arc::new(Field::new(SEQUENCE_COLUMN, DataType::UInt64, false)));
        }
        Self {
            arrow: Arc::new(Schema::new(fields)),
            schema,
            columns: Some(columns.into()),
            with_sequence,
        }
    }

    pub(crate) fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The positions of the columns in the schema.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> + use<'_> {
        let some = self.columns.as_deref();
        let len = some.map_or(self.schema.places().len(), <[usize]>::len);
        (0..len).map(move |n| some.map_or(n, |columns| columns[n]))
    }

    pub(crate) fn with_sequence(&self) -> bool {
        self.with_sequence
    }

    /// The schema of the batches.
    pub(crate) fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }
}

/// The longest piece that is copied at once: the system's library copies longer ones by an instruction of the processor that
/// reaches half the speed where they come from memory.
const COPIED_BYTES: usize = 512;

/// Appends bytes that are perhaps many.
pub(crate) fn copy(bytes: &[u8], out: &mut MutableBuffer) {
    out.reserve(bytes.len());
    bytes
        .chunks(COPIED_BYTES)
        .for_each(|piece| out.extend_from_slice(piece));
}

/// A record batch in the making.
#[derive(Debug)]
pub(crate) struct BatchBuilder {
    projection: Projection,
    flags: FixedColumn,
    columns: Vec<Column>,
    /// The values of all columns, if they came as one stretch that was expected to be all.
    shared: Option<MutableBuffer>,
    sequences: Vec<u64>,
    rows: usize,
    /// How many rows the batch is likely to have.
    expected: usize,
    memory: BatchMemory,
}

#[derive(Debug)]
struct Column {
    place: ColumnPlace,
    valid_bit: Option<usize>,
    /// Where there are bits at all; apart, as most columns have none.
    bits: Option<Box<Bits>>,
    /// Values of a column of bytes, if they are not shared.
    bytes: MutableBuffer,
    /// Where they begin in shared memory.
    begin: usize,
    /// Where the values of a variable column end, the first before all.
    ends: Vec<i32>,
}

#[derive(Debug)]
struct Bits {
    valid: BooleanBufferBuilder,
    /// Values of a boolean column.
    values: BooleanBufferBuilder,
}

impl BatchBuilder {
    /// A batch that is to have about so many rows.
    pub(crate) fn new(projection: Projection, rows: usize, memory: BatchMemory) -> Self {
        let schema = projection.schema();
        let flags = FixedColumn {
            column: 0,
            offset: 0,
            width: schema.flag_bytes(),
        };
        let column = |position: usize| {
            let place = schema.places()[position];
            Column {
                place: place.place,
                valid_bit: place.valid_bit,
                bits: (place.valid_bit.is_some() || matches!(place.place, ColumnPlace::Bit(_))).then(|| {
                    Box::new(Bits {
                        valid: BooleanBufferBuilder::new(0),
                        values: BooleanBufferBuilder::new(0),
                    })
                }),
                bytes: MutableBuffer::new(0),
                begin: 0,
                ends: if matches!(place.place, ColumnPlace::Variable(_)) {
                    vec![0]
                } else {
                    Vec::new()
                },
            }
        };
        let columns: Vec<Column> = projection.columns().map(column).collect();
        Self {
            flags,
            columns,
            shared: None,
            sequences: Vec::new(),
            rows: 0,
            expected: rows,
            memory,
            projection,
        }
    }

    /// Bytes of shared memory for so many rows; none if they are many, or there are columns that have no part in it.
    fn shared_bytes(&self, rows: usize) -> Option<usize> {
        let of_column = |column: &Column| Some((column.width()? * rows).next_multiple_of(COLUMN_ALIGNMENT));
        let bytes = self.columns.iter().map(of_column).sum::<Option<usize>>()?;
        (bytes <= SHARED_BYTES_MAX).then_some(bytes)
    }

    /// Gives each column memory of its own.
    fn part(&mut self) {
        let shared = self.shared.take();
        for column in &mut self.columns {
            let Some(width) = column.width() else { continue };
            column.bytes = self.memory.take(width * self.expected.max(self.rows));
            if let Some(shared) = &shared {
                column
                    .bytes
                    .extend_from_slice(&shared[column.begin..column.begin + width * self.rows]);
            }
        }
    }

    /// How many rows have been appended.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Appends neighbouring rows of a source.
    pub(crate) fn append(&mut self, source: &impl RowSource, rows: Range<usize>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        if self.projection.with_sequence() {
            self.sequences.extend(rows.clone().map(|row| source.place(row).1));
        }
        let is_all = self.rows == 0 && rows.len() == self.expected;
        if let Some(bytes) = self.shared_bytes(rows.len()).filter(|_| is_all) {
            // Not by a larger alignment than it needs, for which allocators take several times as long.
            let memory: Vec<u64> = Vec::with_capacity(bytes / COLUMN_ALIGNMENT);
            let mut shared = MutableBuffer::from(memory);
            for column in &mut self.columns {
                shared.resize(shared.len().next_multiple_of(COLUMN_ALIGNMENT), 0);
                column.begin = shared.len();
                column.append(source, rows.clone(), self.flags, Some(&mut shared))?;
            }
            self.shared = Some(shared);
            self.rows = rows.len();
            return Ok(());
        }
        if self.rows == 0 || self.shared.is_some() {
            self.part();
        }
        for column in &mut self.columns {
            column.append(source, rows.clone(), self.flags, None)?;
        }
        self.rows += rows.len();
        Ok(())
    }

    /// Bytes of text collected so far; a caller bounds it, as a batch addresses text with 31 bits.
    pub(crate) fn text_bytes(&self) -> usize {
        let texts = self
            .columns
            .iter()
            .filter(|column| matches!(column.place, ColumnPlace::Variable(_)));
        texts.map(|column| column.bytes.len()).max().unwrap_or_default()
    }

    /// The batch.
    ///
    /// # Errors
    ///
    /// Text is not UTF-8: the one way for stored bytes not to fit their column.
    pub(crate) fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        let rows = self.rows;
        let arrow = self.projection.arrow().clone();
        let shared = self.shared.map(Buffer::from);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(arrow.fields().len());
        // What is much longer than its rows is not worth keeping for them, nor is what was not known to become long.
        let is_lent = shared.is_none() && 2 * rows >= self.expected && self.expected > 0;
        for (column, field) in self.columns.iter_mut().zip(arrow.fields()) {
            let bytes = match (&shared, column.width()) {
                (Some(shared), Some(width)) => shared.slice_with_length(column.begin, width * rows),
                (None, Some(_)) if is_lent => self.memory.lend(std::mem::take(&mut column.bytes)),
                _ => std::mem::take(&mut column.bytes).into(),
            };
            arrays.push(column.finish(field.data_type(), rows, bytes)?);
        }
        if self.projection.with_sequence() {
            arrays.push(Arc::new(UInt64Array::from(self.sequences)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(arrow, arrays, &options)
    }
}

impl Column {
    /// Bytes of a value; none if there is text.
    fn width(&self) -> Option<usize> {
        match self.place {
            ColumnPlace::Time => Some(size_of::<i64>()),
            ColumnPlace::Fixed { width, .. } => Some(width),
            ColumnPlace::Bit(_) => Some(0),
            ColumnPlace::Variable(_) => None,
        }
    }

    /// Appends rows of a source, to memory that is shared or to its own.
    fn append(
        &mut self,
        source: &impl RowSource,
        rows: Range<usize>,
        flags: FixedColumn,
        shared: Option<&mut MutableBuffer>,
    ) -> Result<()> {
        if let Some(bits) = &mut self.bits {
            if let Some(bit) = self.valid_bit {
                source.bits(flags, bit, rows.clone(), &mut bits.valid);
            }
            if let ColumnPlace::Bit(bit) = self.place {
                source.bits(flags, bit, rows.clone(), &mut bits.values);
            }
        }
        let bytes = shared.unwrap_or(&mut self.bytes);
        match self.place {
            ColumnPlace::Time => source.times(rows, bytes),
            ColumnPlace::Bit(_) => {}
            ColumnPlace::Fixed {
                column,
                offset,
                width,
            } => {
                let place = FixedColumn {
                    column,
                    offset,
                    width,
                };
                source.fixed(place, rows, bytes);
            }
            ColumnPlace::Variable(number) => {
                for row in rows {
                    bytes.extend_from_slice(source.variable(number, row));
                    let end = i32::try_from(bytes.len()).map_err(|_| Error::TooLarge {
                        what: "the text of one batch".into(),
                        len_bytes: bytes.len(),
                        limit_bytes: i32::MAX as usize,
                    })?;
                    self.ends.push(end);
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, data_type: &DataType, rows: usize, bytes: Buffer) -> Result<ArrayRef, ArrowError> {
        let bits = self
            .bits
            .as_mut()
            .map(|bits| (bits.valid.finish(), bits.values.finish()));
        let (valid, values) = bits.unzip();
        let valid = valid.filter(|_| self.valid_bit.is_some()).map(NullBuffer::new);
        let valid = valid.filter(|valid| valid.null_count() > 0);
        let data = ArrayData::builder(data_type.clone()).len(rows);
        let data = match self.place {
            ColumnPlace::Time | ColumnPlace::Fixed { .. } => {
                return fixed_array(data_type, rows, bytes, valid);
            }
            ColumnPlace::Bit(_) => data.add_buffer(values.map(BooleanBuffer::into_inner).unwrap_or_default()),
            ColumnPlace::Variable(_) => data
                .add_buffer(std::mem::take(&mut self.ends).into())
                .add_buffer(bytes),
        };
        Ok(make_array(data.nulls(valid).build()?))
    }
}

/// An array of values of one width. Made as what it is: by way of [`ArrayData`] it takes several times as long, which
/// shows where rows are few.
fn fixed_array(
    data_type: &DataType,
    rows: usize,
    bytes: Buffer,
    valid: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    macro_rules! primitive {
        ($type:ty) => {{
            let values = ScalarBuffer::new(bytes, 0, rows);
            let array = PrimitiveArray::<$type>::try_new(values, valid)?;
            Ok(Arc::new(array.with_data_type(data_type.clone())) as ArrayRef)
        }};
    }
    downcast_primitive! {
        data_type => (primitive),
        DataType::FixedSizeBinary(width) => Ok(Arc::new(FixedSizeBinaryArray::try_new(*width, bytes, valid)?)),
        _ => {
            let data = ArrayData::builder(data_type.clone()).len(rows).nulls(valid);
            Ok(make_array(data.add_buffer(bytes).build()?))
        }
    }
}
