//! Building record batches out of columns of leaf pages and rows of heads.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeBinaryArray, PrimitiveArray, RecordBatch, RecordBatchOptions, UInt64Array,
    downcast_primitive, make_array,
};
use arrow_buffer::{
    BooleanBuffer, BooleanBufferBuilder, Buffer, MutableBuffer, NullBuffer, ScalarBuffer, i256,
};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use bedload_trees::RowLayout;

use super::Place;
use super::batch_memory::BatchMemory;
use super::schema::{ColumnLayout, ColumnPlace, SEQUENCE_COLUMN, TableSchema};
use crate::error::{Error, Result};

/// Up to this many bytes, a batch whose rows come all at once has one piece of memory for all
/// columns.
const SHARED_BYTES_MAX: usize = 64 << 10;
/// Up to this many bytes, all columns are prefetched before the first is copied; beyond, each is
/// prefetched before its predecessor is copied.
const APPROACHED_BYTES: usize = 8 << 10;
/// A batch ends early once one of its columns has this much text.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// The alignment of columns in shared memory: no value needs more.
const COLUMN_ALIGNMENT: usize = align_of::<i256>();

/// Rows that can be copied out column by column.
pub(crate) trait RowSource {
    fn place(&self, row: usize) -> Place;
    /// Appends the times of some rows.
    fn times(&self, rows: Range<usize>, out: &mut MutableBuffer) {
        rows.for_each(|row| out.push(self.place(row).0));
    }
    /// Appends a bit of the flags of some rows; `flags` is the column of flags.
    fn bits(&self, flags: FixedColumn, bit: usize, rows: Range<usize>, out: &mut BooleanBufferBuilder);
    /// Whether a bit is known to be set in all of some rows, so that it need not be copied.
    fn has_all(&self, _flags: FixedColumn, _bit: usize, _rows: Range<usize>) -> bool {
        false
    }
    /// Asks for the memory of a fixed column of some rows, which is about to be copied.
    fn approach(&self, _column: FixedColumn, _rows: Range<usize>) {}
    /// Appends a fixed column of some rows, end to end.
    fn fixed(&self, column: FixedColumn, rows: Range<usize>, out: &mut MutableBuffer);
    /// A variable column of a row.
    fn variable(&self, column: usize, row: usize) -> &[u8];
}

/// A fixed column: its number in the layout, and bytes of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FixedColumn {
    pub(crate) column: usize,
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
    /// All columns that were not dropped.
    pub(crate) fn all(schema: Arc<TableSchema>) -> Self {
        Self {
            arrow: schema.live().arrow().clone(),
            columns: schema.positions().cloned(),
            schema,
            with_sequence: false,
        }
    }

    /// The columns with these positions in the schema, in this order, and the sequence numbers if
    /// asked for.
    pub(crate) fn new(schema: Arc<TableSchema>, columns: Vec<usize>, with_sequence: bool) -> Self {
        let fields = columns.iter().map(|&i| schema.arrow().fields()[i].clone());
        Self::of_fields(fields.collect(), schema, columns, with_sequence)
    }

    /// As [`new`](Self::new), under these names.
    pub(crate) fn named(
        schema: Arc<TableSchema>,
        columns: Vec<usize>,
        names: &[&str],
        with_sequence: bool,
    ) -> Self {
        let fields = columns.iter().zip(names).map(|(&i, &name)| {
            let field = &schema.arrow().fields()[i];
            match field.name() == name {
                true => field.clone(),
                false => Arc::new(Field::clone(field).with_name(name)),
            }
        });
        Self::of_fields(fields.collect(), schema, columns, with_sequence)
    }

    fn of_fields(
        mut fields: Vec<FieldRef>,
        schema: Arc<TableSchema>,
        columns: Vec<usize>,
        with_sequence: bool,
    ) -> Self {
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

    /// The same columns and the sequence numbers.
    pub(crate) fn and_sequence(&self) -> Self {
        if self.with_sequence {
            return self.clone();
        }
        let (fields, columns) = (self.arrow.fields().to_vec(), self.columns().collect());
        Self::of_fields(fields, self.schema.clone(), columns, true)
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

    /// Where the columns stand in a row.
    fn layouts(&self) -> impl Iterator<Item = ColumnLayout> + use<'_> {
        self.columns().map(|position| self.schema.places()[position])
    }

    /// Bytes of a row, without text.
    pub(crate) fn row_bytes(&self) -> usize {
        self.layouts().filter_map(|layout| layout.width()).sum()
    }

    pub(crate) fn with_sequence(&self) -> bool {
        self.with_sequence
    }

    /// The schema of the batches.
    pub(crate) fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }
}

