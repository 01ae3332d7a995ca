//! Batches that are longer than the memory for rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampSecondType, UInt64Type};
use arrow_array::{Int64Array, RecordBatch, StringArray, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::{Durability, Error, Grid, Layout, Options, Store, Table, TableSchema};

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("number", DataType::Int64, false),
        Field::new("text", DataType::Utf8, true),
    ]))
}

fn batch(times: Vec<i64>, text: impl Fn(usize) -> Option<String>) -> RecordBatch {
    let numbers = (0..).take(times.len());
    let texts: StringArray = (0..times.len()).map(text).collect();
    let columns_of_rows: Vec<Arc<dyn arrow_array::Array>> = vec![
        Arc::new(TimestampSecondArray::from(times)),
        Arc::new(Int64Array::from_iter_values(numbers)),
        Arc::new(texts),
    ];
    RecordBatch::try_new(columns(), columns_of_rows).expect("columns of one length")
}

fn create(store: &Store, layout: Layout) -> Table {
    let schema = TableSchema::new(columns(), "at").expect("storable");
    store.create_table_as("t", schema, layout).expect("fresh")
}

fn options() -> Options {
    Options::new()
        .create(true)
        .page_bytes(4096)
        .head_bytes(1 << 20)
        .cache_bytes(1 << 20)
        .background(false)
        .durability(Durability::Relaxed)
}

/// Times and numbers of all rows.
fn read(table: &Table) -> Vec<(i64, i64)> {
    let mut rows = Vec::new();
    for batch in table.range(..).expect("there") {
        let batch = batch.expect("reads");
        let times = batch.column(0).as_primitive::<TimestampSecondType>().values();
        let numbers = batch.column(1).as_primitive::<Int64Type>().values();
        rows.extend(times.iter().copied().zip(numbers.iter().copied()));
    }
    rows
}

#[test]
fn the_rows_of_a_long_batch_come_as_one_commit() {
    const ROWS: i64 = 60_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    for layout in [Layout::Indexed, Layout::Sparse(Grid::every(1).expect("positive"))] {
        let path = dir.path().join(format!("{}", layout == Layout::Indexed));
        let store = options().open(&path).expect("creates");
        let table = create(&store, layout);
        // Out of order, and each time twice.
        let times: Vec<i64> = (0..ROWS).map(|number| number * 7919 % (ROWS / 2)).collect();
        table.append(&batch(vec![-5, 3], |_| None)).expect("appends");
        let before = store.snapshot();
        let long = table.append(&batch(times.clone(), |_| None)).expect("appends");
        let after = table
            .append(&batch(vec![7], |_| Some("last".into())))
            .expect("appends");
        assert_eq!(long.rows, ROWS.unsigned_abs());
        assert!(after.first_sequence >= long.first_sequence + long.rows);
        assert_eq!(before.range("t", ..).expect("there").count().expect("reads"), 2);

        let mut expected: Vec<(i64, i64)> = vec![(-5, 0), (3, 1)];
        expected.extend(times.into_iter().zip(0..));
        expected.push((7, 0));
        // In the order of arrival among those of one time.
        expected.sort_by_key(|(time, _)| *time);
        if layout != Layout::Indexed {
            expected.reverse();
            expected.dedup_by_key(|(time, _)| *time);
            expected.reverse();
        }
        assert_eq!(read(&table), expected);
        if layout == Layout::Indexed {
            let scan = table
                .range(..)
                .expect("there")
                .columns(&[])
                .expect("none")
                .with_sequence();
            let mut sequences: Vec<u64> = Vec::new();
            for batch in scan {
                sequences.extend(
                    batch
                        .expect("reads")
                        .column(0)
                        .as_primitive::<UInt64Type>()
                        .values(),
                );
            }
            sequences.sort_unstable();
            sequences.dedup();
            assert_eq!(sequences.len(), expected.len(), "each row has its own number");
        }
        drop((before, table, store));
        let store = Store::open(&path).expect("opens");
        let table = store.table("t").expect("there");
        assert_eq!(read(&table), expected);
        assert_eq!(store.verify().expect("reads").problems, []);
    }
}

#[test]
fn a_long_batch_with_a_row_that_is_too_long_changes_nothing() {
    const ROWS: usize = 60_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = options().open(dir.path().join("store")).expect("creates");
    let table = create(&store, Layout::Indexed);
    table.append(&batch(vec![1, 2], |_| None)).expect("appends");
    let times = (0..).take(ROWS).collect();
    let too_long = batch(times, |row| (row == ROWS - 3).then(|| "x".repeat(2 << 20)));
    let error = table.append(&too_long).expect_err("a row is too long");
    assert!(
        matches!(error, Error::RowTooLong { row, .. } if row == ROWS - 3),
        "{error}"
    );
    assert_eq!(read(&table), [(1, 0), (2, 1)]);
    let mark = table.mark();
    table.append(&batch(vec![3], |_| None)).expect("appends");
    store.flush().expect("flushes");
    assert_eq!(read(&table), [(1, 0), (2, 1), (3, 0)]);
    table.retract_since(mark).expect("its own");
    assert_eq!(read(&table), [(1, 0), (2, 1)]);
    assert_eq!(store.verify().expect("reads").problems, []);
}

/// Its numbers are not in the log, so others get them.
#[test]
fn a_mark_after_a_long_batch_that_failed_is_right_once_the_store_was_opened_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let open = || options().open(dir.path().join("store")).expect("opens");
    let store = open();
    let table = create(&store, Layout::Indexed);
    table.append(&batch(vec![1, 2], |_| None)).expect("appends");
    let times = (0..60_000).collect();
    let too_long = batch(times, |row| (row == 59_999).then(|| "x".repeat(2 << 20)));
    table.append(&too_long).expect_err("a row is too long");
    let mark = table.mark();
    drop((table, store));
    let store = open();
    let table = store.table("t").expect("there");
    table.append(&batch(vec![3, 4], |_| None)).expect("appends");
    table.retract_since(mark).expect("its own");
    assert_eq!(read(&table), [(1, 0), (2, 1)]);
}

#[test]
fn a_row_that_is_too_long_is_named_by_its_number_in_the_batch() {
    const ROWS: usize = 60_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = options().open(dir.path().join("store")).expect("creates");
    let long = |row: usize| (row == ROWS - 3).then(|| "x".repeat(2 << 20));
    let in_order = batch((0..).take(ROWS).collect(), long);
    let sparse = Layout::Sparse(Grid::every(1).expect("positive"));
    let table = create(&store, sparse);
    let key = TableSchema::new(columns(), "at").and_then(|schema| schema.with_key(&["number"]));
    let keyed = store
        .create_table("keyed", key.expect("storable"))
        .expect("fresh");
    // The first eleven rows have one key, so ten of them are not stored.
    let numbers = (0..).take(ROWS).map(|number: i64| number.max(10));
    let mut doubled = in_order.columns().to_vec();
    doubled[0] = Arc::new(TimestampSecondArray::from_iter_values(numbers.clone()));
    doubled[1] = Arc::new(Int64Array::from_iter_values(numbers));
    let doubled = RecordBatch::try_new(columns(), doubled).expect("columns of one length");
    for (table, batch) in [(table, in_order), (keyed, doubled)] {
        let error = table.append(&batch).expect_err("a row is too long");
        assert!(
            matches!(error, Error::RowTooLong { row, .. } if row == ROWS - 3),
            "{error}"
        );
    }
}
