//! The moments that queries see.

use std::sync::Arc;

use bedload::Options;
use bedload::arrow::array::RecordBatch;
use bedload::arrow::schema::{DataType, Field};
use bedload_datafusion::{BedloadTable, StoreSchema};
use datafusion::prelude::SessionContext;

use crate::rows::Plant;

async fn count(session: &SessionContext, table: &str) -> usize {
    session.table(table).await.unwrap().count().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_as_it_is_when_a_query_is_planned() {
    let plant = Plant::new();
    let session = SessionContext::new();
    let before = plant.store.snapshot();
    session
        .register_table("live", Arc::new(BedloadTable::new(&plant.cpu)))
        .unwrap();
    session
        .register_table("then", Arc::new(BedloadTable::at(&before, "cpu").unwrap()))
        .unwrap();
    let catalog = session.catalog("datafusion").unwrap();
    catalog
        .register_schema("past", Arc::new(StoreSchema::at(&before)))
        .unwrap();

    let all = count(&session, "live").await;
    let planned = session
        .sql("SELECT * FROM live")
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap();
    plant.cpu.delete_range(..0).unwrap();
    let kept = count(&session, "live").await;
    assert!(0 < kept && kept < all, "{kept} of {all}");
    assert_eq!(count(&session, "then").await, all);
    assert_eq!(count(&session, "past.cpu").await, all);

    // Rows that a plan was made for are those that it gives, whenever it runs.
    plant.store.flush().unwrap();
    let rows = datafusion::physical_plan::collect(planned, session.task_ctx())
        .await
        .unwrap();
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), all);

    plant.store.drop_table("cpu").unwrap();
    assert_eq!(count(&session, "past.cpu").await, all);
    assert!(BedloadTable::at(&plant.store.snapshot(), "cpu").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn added_columns_are_those_of_a_store_and_not_of_an_older_table() {
    let plant = Plant::new();
    let (session, of_older) = (plant.session(), SessionContext::new());
    let older = Arc::new(BedloadTable::new(&plant.cpu));
    of_older.register_table("older", older).unwrap();
    let all = count(&session, "cpu").await;
    let state = Field::new("state", DataType::Utf8, true);
    plant.store.add_columns("cpu", [state]).unwrap();
    for (condition, expected) in [("state IS NULL", all), ("state = 'on'", 0), ("state > ''", 0)] {
        let query = format!("SELECT * FROM cpu WHERE {condition}");
        let found = session.sql(&query).await.unwrap().count().await.unwrap();
        assert_eq!(found, expected, "{condition}");
    }
    assert_eq!(count(&of_older, "older").await, all);
    let query = "SELECT state FROM older";
    assert!(of_older.sql(query).await.is_err(), "it has no such column");
}

#[tokio::test(flavor = "multi_thread")]
async fn renamed_columns_have_the_names_with_which_a_table_was_registered() {
    let plant = Plant::new();
    let (session, of_older) = (plant.session(), SessionContext::new());
    let older = Arc::new(BedloadTable::new(&plant.cpu));
    of_older.register_table("older", older).unwrap();
    let then = Arc::new(BedloadTable::at(&plant.store.snapshot(), "cpu").unwrap());
    of_older.register_table("then", then).unwrap();
    let rows = async |session: &SessionContext, table: &str, [time, column]: [&str; 2]| {
        let query = format!(
            "SELECT {time}, {column} FROM {table} WHERE {column} > 50 AND {time} < TIMESTAMP '1970-01-01' \
             ORDER BY {time} DESC, {column} LIMIT 5"
        );
        let frame = session.sql(&query).await.unwrap();
        let names = frame.schema().field_names();
        (names, frame.collect().await.unwrap())
    };
    let values = |batches: &[RecordBatch]| {
        let columns = batches.iter().flat_map(|batch| batch.columns().to_vec());
        columns.collect::<Vec<_>>()
    };
    let (_, before) = rows(&session, "cpu", ["at", "usage"]).await;
    assert_eq!(before.iter().map(RecordBatch::num_rows).sum::<usize>(), 5);
    plant.store.rename_column("cpu", "at", "moment").unwrap();
    plant.store.rename_column("cpu", "usage", "busy").unwrap();
    // Other columns have the old names by now.
    let others = ["at", "usage"].map(|name| Field::new(name, DataType::Utf8, true));
    plant.store.add_columns("cpu", others).unwrap();
    for (session, table, names) in [
        (&session, "cpu", ["moment", "busy"]),
        (&of_older, "older", ["at", "usage"]),
        (&of_older, "then", ["at", "usage"]),
    ] {
        let (found, batches) = rows(session, table, names).await;
        assert_eq!(found, names.map(|name| format!("{table}.{name}")));
        assert_eq!(values(&batches), values(&before), "{table}");
    }
    assert!(of_older.sql("SELECT busy FROM older").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_store_is_as_it_was_at_the_last_refresh() {
    let plant = Plant::new();
    let reader = Options::new().read_only(true).open(plant.path()).unwrap();
    let session = SessionContext::new();
    let table = BedloadTable::new(&reader.table("cpu").unwrap());
    session.register_table("cpu", Arc::new(table)).unwrap();
    let all = count(&session, "cpu").await;
    plant.cpu.delete_range(..0).unwrap();
    assert_eq!(count(&session, "cpu").await, all);
    assert!(reader.refresh().unwrap());
    let kept = count(&session, "cpu").await;
    assert!(0 < kept && kept < all, "{kept} of {all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_a_schema_of_its_tables() {
    let plant = Plant::new();
    let catalog = plant.session().catalog("datafusion").unwrap();
    let schema = catalog.schema("public").unwrap();
    assert_eq!(schema.table_names(), ["cpu", "alarms"]);
    assert!(schema.table_exist("alarms") && !schema.table_exist("Alarms"));
    assert!(schema.table("Alarms").await.unwrap().is_none());
}
