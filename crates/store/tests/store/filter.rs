//! Filters spare reads, and refuse conditions that no column can meet.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, Int32Array, RecordBatch, TimestampMillisecondArray, TimestampSecondArray,
};
use bedload::{Operator, Options, Predicate, Store, TableSchema};

use crate::rows::{TestRow, append, schema};

/// Rows whose numbers ascend in one column and are all over in the other.
fn batch(rows: i32) -> RecordBatch {
    let ascending: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows));
    let scattered = (0..i64::from(rows)).map(|row| (row * 7919 % i64::from(rows)) as f64);
    let times = TimestampSecondArray::from_iter_values((0..rows).map(i64::from));
    RecordBatch::try_from_iter_with_nullable([
        ("at", Arc::new(times) as ArrayRef, false),
        ("ascending", ascending, false),
        (
            "scattered",
            Arc::new(Float64Array::from_iter_values(scattered)) as ArrayRef,
            false,
        ),
    ])
    .expect("columns of one length")
}

#[test]
fn leaves_that_cannot_match_are_not_decoded() {
    const ROWS: i32 = 400_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Store::create(dir.path().join("store")).expect("creates");
    let batch = batch(ROWS);
    let schema = TableSchema::new(batch.schema(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    table.append(&batch).expect("appends");
    store.flush().expect("flushes");
    // Bytes that a scan of rows with a number in one of the columns allocates.
    let bytes = |column: &str, literal: &dyn Array| {
        let predicate = Predicate::compare(Operator::Eq, literal).expect("comparable");
        let scan = table.range(..).expect("there").filter(column, predicate);
        let mut rows = 0;
        let scan = scan.expect("it fits");
        let measured = allocation_counter::measure(|| {
            rows = scan.map(|batch| batch.expect("reads").num_rows()).sum();
        });
        assert_eq!(rows, 1, "{column}");
        measured.bytes_total
    };
    // Pages are in the cache after the first scan.
    assert_eq!(
        table
            .range(..)
            .expect("there")
            .map(|batch| batch.expect("reads").num_rows())
            .sum::<usize>(),
        400_000
    );
    let told = bytes("ascending", &Int32Array::from(vec![ROWS / 3]));
    let not_told = bytes("scattered", &Float64Array::from(vec![f64::from(ROWS / 3)]));
    assert!(
        told * 10 < not_told,
        "{told} bytes where leaves tell, {not_told} where they do not"
    );
}

#[test]
fn a_filter_that_does_not_fit_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Options::new()
        .create(true)
        .open(dir.path().join("store"))
        .expect("creates");
    let table = store.create_table("t", schema()).expect("fresh");
    append(&table, &[TestRow::numbered(1, 1)]).expect("appends");
    let refused = |column: &str, literal: &dyn Array| {
        let predicate = Predicate::compare(Operator::Lt, literal).expect("comparable");
        let scan = table.range(..).expect("there").filter(column, predicate);
        scan.map(drop).expect_err("it does not fit").to_string()
    };
    let seven = Int32Array::from(vec![7]);
    assert!(refused("nubmer", &seven).contains("there is no column \"nubmer\""));
    assert!(refused("measure", &seven).contains("\"measure\" is Float64"));
    // A time without the zone of the column is of another type.
    assert!(refused("at", &TimestampMillisecondArray::from(vec![7])).contains("\"at\" is Timestamp"));
    let at = TimestampMillisecondArray::from(vec![7]).with_timezone("UTC");
    let predicate = Predicate::compare(Operator::Lt, &at).expect("comparable");
    let scan = table
        .range(..)
        .expect("there")
        .filter("at", predicate)
        .expect("it fits");
    assert_eq!(scan.count().expect("reads"), 1);
}

#[test]
fn what_a_scan_reads_is_settled_with_its_first_batch() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Store::create(dir.path().join("store")).expect("creates");
    let batch = batch(20_000);
    let schema = TableSchema::new(batch.schema(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    table.append(&batch).expect("appends");
    let begun = || {
        let mut scan = table.range(..).expect("there");
        let first = scan.next().expect("there are rows").expect("reads");
        (scan, first.num_rows())
    };
    let none = Predicate::compare(Operator::Lt, &Int32Array::from(vec![0])).expect("comparable");
    let refused = [
        begun().0.filter("ascending", none),
        begun().0.columns(&["ascending"]),
    ];
    for refused in refused {
        assert!(
            refused
                .expect_err("it has begun")
                .to_string()
                .contains("has begun")
        );
    }
    for mut scan in [begun().0.rev(), begun().0.with_sequence()] {
        let next = scan.next().expect("an error");
        assert!(next.expect_err("it had begun").to_string().contains("has begun"));
    }
    let (scan, first) = begun();
    assert_eq!(scan.count().expect("reads"), 20_000 - first as u64);
    let (scan, _) = begun();
    assert_eq!(scan.limit(10).limit(20).count().expect("reads"), 10);
    assert_eq!(
        table
            .range(..)
            .expect("there")
            .limit(10)
            .limit(20)
            .count()
            .expect("reads"),
        10
    );
}
