//! Batches with more text and bytes than a commit holds, cut into some that fit.

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch};
use arrow_schema::DataType;
use pyo3::prelude::*;

use crate::error;

/// The rows of a batch, in slices with at most `most` bytes of text and binary values each. Errors
/// count rows from `rows_before`, the rows of earlier batches.
pub(crate) fn slices(batch: &RecordBatch, most: usize, rows_before: usize) -> PyResult<Vec<RecordBatch>> {
    let lengths: Vec<_> = batch.columns().iter().filter_map(length_at).collect();
    let (mut first, mut bytes) = (0, 0_usize);
    let mut slices = Vec::new();
    for row in 0..batch.num_rows() {
        let length: usize = lengths.iter().map(|length| length(row)).sum();
        if length > most {
            return Err(error::schema(format!(
                "row {} has {length} bytes of text and binary values: at most {most} can be appended at once",
                rows_before + row
            )));
        }
        if bytes + length > most {
            slices.push(batch.slice(first, row - first));
            (first, bytes) = (row, 0);
        }
        bytes += length;
    }
    slices.push(batch.slice(first, batch.num_rows() - first));
    Ok(slices)
}

/// Bytes of text and binary values of all rows, in columns of any layout.
pub(crate) fn long_bytes(batch: &RecordBatch) -> usize {
    let bytes = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().offsets().lengths().sum(),
        DataType::Binary => column.as_binary::<i32>().offsets().lengths().sum(),
        DataType::LargeUtf8 => column.as_string::<i64>().offsets().lengths().sum(),
        DataType::LargeBinary => column.as_binary::<i64>().offsets().lengths().sum(),
        DataType::Utf8View => column.as_string_view().lengths().map(|len| len as usize).sum(),
        DataType::BinaryView => column.as_binary_view().lengths().map(|len| len as usize).sum(),
        _ => match length_at(column) {
            None => 0,
            Some(length) => (0..column.len()).map(length).sum(),
        },
    };
    batch.columns().iter().map(bytes).sum()
}

/// The length of the value of each row of a column; none if its values have one width.
fn length_at(column: &ArrayRef) -> Option<Box<dyn Fn(usize) -> usize + '_>> {
    Some(match column.data_type() {
        DataType::Utf8 => Box::new(|row| column.as_string::<i32>().value(row).len()),
        DataType::Binary => Box::new(|row| column.as_binary::<i32>().value(row).len()),
        DataType::LargeUtf8 => Box::new(|row| column.as_string::<i64>().value(row).len()),
        DataType::LargeBinary => Box::new(|row| column.as_binary::<i64>().value(row).len()),
        DataType::Utf8View => length_of_view(column.as_string_view()),
        DataType::BinaryView => length_of_view(column.as_binary_view()),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let values = dictionary.values();
            if values.is_empty() {
                return None;
            }
            let length = length_at(values)?;
            let keys = dictionary.normalized_keys();
            Box::new(move |row| if column.is_null(row) { 0 } else { length(keys[row]) })
        }
        _ => return None,
    })
}

/// The length of each view; one under a null may be anything.
fn length_of_view<T: ByteViewType + ?Sized>(
    views: &GenericByteViewArray<T>,
) -> Box<dyn Fn(usize) -> usize + '_> {
    Box::new(|row| {
        if views.is_null(row) {
            0
        } else {
            AsRef::<[u8]>::as_ref(views.value(row)).len()
        }
    })
}
