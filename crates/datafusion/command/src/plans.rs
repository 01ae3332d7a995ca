//! Plans as tables show them: a row for each line, as `psql` does.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::error::ArrowError;

/// The rows of a plan, an array of strings in each column, by the lines of the last column: the
/// others have values in the first one.
pub(crate) fn by_lines(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<&StringArray> = batch.columns().iter().map(|column| column.as_string()).collect();
    let Some((plan, others)) = columns.split_last() else {
        return Ok(batch.clone());
    };
    let lines: Vec<(usize, usize, &str)> = (0..batch.num_rows())
        .flat_map(|row| {
            let lines = plan.value(row).lines().enumerate();
            lines.map(move |(number, line)| (row, number, line))
        })
        .collect();
    let first = |values: &StringArray| -> StringArray {
        let value = |&(row, number, _): &(usize, usize, &str)| {
            (number == 0 && values.is_valid(row)).then(|| values.value(row).to_owned())
        };
        lines.iter().map(value).collect()
    };
    let plans: StringArray = lines.iter().map(|(_, _, line)| Some(*line)).collect();
    let others = others.iter().map(|values| Arc::new(first(values)) as _);
    let columns = others.chain([Arc::new(plans) as _]).collect();
    let fields = batch.schema_ref().fields().iter();
    let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns)
}
