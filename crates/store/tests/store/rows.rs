//! Rows for tests: a table with a column of every kind, and rows that can be compared.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, TimestampMillisecondType, UInt64Type};
use arrow_array::{
    Array, BooleanArray, Float64Array, Int32Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::{Result, Scan, Table, TableSchema};

/// A row: its time, and one value of each kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TestRow {
    pub(crate) time: i64,
    pub(crate) number: i32,
    pub(crate) measure: Option<f64>,
    pub(crate) flag: Option<bool>,
    pub(crate) text: Option<String>,
    pub(crate) name: String,
}

impl TestRow {
    /// A row whose columns follow from its number, nulls and long text among them.
    pub(crate) fn numbered(time: i64, number: i32) -> Self {
        let n = number.unsigned_abs() as usize;
        Self {
            time,
            number,
            measure: (!n.is_multiple_of(3)).then_some(f64::from(number) / 7.0),
            flag: (!n.is_multiple_of(5)).then_some(n.is_multiple_of(2)),
            text: (!n.is_multiple_of(4)).then(|| "ä".repeat(n % 97)),
            name: format!("row {number}"),
        }
    }
}

pub(crate) fn arrow_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("number", DataType::Int32, false),
        Field::new(
            "at",
            DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            false,
        ),
        Field::new("measure", DataType::Float64, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("name", DataType::Utf8, false),
    ]))
}

pub(crate) fn schema() -> TableSchema {
    TableSchema::new(arrow_schema(), "at").expect("storable")
}

pub(crate) fn batch(rows: &[TestRow]) -> RecordBatch {
    RecordBatch::try_new(
        arrow_schema(),
        vec![
            Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.number))),
            Arc::new(
                TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.time))
                    .with_timezone("UTC"),
            ),
            Arc::new(rows.iter().map(|row| row.measure).collect::<Float64Array>()),
            Arc::new(rows.iter().map(|row| row.flag).collect::<BooleanArray>()),
            Arc::new(
                rows.iter()
                    .map(|row| row.text.as_deref())
                    .collect::<StringArray>(),
            ),
            Arc::new(
                rows.iter()
                    .map(|row| Some(row.name.as_str()))
                    .collect::<StringArray>(),
            ),
        ],
    )
    .expect("columns of one length")
}

pub(crate) fn append(table: &Table, rows: &[TestRow]) -> Result<()> {
    table.append(&batch(rows)).map(drop)
}

/// All rows of a scan over all columns, with their sequence numbers.
pub(crate) fn collect(scan: Scan) -> Result<Vec<(u64, TestRow)>> {
    let mut rows = Vec::new();
    for batch in scan.with_sequence() {
        rows.extend(rows_of(&batch?));
    }
    Ok(rows)
}

fn rows_of(batch: &RecordBatch) -> Vec<(u64, TestRow)> {
    let sequences = batch.column(6).as_primitive::<UInt64Type>().values();
    sequences
        .iter()
        .copied()
        .zip(rows_without_sequence(batch))
        .collect()
}

/// The rows of a batch of all columns.
pub(crate) fn rows_without_sequence(batch: &RecordBatch) -> Vec<TestRow> {
    let numbers = batch.column(0).as_primitive::<Int32Type>();
    let times = batch.column(1).as_primitive::<TimestampMillisecondType>();
    let measures = batch.column(2).as_primitive::<Float64Type>();
    let flags = batch.column(3).as_boolean();
    let texts = batch.column(4).as_string::<i32>();
    let names = batch.column(5).as_string::<i32>();
    (0..batch.num_rows())
        .map(|i| TestRow {
            time: times.value(i),
            number: numbers.value(i),
            measure: measures.is_valid(i).then(|| measures.value(i)),
            flag: flags.is_valid(i).then(|| flags.value(i)),
            text: texts.is_valid(i).then(|| texts.value(i).to_owned()),
            name: names.value(i).to_owned(),
        })
        .collect()
}
