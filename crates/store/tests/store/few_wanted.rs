//! Scans that give few rows look at few. Tests count allocations, by number or by bytes: they grow
//! with the rows that are unpacked, compared or copied.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampSecondArray};
use bedload::{Operator, Options, Predicate, Scan, Store, Table, TableSchema};
use bedload_testkit::Rng;

use crate::rows::{TestRow, append, schema};

/// A store without a flusher, and what removes it.
fn open() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options::new().create(true).background(false).head_bytes(1 << 30);
    let store = options.open(dir.path().join("store")).expect("creates");
    (dir, store)
}

/// Rows of other numbers each, so that no batch of them is packed.
fn random(times: std::ops::Range<i64>) -> RecordBatch {
    let mut rng = Rng::new(3);
    let numbers = times.clone().map(|_| rng.next_u64().cast_signed());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    let at: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(times));
    let columns = [("at", at, false), ("number", numbers, false)];
    RecordBatch::try_from_iter_with_nullable(columns).expect("of one length")
}

fn random_table(store: &Store, times: std::ops::Range<i64>) -> Table {
    let batch = random(times);
    let schema = TableSchema::new(batch.schema(), "at").expect("storable");
    let table = store.create_table("random", schema).expect("fresh");
    table.append(&batch).expect("appends");
    table
}

/// The rows and the batches of a scan, and its allocations: how many, and their bytes.
fn costs(scan: Scan) -> (usize, usize, u64, u64) {
    let (mut rows, mut batches) = (0, 0);
    let measured = allocation_counter::measure(|| {
        for batch in scan {
            rows += batch.expect("reads").num_rows();
            batches += 1;
        }
    });
    (rows, batches, measured.count_total, measured.bytes_total)
}

fn at_least(number: i64) -> Predicate {
    Predicate::compare(Operator::GtEq, &Int64Array::from(vec![number])).expect("comparable")
}

#[test]
fn a_filter_looks_at_rows_of_the_range_alone() {
    let (_dir, store) = open();
    let table = random_table(&store, 0..200_000);
    let some = table.range(1000..1010).expect("there");
    let (rows, _, _, bytes) = costs(some.filter("number", at_least(i64::MIN)).expect("it fits"));
    assert_eq!(rows, 10);
    assert!(bytes < 200_000 / 16, "{bytes} bytes for ten of 200,000 rows");
}

#[test]
fn a_filter_unpacks_rows_until_enough_match() {
    let (_dir, store) = open();
    let table = store.create_table("t", schema()).expect("fresh");
    let rows: Vec<TestRow> = (0..)
        .take(20_000)
        .zip(0..)
        .map(|(at, n)| TestRow::numbered(at, n))
        .collect();
    append(&table, &rows).expect("appends");
    let small = |number: i32| {
        let number = arrow_array::Int32Array::from(vec![number]);
        Predicate::compare(Operator::Lt, &number).expect("comparable")
    };
    // The newest rows match, and then those before a few that do not.
    for (number, most) in [(20_000, 150_000), (19_900, 300_000)] {
        let newest = table.range(..).expect("there").rev().limit(1);
        let newest = newest.filter("number", small(number)).expect("it fits");
        let (rows, _, _, bytes) = costs(newest);
        assert_eq!(rows, 1);
        assert!(bytes < most, "{bytes} bytes for the newest row below {number}");
    }
    let some = table.range(5000..5010).expect("there");
    let (rows, _, _, bytes) = costs(some.filter("number", small(20_000)).expect("it fits"));
    assert_eq!(rows, 10);
    assert!(bytes < 150_000, "{bytes} bytes for ten of 20,000 rows");
}

#[test]
fn rows_that_do_not_match_are_read_many_at_a_time() {
    let (_dir, store) = open();
    let table = random_table(&store, 0..200_000);
    store.flush().expect("flushes");
    let numbers = random(0..200_000);
    let numbers = numbers
        .column(1)
        .as_any()
        .downcast_ref::<Int64Array>()
        .expect("numbers");
    let greatest = numbers.values().iter().max().copied().expect("there are rows");
    let all = || {
        let all = table.range(..).expect("there");
        all.filter("number", at_least(greatest)).expect("it fits")
    };
    let (_, _, whole, _) = costs(all());
    let (rows, _, first, _) = costs(all().limit(1));
    assert_eq!(rows, 1);
    assert!(
        first < 2 * whole,
        "{first} allocations for one row, {whole} without a limit"
    );
}

#[test]
fn rows_that_were_seen_are_not_read_one_by_one() {
    let (_dir, store) = open();
    let table = random_table(&store, 0..100_000);
    let append_each = |times: std::ops::Range<i64>| {
        for time in times {
            table.append(&random(time..time + 1)).expect("appends");
        }
    };
    append_each(100_000..102_000);
    let mark = table.mark();
    // Unseen rows before and after those that were seen.
    append_each(0..1);
    append_each(102_000..102_100);
    let (rows, _, unseen, _) = costs(table.since(mark).expect("there").limit(2));
    assert_eq!(rows, 2);
    assert!(unseen < 2000, "{unseen} allocations for two unseen rows");
    for limit in [1, 100, 101, 5000] {
        let (rows, ..) = costs(table.since(mark).expect("there").limit(limit));
        assert_eq!(rows as u64, limit.min(101));
    }
}

#[test]
fn one_long_text_makes_no_small_batches() {
    let (_dir, store) = open();
    let table = store.create_table("t", schema()).expect("fresh");
    let rows = |times: std::ops::Range<i64>| -> Vec<TestRow> {
        let text = |at: i64| (at == 500).then(|| "x".repeat(1_000_000));
        let row = |at: i64| TestRow {
            text: text(at),
            ..TestRow::numbered(at, 1)
        };
        times.map(row).collect()
    };
    append(&table, &rows(0..3000)).expect("appends");
    let all = || table.range(..).expect("there");
    let known = Predicate::is_not_null();
    let (rows, batches, ..) = costs(all().filter("number", known).expect("it fits"));
    assert_eq!(rows, 3000);
    assert!(batches <= 3, "{batches} filtered batches");
    let (rows, batches, ..) = costs(all());
    assert_eq!(rows, 3000);
    assert!(batches <= 3, "{batches} batches");
}

/// The rows that were deleted take memory as long as those do that are left beside them.
#[test]
fn rows_that_are_deleted_count_as_memory() {
    const APART: i64 = 8192;
    let (_dir, store) = open();
    let table = store.create_table("t", schema()).expect("fresh");
    let row = |time: i64| TestRow {
        text: Some("x".repeat(200)),
        ..TestRow::numbered(time, 0)
    };
    for first in (0..20).map(|half| half * 2 * APART) {
        append(&table, &(first..first + 2 * APART).map(row).collect::<Vec<_>>()).expect("appends");
    }
    store.flush().expect("flushes");
    for first in (0..40).map(|number| number * APART) {
        table.delete_range(first + 1..first + APART).expect("deletes");
    }
    let mut scan = table.range(..).expect("there");
    let mut rows = 0;
    let measured = allocation_counter::measure(|| {
        let first = scan.next().expect("there are rows").expect("reads");
        rows = first.num_rows();
    });
    assert!(
        measured.bytes_max < 40 << 20,
        "{} bytes for {rows} rows",
        measured.bytes_max
    );
    assert_eq!(
        rows + scan.map(|batch| batch.expect("reads").num_rows()).sum::<usize>(),
        40
    );
}