/// A record batch in the making.
#[derive(Debug)]
pub(crate) struct BatchBuilder<'s> {
    projection: &'s Projection,
    flags: FixedColumn,
    /// All rows, if they came at once.
    whole: Option<Whole>,
    /// Otherwise what there is of each column; none before the first row.
    columns: Vec<Column>,
    sequences: Vec<u64>,
    rows: usize,
    /// How many rows the batch is likely to have.
    expected: usize,
    memory: &'s BatchMemory,
}

/// All rows of a batch without text.
#[derive(Debug)]
struct Whole {
    /// The values of the columns, each in [`shared_len`] bytes.
    values: MutableBuffer,
    /// The columns that have bits, by their number.
    bits: Vec<(usize, Bits)>,
}

/// A column in the making.
#[derive(Debug)]
struct Column {
    layout: ColumnLayout,
    /// None without bits; boxed, as most columns have none.
    bits: Option<Box<Bits>>,
    /// Values of a column of bytes.
    bytes: MutableBuffer,
    /// Offsets of a variable column: where the first value begins, then where each ends.
    ends: Vec<i32>,
}

#[derive(Debug)]
struct Bits {
    valid: BooleanBufferBuilder,
    /// Values of a boolean column.
    values: BooleanBufferBuilder,
}

impl<'s> BatchBuilder<'s> {
    /// A batch that is to have about `rows` rows.
    pub(crate) fn new(projection: &'s Projection, rows: usize, memory: &'s BatchMemory) -> Self {
        let flags = FixedColumn {
            column: 0,
            width: projection.schema().flag_bytes(),
        };
        Self {
            flags,
            whole: None,
            columns: Vec::new(),
            sequences: Vec::new(),
            rows: 0,
            expected: rows,
            memory,
            projection,
        }
    }

    /// How many rows have been appended.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Whether it has as many rows as are wanted, or as much text as it may have: a batch addresses
    /// text with 31 bits.
    pub(crate) fn is_full(&self, wanted: usize) -> bool {
        self.rows >= wanted || self.columns.iter().any(Column::is_full)
    }

    /// Says how many rows the batch is to have, before the first is appended.
    pub(crate) fn expect(&mut self, rows: usize) {
        self.expected = rows;
    }

    /// Whether `rows` are the whole batch and share memory.
    pub(crate) fn takes_whole(&self, rows: usize) -> bool {
        let is_all = self.rows == 0 && rows == self.expected;
        is_all && self.shared_bytes(rows).is_some()
    }

    /// Bytes of shared memory for `rows`; none if they are many, or some column cannot share it.
    fn shared_bytes(&self, rows: usize) -> Option<usize> {
        let of_column = |layout: ColumnLayout| Some(shared_len(layout.width()?, rows));
        let bytes = self.projection.layouts().map(of_column).sum::<Option<usize>>()?;
        (bytes <= SHARED_BYTES_MAX).then_some(bytes)
    }

    /// Prefetches rows that will be appended: all columns of a few rows, the first column of more.
    pub(crate) fn approach(&self, source: &impl RowSource, rows: Range<usize>) {
        let row_bytes = self.projection.schema().layout().fixed_len();
        let columns = if rows.len() * row_bytes <= APPROACHED_BYTES {
            usize::MAX
        } else {
            1
        };
        let fixed = self.projection.layouts().filter_map(|layout| layout.fixed());
        fixed
            .take(columns)
            .for_each(|column| source.approach(column, rows.clone()));
    }

    /// Appends neighbouring rows of a source.
    pub(crate) fn append(&mut self, source: &impl RowSource, rows: Range<usize>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        if self.projection.with_sequence() {
            self.sequences.extend(rows.clone().map(|row| source.place(row).1));
        }
        if self.takes_whole(rows.len())
            && let Some(bytes) = self.shared_bytes(rows.len())
        {
            self.rows = rows.len();
            self.whole = Some(self.copy_whole(source, rows, bytes));
            return Ok(());
        }
        if self.rows == 0 || self.whole.is_some() {
            self.part();
        }
        let mut next = self.projection.layouts().filter_map(|layout| layout.fixed());
        next.next();
        for column in &mut self.columns {
            if column.layout.fixed().is_some()
                && let Some(next) = next.next()
            {
                source.approach(next, rows.clone());
            }
            column.append(source, rows.clone(), self.flags)?;
        }
        self.rows += rows.len();
        Ok(())
    }

