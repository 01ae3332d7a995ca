//! Building record batches out of columns of leaf pages and rows of heads.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch, RecordBatchOptions, UInt64Array, make_array};
use arrow_buffer::{BooleanBufferBuilder, MutableBuffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::Place;
use super::schema::{ColumnPlace, SEQUENCE_COLUMN, TableSchema};
use crate::error::{Error, Result};

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
    columns: Vec<usize>,
    with_sequence: bool,
    arrow: SchemaRef,
}

impl Projection {
    /// The columns with these positions in the schema, in this order, and the sequence numbers if asked for.
    pub(crate) fn new(schema: Arc<TableSchema>, columns: Vec<usize>, with_sequence: bool) -> Self {
        if !with_sequence && columns.iter().copied().eq(0..schema.places().len()) {
            return Self {
                arrow: schema.arrow().clone(),
                schema,
                columns,
                with_sequence,
            };
        }
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
            columns,
            with_sequence,
        }
    }

    pub(crate) fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
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
pub(crate) struct BatchBuilder {
    projection: Arc<Projection>,
    flags: FixedColumn,
    columns: Vec<Column>,
    sequences: Vec<u64>,
    rows: usize,
}

#[derive(Debug)]
struct Column {
    place: ColumnPlace,
    valid_bit: Option<usize>,
    valid: BooleanBufferBuilder,
    /// Values of a boolean column.
    bits: BooleanBufferBuilder,
    /// Values of a column of bytes.
    bytes: MutableBuffer,
    /// Where the values of a variable column end, the first before all.
    ends: Vec<i32>,
}

impl BatchBuilder {
    /// A batch that is to have about so many rows.
    pub(crate) fn new(projection: Arc<Projection>, rows: usize) -> Self {
        let schema = projection.schema();
        let flags = FixedColumn {
            column: 0,
            offset: 0,
            width: schema.flag_bytes(),
        };
        let column = |&position: &usize| {
            let place = schema.places()[position];
            let width = match place.place {
                ColumnPlace::Time => size_of::<i64>(),
                ColumnPlace::Fixed { width, .. } => width,
                ColumnPlace::Bit(_) | ColumnPlace::Variable(_) => 0,
            };
            Column {
                place: place.place,
                valid_bit: place.valid_bit,
                valid: BooleanBufferBuilder::new(0),
                bits: BooleanBufferBuilder::new(0),
                bytes: MutableBuffer::new(rows * width),
                ends: if matches!(place.place, ColumnPlace::Variable(_)) {
                    vec![0]
                } else {
                    Vec::new()
                },
            }
        };
        let columns: Vec<Column> = projection.columns().iter().map(column).collect();
        Self {
            flags,
            columns,
            sequences: Vec::new(),
            rows: 0,
            projection,
        }
    }

    /// How many rows have been appended.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Appends neighbouring rows of a source.
    pub(crate) fn append(&mut self, source: &impl RowSource, rows: Range<usize>) -> Result<()> {
        self.rows += rows.len();
        if self.projection.with_sequence() {
            self.sequences.extend(rows.clone().map(|row| source.place(row).1));
        }
        for column in &mut self.columns {
            if let Some(bit) = column.valid_bit {
                source.bits(self.flags, bit, rows.clone(), &mut column.valid);
            }
            match column.place {
                ColumnPlace::Time => source.times(rows.clone(), &mut column.bytes),
                ColumnPlace::Bit(bit) => source.bits(self.flags, bit, rows.clone(), &mut column.bits),
                ColumnPlace::Fixed {
                    column: number,
                    offset,
                    width,
                } => {
                    let place = FixedColumn {
                        column: number,
                        offset,
                        width,
                    };
                    source.fixed(place, rows.clone(), &mut column.bytes);
                }
                ColumnPlace::Variable(number) => {
                    for row in rows.clone() {
                        column.bytes.extend_from_slice(source.variable(number, row));
                        let end = i32::try_from(column.bytes.len()).map_err(|_| Error::TooLarge {
                            what: "the text of one batch".into(),
                            len_bytes: column.bytes.len(),
                            limit_bytes: i32::MAX as usize,
                        })?;
                        column.ends.push(end);
                    }
                }
            }
        }
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
    pub(crate) fn finish(self) -> Result<RecordBatch, ArrowError> {
        let rows = self.rows;
        let arrow = self.projection.arrow().clone();
        let fields = arrow.fields().iter();
        let mut arrays: Vec<ArrayRef> = self
            .columns
            .into_iter()
            .zip(fields)
            .map(|(column, field)| column.finish(field.data_type(), rows))
            .collect::<Result<_, _>>()?;
        if self.projection.with_sequence() {
            arrays.push(Arc::new(UInt64Array::from(self.sequences)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(arrow, arrays, &options)
    }
}

impl Column {
    fn finish(mut self, data_type: &DataType, rows: usize) -> Result<ArrayRef, ArrowError> {
        let valid = self
            .valid_bit
            .is_some()
            .then(|| NullBuffer::new(self.valid.finish()));
        let valid = valid.filter(|valid| valid.null_count() > 0);
        if let (ColumnPlace::Time | ColumnPlace::Fixed { .. }, DataType::FixedSizeBinary(width)) =
            (self.place, data_type)
        {
            let array = FixedSizeBinaryArray::try_new(*width, self.bytes.into(), valid)?;
            return Ok(Arc::new(array));
        }
        let data = ArrayData::builder(data_type.clone()).len(rows).nulls(valid);
        let data = match self.place {
            ColumnPlace::Bit(_) => data.add_buffer(self.bits.finish().into_inner()),
            ColumnPlace::Variable(_) => data.add_buffer(self.ends.into()).add_buffer(self.bytes.into()),
            ColumnPlace::Time | ColumnPlace::Fixed { .. } => data.add_buffer(self.bytes.into()),
        };
        Ok(make_array(data.build()?))
    }
}
