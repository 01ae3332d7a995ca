//! A row that was read by its time.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::DataType;

use crate::rows::ColumnPlace;
use crate::table::{FoundRow, IndexedRow};

/// One row of a table. Values of a sparse table are read where they stand, in the cache.
#[derive(Debug, Clone)]
pub struct Row {
    time: i64,
    found: FoundRow,
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Value<'r> {
    /// Of a boolean column.
    Bool(bool),
    /// Of a column of signed integers, times or dates: ticks of the column's unit, or days.
    Int(i64),
    /// Of a column of unsigned integers.
    UInt(u64),
    /// Of a column of floating-point numbers.
    Float(f64),
    /// Of a column of text.
    Text(&'r str),
    /// Of a column of bytes.
    Bytes(&'r [u8]),
}

impl Row {
    pub(crate) fn new(time: i64, found: FoundRow) -> Self {
        Self { time, found }
    }

    /// The row's time, in ticks of the time column's unit.
    #[must_use]
    pub fn time(&self) -> i64 {
        self.time
    }

    /// The value of the column at a position in the schema; none if the row has no value there, or there is no such
    /// column.
    #[must_use]
    pub fn value(&self, column: usize) -> Option<Value<'_>> {
        match &self.found {
            FoundRow::Indexed(IndexedRow::InHead(rows, row)) => {
                let array = rows.columns().get(column)?;
                value_of_array(&**array, *row, self.time)
            }
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
                    ColumnPlace::Fixed { column, width } => value_of_bytes(kind, found.fixed(column, width))?,
                    ColumnPlace::Variable(column) => {
                        Value::Text(std::str::from_utf8(found.variable(column)).ok()?)
                    }
                })
            }
        }
    }
}

fn value_of(value: &bedload_columns::Value) -> Option<Value<'_>> {
    use bedload_columns::Value as Kept;
    Some(match value {
        Kept::Boolean(value) => Value::Bool(*value),
        Kept::Int(value) => Value::Int(*value),
        Kept::UInt(value) => Value::UInt(*value),
        Kept::Float32(value) => Value::Float((*value).into()),
        Kept::Float64(value) => Value::Float(*value),
        Kept::Text(text) => Value::Text(text),
        Kept::Bytes(bytes) => Value::Bytes(bytes),
        _ => return None,
    })
}

fn value_of_array(array: &dyn Array, row: usize, time: i64) -> Option<Value<'_>> {
    if array.is_null(row) {
        return None;
    }
    let data = array.to_data();
    match array.data_type() {
        DataType::Boolean => Some(Value::Bool(array.as_boolean().value(row))),
        DataType::Utf8 => Some(Value::Text(array.as_string::<i32>().value(row))),
        DataType::FixedSizeBinary(_) => Some(Value::Bytes(array.as_fixed_size_binary().value(row))),
        kind => {
            let width = kind.primitive_width()?;
            let begin = (data.offset() + row) * width;
            let bytes = data.buffers().first()?.as_slice().get(begin..)?;
            // A number does not borrow from the array.
            match value_of_bytes(kind, bytes.get(..width)?)? {
                Value::Int(value) => Some(Value::Int(value)),
                Value::UInt(value) => Some(Value::UInt(value)),
                Value::Float(value) => Some(Value::Float(value)),
                _ => Some(Value::Int(time)),
            }
        }
    }
}

fn value_of_bytes<'b>(kind: &DataType, bytes: &'b [u8]) -> Option<Value<'b>> {
    fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.first_chunk().copied()
    }
    Some(match kind {
        DataType::Int8 => Value::Int(i8::from_le_bytes(array(bytes)?).into()),
        DataType::Int16 => Value::Int(i16::from_le_bytes(array(bytes)?).into()),
        DataType::Int32 | DataType::Date32 => Value::Int(i32::from_le_bytes(array(bytes)?).into()),
        DataType::Int64 | DataType::Timestamp(..) => Value::Int(i64::from_le_bytes(array(bytes)?)),
        DataType::UInt8 => Value::UInt(u8::from_le_bytes(array(bytes)?).into()),
        DataType::UInt16 => Value::UInt(u16::from_le_bytes(array(bytes)?).into()),
        DataType::UInt32 => Value::UInt(u32::from_le_bytes(array(bytes)?).into()),
        DataType::UInt64 => Value::UInt(u64::from_le_bytes(array(bytes)?)),
        DataType::Float32 => Value::Float(f32::from_le_bytes(array(bytes)?).into()),
        DataType::Float64 => Value::Float(f64::from_le_bytes(array(bytes)?)),
        _ => Value::Bytes(bytes),
    })
}