    /// All rows of the batch, in memory of `bytes` bytes.
    fn copy_whole(&self, source: &impl RowSource, rows: Range<usize>, bytes: usize) -> Whole {
        let mut next = self.projection.layouts().filter_map(|layout| layout.fixed());
        next.next();
        // Before there is memory for them.
        self.approach(source, rows.clone());
        let is_approached = bytes <= APPROACHED_BYTES;
        // No larger alignment than needed: allocators take several times as long for one.
        let memory: Vec<u128> = Vec::with_capacity(bytes / COLUMN_ALIGNMENT);
        let mut values = MutableBuffer::from(memory);
        let mut bits = Vec::new();
        for (number, layout) in self.projection.layouts().enumerate() {
            if let Some(of_column) = Bits::of_rows(layout, source, &rows, self.flags) {
                bits.push((number, of_column));
            }
            values.resize(shared_len(1, values.len()), 0);
            match layout.place {
                ColumnPlace::Time => source.times(rows.clone(), &mut values),
                _ => {
                    let Some(column) = layout.fixed() else { continue };
                    if let Some(next) = next.next().filter(|_| !is_approached) {
                        source.approach(next, rows.clone());
                    }
                    source.fixed(column, rows.clone(), &mut values);
                }
            }
        }
        Whole { values, bits }
    }

    /// Gives each column memory of its own.
    fn part(&mut self) {
        let whole = self.whole.take();
        let (values, bits) = whole.map(|whole| (whole.values, whole.bits)).unzip();
        let mut bits = bits.into_iter().flatten().peekable();
        let mut begin = 0;
        self.columns.reserve_exact(self.projection.arrow().fields().len());
        for (number, layout) in self.projection.layouts().enumerate() {
            let mut column = Column::new(layout);
            if let Some(width) = layout.width() {
                column.bytes = self.memory.take(width * self.expected.max(self.rows));
                if let Some(values) = &values {
                    column
                        .bytes
                        .extend_from_slice(&values[begin..begin + width * self.rows]);
                }
                begin += shared_len(width, self.rows);
            }
            if let Some((_, bits)) = bits.next_if(|(of, _)| *of == number) {
                column.bits = Some(Box::new(bits));
            } else if let Some(bits) = &mut column.bits {
                // All of them have a value.
                bits.valid.append_n(self.rows, true);
            }
            self.columns.push(column);
        }
    }

