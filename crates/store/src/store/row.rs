//! A row that was read by its time.

use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use arrow_buffer::i256;
use arrow_schema::DataType;

use crate::rows::{ColumnPlace, TableSchema};
use crate::table::{FoundRow, IndexedRow};

/// One row of a table. Values of a sparse table are read in place, in the cache.
#[derive(Debug, Clone)]
pub struct Row {
    time: i64,
    found: FoundRow,
    /// How many columns the table's handle has, and where they stand in it if they are not the
    /// first ones.
    columns: usize,
    positions: Option<Arc<[usize]>>,
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Value<'r> {
    /// A value of a boolean column.
    Bool(bool),
    /// A value of a column of signed integers, of times, dates, durations or months, in the
    /// column's unit, or of decimals of 32 or 64 bits, without their scale.
    Int(i64),
    /// A value of a column of unsigned integers.
    UInt(u64),
    /// A value of a column of floating-point numbers.
    Float(f64),
    /// A decimal of 128 bits, without its scale.
    Decimal(i128),
    /// A decimal of 256 bits, without its scale.
    Decimal256(i256),
    /// A value of a column of text.
    Text(&'r str),
    /// A value of a column of bytes.
    Bytes(&'r [u8]),
}

impl Row {
    /// A row for a handle with this schema.
    pub(crate) fn new(time: i64, found: FoundRow, schema: &TableSchema) -> Self {
        Self {
            time,
            found,
            columns: schema.live().arrow().fields().len(),
            positions: schema.positions().cloned(),
        }
    }

    /// The row's time, in ticks of the time column's unit.
    #[must_use]
    pub fn time(&self) -> i64 {
        self.time
    }

    /// The value of the column at a position in the schema; none if the row has no value there, or
    /// there is no such column.
    #[must_use]
    pub fn value(&self, column: usize) -> Option<Value<'_>> {
        let column = match &self.positions {
            Some(positions) => *positions.get(column)?,
            None => Some(column).filter(|&column| column < self.columns)?,
        };
        match &self.found {
            FoundRow::Indexed(IndexedRow::InHead(columns, row)) => Value::at(columns.get(column)?, *row),
            FoundRow::Indexed(IndexedRow::InTree(values)) => value_of(values.get(column)?),
            FoundRow::Sparse(schema, found) => {
                let place = schema.places().get(column)?;
                if place.valid_bit.is_some_and(|bit| !found.bit(bit)) {
                    return None;
                }
                let kind = schema.arrow().field(column).data_type();
                Some(match place.place {
                    ColumnPlace::Time => Value::Int(self.time),
                    ColumnPlace::Bit(bit) => Value::Bool(found.bit(bit)),
                    ColumnPlace::Fixed { column, width } => {
                        let bytes = found.fixed(column, width);
                        number(kind, bytes).unwrap_or(Value::Bytes(bytes))
                    }
                    ColumnPlace::Variable(column) if *kind == DataType::Utf8 => {
                        Value::Text(std::str::from_utf8(found.variable(column)).ok()?)
                    }
                    ColumnPlace::Variable(column) => Value::Bytes(found.variable(column)),
                })
            }
        }
    }
}

impl<'r> Value<'r> {
    /// The value in a row of a column that a scan gave; none if there is no such row, or no value
    /// in it, or if the array's type is none that a table keeps.
    ///
    /// ```
    /// use arrow_array::Int64Array;
    /// use bedload::Value;
    ///
    /// let column = Int64Array::from(vec![Some(7), None]);
    /// assert_eq!(Value::at(&column, 0), Some(Value::Int(7)));
    /// assert_eq!(Value::at(&column, 1), None);
    /// ```
    #[must_use]
    pub fn at(array: &'r dyn Array, row: usize) -> Option<Self> {
        if row >= array.len() || array.is_null(row) {
            return None;
        }
        Some(match array.data_type() {
            DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
            DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row)),
            DataType::Binary => Value::Bytes(array.as_binary::<i32>().value(row)),
            DataType::FixedSizeBinary(_) => Value::Bytes(array.as_fixed_size_binary().value(row)),
            kind => {
                let width = kind.primitive_width()?;
                let data = array.to_data();
                let begin = (data.offset() + row) * width;
                let bytes = data.buffers().first()?.as_slice().get(begin..)?;
                number(kind, bytes.get(..width)?)?
            }
        })
    }
}

fn value_of(value: &bedload_columns::Value) -> Option<Value<'_>> {
    use bedload_columns::Value as Kept;
    Some(match value {
        Kept::Boolean(value) => Value::Bool(*value),
        Kept::Int(value) => Value::Int(*value),
        Kept::UInt(value) => Value::UInt(*value),
        Kept::Float16(value) => Value::Float((*value).into()),
        Kept::Float32(value) => Value::Float((*value).into()),
        Kept::Float64(value) => Value::Float(*value),
        Kept::Decimal128(value) => Value::Decimal(*value),
        Kept::Decimal256(value) => Value::Decimal256(*value),
        Kept::Text(text) => Value::Text(text),
        Kept::Bytes(bytes) => Value::Bytes(bytes),
        _ => return None,
    })
}

type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// The value in the bytes of a number or a time; `None` for other types.
fn number(kind: &DataType, bytes: &[u8]) -> Option<Value<'static>> {
    fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.first_chunk().copied()
    }
    Some(match kind {
        DataType::UInt8 => Value::UInt(u8::from_le_bytes(array(bytes)?).into()),
        DataType::UInt16 => Value::UInt(u16::from_le_bytes(array(bytes)?).into()),
        DataType::UInt32 => Value::UInt(u32::from_le_bytes(array(bytes)?).into()),
        DataType::UInt64 => Value::UInt(u64::from_le_bytes(array(bytes)?)),
        DataType::Float16 => Value::Float(F16::from_le_bytes(array(bytes)?).into()),
        DataType::Float32 => Value::Float(f32::from_le_bytes(array(bytes)?).into()),
        DataType::Float64 => Value::Float(f64::from_le_bytes(array(bytes)?)),
        DataType::Decimal128(..) => Value::Decimal(i128::from_le_bytes(array(bytes)?)),
        DataType::Decimal256(..) => Value::Decimal256(i256::from_le_bytes(array(bytes)?)),
        // Integers, times, dates, durations, months, and the shorter decimals.
        other => match other.primitive_width()? {
            1 => Value::Int(i8::from_le_bytes(array(bytes)?).into()),
            2 => Value::Int(i16::from_le_bytes(array(bytes)?).into()),
            4 => Value::Int(i32::from_le_bytes(array(bytes)?).into()),
            _ => Value::Int(i64::from_le_bytes(array(bytes)?)),
        },
    })
}
