//! Which table a provider reads, and which of its rows are alike.

use std::sync::Arc;

use bedload::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampSecondArray};
use bedload::arrow::schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Store, Table, TableSchema};
use bedload_datafusion::BedloadTable;
use datafusion::prelude::SessionContext;
use tempfile::TempDir;

fn schema(columns: &[&str]) -> TableSchema {
    let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    let floats = columns
        .iter()
        .map(|name| Field::new(*name, DataType::Float64, true));
    let fields: Vec<Field> = std::iter::once(at).chain(floats).collect();
    TableSchema::new(Arc::new(Schema::new(fields)), "at").unwrap()
}

/// Appends a row of time 1.
fn append(table: &Table, values: &[f64]) {
    let at: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1]));
    let floats = values
        .iter()
        .map(|&value| Arc::new(Float64Array::from(vec![value])) as ArrayRef);
    let columns = std::iter::once(at).chain(floats).collect();
    let batch = RecordBatch::try_new(table.schema().arrow().clone(), columns).unwrap();
    table.append(&batch).unwrap();
}

async fn floats(session: &SessionContext, query: &str) -> datafusion::common::Result<Vec<f64>> {
    let batches = session.sql(query).await?.collect().await?;
    let column = |batch: &RecordBatch| batch.column(0).as_any().downcast_ref::<Float64Array>().cloned();
    Ok(batches
        .iter()
        .flat_map(|batch| column(batch).unwrap().values().to_vec())
        .collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_table_of_its_name_is_not_read() {
    let dir = TempDir::new().unwrap();
    let store = Store::create(dir.path().join("s")).unwrap();
    let table = store.create_table("t", schema(&["celsius", "volts"])).unwrap();
    append(&table, &[20.0, 230.0]);
    let session = SessionContext::new();
    session
        .register_table("t", Arc::new(BedloadTable::new(&table)))
        .unwrap();
    let query = "SELECT celsius FROM t";
    assert_eq!(floats(&session, query).await.unwrap(), [20.0]);

    // It is the same table under another name, and another one has its name.
    store.rename_table("t", "old").unwrap();
    let other = store.create_table("t", schema(&["volts", "celsius"])).unwrap();
    append(&other, &[231.0, 21.0]);
    assert_eq!(floats(&session, query).await.unwrap(), [20.0]);

    store.drop_table("old").unwrap();
    let error = floats(&session, query).await.unwrap_err();
    assert!(error.to_string().contains("there is no table"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn zeros_that_a_key_tells_apart_are_one_value() {
    let dir = TempDir::new().unwrap();
    let store = Store::create(dir.path().join("s")).unwrap();
    let keyed = schema(&["f", "v"]).with_key(&["f"]).unwrap();
    let table = store.create_table("t", keyed).unwrap();
    append(&table, &[0.0, 1.0]);
    append(&table, &[-0.0, 2.0]);
    let session = SessionContext::new();
    session
        .register_table("t", Arc::new(BedloadTable::new(&table)))
        .unwrap();
    assert_eq!(floats(&session, "SELECT v FROM t").await.unwrap().len(), 2);
    let distinct = floats(&session, "SELECT DISTINCT f, at FROM t").await.unwrap();
    assert_eq!(distinct, [0.0]);
}

/// `unnest` repeats the key of a row, so DataFusion may not take the key of its input for one of
/// its output.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_a_query_repeats_are_told_apart() {
    let dir = TempDir::new().unwrap();
    let store = Store::create(dir.path().join("s")).unwrap();
    let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    let text = |name| Field::new(name, DataType::Utf8, true);
    let columns = Arc::new(Schema::new(vec![at, text("sensor"), text("note")]));
    let keyed = TableSchema::new(columns.clone(), "at")
        .unwrap()
        .with_key(&["sensor"])
        .unwrap();
    let table = store.create_table("t", keyed).unwrap();
    let values: Vec<ArrayRef> = vec![
        Arc::new(TimestampSecondArray::from(vec![1, 1, 2])),
        Arc::new(StringArray::from(vec!["a", "b", "a"])),
        Arc::new(StringArray::from(vec!["xy", "xx", "yz"])),
    ];
    table
        .append(&RecordBatch::try_new(columns, values).unwrap())
        .unwrap();
    let session = SessionContext::new();
    session
        .register_table("t", Arc::new(BedloadTable::new(&table)))
        .unwrap();
    for (distinct, expected) in [("sensor, at", 3), ("sensor", 2), ("at, sensor, c", 5), ("c", 3)] {
        let query = format!(
            "SELECT DISTINCT {distinct} FROM \
             (SELECT sensor, at, unnest(regexp_match(note, '(.)(.)')) AS c FROM t)"
        );
        let rows = session.sql(&query).await.unwrap().collect().await.unwrap();
        let rows: usize = rows.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, expected, "{query}");
    }
}