    /// The batch.
    ///
    /// # Errors
    ///
    /// Text is not UTF-8: the one way for stored bytes not to fit their column.
    pub(crate) fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        let rows = self.rows;
        let arrow = self.projection.arrow().clone();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(arrow.fields().len());
        if let Some(whole) = self.whole.take() {
            let values = Buffer::from(whole.values);
            let mut bits = whole.bits.into_iter().peekable();
            let mut begin = 0;
            for ((number, layout), field) in self.projection.layouts().enumerate().zip(arrow.fields()) {
                let width = layout.width().unwrap_or_default();
                let bytes = values.slice_with_length(begin, width * rows);
                begin += shared_len(width, rows);
                let bits = bits.next_if(|(of, _)| *of == number).map(|(_, bits)| bits);
                arrays.push(array(layout, field.data_type(), rows, bytes, Vec::new(), bits)?);
            }
        } else {
            // A buffer much longer than its rows is not worth keeping, nor one of unknown length.
            let is_lent = 2 * rows >= self.expected && self.expected > 0;
            for (column, field) in std::mem::take(&mut self.columns).into_iter().zip(arrow.fields()) {
                let bytes = match column.layout.width() {
                    Some(_) if is_lent => self.memory.lend(column.bytes),
                    _ => column.bytes.into(),
                };
                let bits = column.bits.map(|bits| *bits);
                arrays.push(array(
                    column.layout,
                    field.data_type(),
                    rows,
                    bytes,
                    column.ends,
                    bits,
                )?);
            }
        }
        if self.projection.with_sequence() {
            arrays.push(Arc::new(UInt64Array::from(self.sequences)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(arrow, arrays, &options)
    }
}

/// Bytes that `rows` values of a column take in shared memory.
fn shared_len(width: usize, rows: usize) -> usize {
    (width * rows).next_multiple_of(COLUMN_ALIGNMENT)
}

impl Bits {
    fn new() -> Self {
        Self {
            valid: BooleanBufferBuilder::new(0),
            values: BooleanBufferBuilder::new(0),
        }
    }

    /// The bits of all rows of a batch; none if the column has none, or all rows have a value.
    fn of_rows(
        layout: ColumnLayout,
        source: &impl RowSource,
        rows: &Range<usize>,
        flags: FixedColumn,
    ) -> Option<Self> {
        let is_bit = matches!(layout.place, ColumnPlace::Bit(_));
        let has_all = layout
            .valid_bit
            .is_none_or(|bit| source.has_all(flags, bit, rows.clone()));
        if has_all && !is_bit {
            return None;
        }
        let mut bits = Self::new();
        bits.append(layout, source, rows.clone(), flags);
        Some(bits)
    }

    fn append(
        &mut self,
        layout: ColumnLayout,
        source: &impl RowSource,
        rows: Range<usize>,
        flags: FixedColumn,
    ) {
        if let Some(bit) = layout.valid_bit {
            source.bits(flags, bit, rows.clone(), &mut self.valid);
        }
        if let ColumnPlace::Bit(bit) = layout.place {
            source.bits(flags, bit, rows, &mut self.values);
        }
    }
}

impl Column {
    fn new(layout: ColumnLayout) -> Self {
        let has_bits = layout.valid_bit.is_some() || matches!(layout.place, ColumnPlace::Bit(_));
        let is_text = matches!(layout.place, ColumnPlace::Variable(_));
        Self {
            layout,
            bits: has_bits.then(|| Box::new(Bits::new())),
            bytes: MutableBuffer::new(0),
            ends: if is_text { vec![0] } else { Vec::new() },
        }
    }

    fn is_full(&self) -> bool {
        self.layout.width().is_none() && self.bytes.len() >= TEXT_BYTES_MAX
    }

    /// Appends rows of a source.
    fn append(&mut self, source: &impl RowSource, rows: Range<usize>, flags: FixedColumn) -> Result<()> {
        if let Some(bits) = &mut self.bits {
            bits.append(self.layout, source, rows.clone(), flags);
        }
        match self.layout.place {
            ColumnPlace::Time => source.times(rows, &mut self.bytes),
            ColumnPlace::Variable(number) => {
                for row in rows {
                    self.bytes.extend_from_slice(source.variable(number, row));
                    let end = i32::try_from(self.bytes.len()).map_err(|_| Error::TooLarge {
                        what: "the text of one batch".into(),
                        len_bytes: self.bytes.len(),
                        limit_bytes: i32::MAX as usize,
                    })?;
                    self.ends.push(end);
                }
            }
            ColumnPlace::Bit(_) | ColumnPlace::Fixed { .. } => {
                if let Some(column) = self.layout.fixed() {
                    source.fixed(column, rows, &mut self.bytes);
                }
            }
        }
        Ok(())
    }
}

impl ColumnLayout {
    /// Bytes of a value; none if there is text.
    fn width(&self) -> Option<usize> {
        match self.place {
            ColumnPlace::Time => Some(size_of::<i64>()),
            ColumnPlace::Fixed { width, .. } => Some(width),
            ColumnPlace::Bit(_) => Some(0),
            ColumnPlace::Variable(_) => None,
        }
    }

    /// The column of the layout, if it is a fixed one.
    fn fixed(&self) -> Option<FixedColumn> {
        match self.place {
            ColumnPlace::Fixed { column, width } => Some(FixedColumn { column, width }),
            _ => None,
        }
    }
}

/// The array of a column: its values, or where they end, or its bits.
fn array(
    layout: ColumnLayout,
    data_type: &DataType,
    rows: usize,
    bytes: Buffer,
    ends: Vec<i32>,
    bits: Option<Bits>,
) -> Result<ArrayRef, ArrowError> {
    let bits = bits.map(|mut bits| (bits.valid.finish(), bits.values.finish()));
    let (valid, values) = bits.unzip();
    let valid = valid.filter(|_| layout.valid_bit.is_some()).map(NullBuffer::new);
    let valid = valid.filter(|valid| valid.null_count() > 0);
    let data = || ArrayData::builder(data_type.clone()).len(rows);
    let data = match layout.place {
        ColumnPlace::Time | ColumnPlace::Fixed { .. } => {
            return fixed_array(data_type, rows, bytes, valid);
        }
        ColumnPlace::Bit(_) => data().add_buffer(values.map(BooleanBuffer::into_inner).unwrap_or_default()),
        ColumnPlace::Variable(_) => data().add_buffer(ends.into()).add_buffer(bytes),
    };
    Ok(make_array(data.nulls(valid).build()?))
}

/// An array of values of one width. Made as what it is: by way of [`ArrayData`] it takes several
/// times as long, which shows where rows are few.
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
        DataType::FixedSizeBinary(width) => Ok(Arc::new(binary_array(*width, rows, bytes, valid))),
        _ => {
            let data = ArrayData::builder(data_type.clone()).len(rows).nulls(valid);
            Ok(make_array(data.add_buffer(bytes).build()?))
        }
    }
}

/// An array of values of `width` bytes, built directly, too: the checked constructor returns a
/// `Result`, and unwrapping it took a twelfth of a range of one row.
#[expect(unsafe_code, reason = "what is to be checked is checked here")]
fn binary_array(width: i32, rows: usize, bytes: Buffer, valid: Option<NullBuffer>) -> FixedSizeBinaryArray {
    let value_bytes = usize::try_from(width).expect("a schema has no widths below zero");
    assert_eq!(bytes.len(), value_bytes * rows, "bytes of {rows} values");
    assert!(
        valid.as_ref().is_none_or(|valid| valid.len() == rows),
        "a bit for each value"
    );
    // SAFETY: the width is not negative, and there are as many values, and bits if any, as the
    // array is long.
    unsafe { FixedSizeBinaryArray::new_unchecked(width, bytes, valid, rows) }
}
