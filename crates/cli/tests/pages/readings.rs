use std::sync::Arc;
use bedload::arrow::array::{Float64Array, RecordBatch, TimestampSecondArray};
use bedload::arrow::schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Store, TableSchema};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let columns = Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Second, Some("UTC".into())), false),
        Field::new("celsius", DataType::Float64, true),
    ]));
    // The third row is late.
    let batch = RecordBatch::try_new(columns.clone(), vec![
        Arc::new(TimestampSecondArray::from(vec![1000, 1020, 1010]).with_timezone("UTC")),
        Arc::new(Float64Array::from(vec![Some(20.5), Some(20.7), None])),
    ])?;

    let store = Store::open_or_create("readings.bedload")?;
    let table = store.table_or_create("readings", TableSchema::new(columns, "at")?)?;
    table.delete_range(1000..2000)?; // rows of an earlier run
    table.append(&batch)?; // durable when it returns

    let before = store.snapshot();
    table.delete_range(..1005)?;
    for batch in table.range(1000..2000)?.columns(&["at", "celsius"])? {
        println!("{:?}", batch?); // 1010, then 1020
    }
    assert_eq!(before.range("readings", ..)?.count()?, 3);
    store.close()?;
    Ok(())
}
