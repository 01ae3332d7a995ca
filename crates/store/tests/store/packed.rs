//! Batches of so many rows that the log has them packed.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Int32Array, Int64Array, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{
    Operator, Options, Predicate, Scan, Store, Table, TableSchema, Value, inspect, restore, salvage,
};
use bedload_testkit::Rng;

use crate::rows::{TestRow, append, batch, collect, schema};

/// Enough for two leaves and for one.
const BATCHES: [i64; 3] = [20_000, 6_000, 6_000];

/// Rows with their sequence numbers, by time and number.
type Rows = Vec<(u64, TestRow)>;

/// Batches whose times interleave: rows of the second and the third stand in turns among those of
/// the first. If they are not `in_order`, each begins with its last row.
fn batches(in_order: bool) -> Vec<Vec<TestRow>> {
    let mut first = 0;
    let of_batch = |(number, rows): (i64, i64)| {
        let numbers = first..first + rows;
        first += rows;
        let begin = numbers.start;
        let mut batch: Vec<TestRow> = numbers
            .map(|row| {
                let time = (row - begin) * 10 + number;
                TestRow::numbered(time, i32::try_from(row).expect("few"))
            })
            .collect();
        if !in_order {
            batch.rotate_right(1);
        }
        batch
    };
    (0..).zip(BATCHES).map(of_batch).collect()
}

fn by_time(batches: &[Vec<TestRow>]) -> Rows {
    let mut rows: Rows = (0..).zip(batches.iter().flatten().cloned()).collect();
    rows.sort_by_key(|(sequence, row)| (row.time, *sequence));
    rows
}

fn open(path: &std::path::Path) -> Store {
    let options = Options::new().create(true).background(false);
    options.open(path).expect("opens")
}

fn check(table: &Table, expected: &Rows) {
    let all = || table.range(..).expect("there");
    let rows = |scan: Scan| collect(scan).expect("reads");
    // The newest first: of most runs nothing is asked.
    let newest: Rows = expected.iter().rev().take(70).cloned().collect();
    assert!(rows(all().rev().limit(70)) == newest);
    assert!(rows(all()) == *expected);
    assert!(rows(all().rev()).into_iter().rev().collect::<Rows>() == *expected);
    assert_eq!(all().count().expect("counts"), expected.len() as u64);
    let between = |row: &&(u64, TestRow)| (12_345..50_000).contains(&row.1.time);
    let part: Rows = expected.iter().filter(between).cloned().collect();
    assert!(rows(table.range(12_345..50_000).expect("there")) == part);
    let small = Predicate::compare(Operator::Lt, &Int32Array::from(vec![300])).expect("a number");
    let part: Rows = expected
        .iter()
        .filter(|(_, row)| row.number < 300)
        .cloned()
        .collect();
    assert!(rows(all().filter("number", small).expect("a column")) == part);
    let names = all().columns(&["name"]).expect("a column");
    let found: usize = names.map(|batch| batch.expect("reads").num_rows()).sum();
    assert_eq!(found, expected.len());
    for (_, row) in expected.iter().step_by(4_567) {
        check_row(table, row);
    }
}

fn check_row(table: &Table, row: &TestRow) {
    let found = table.get(row.time).expect("reads").expect("there");
    assert_eq!(found.value(0), Some(Value::Int(i64::from(row.number))));
    assert_eq!(found.value(5), Some(Value::Text(&row.name)));
    assert_eq!(found.value(4), row.text.as_deref().map(Value::Text));
}

#[test]
fn rows_of_long_batches_are_read_from_memory_the_log_and_pages() {
    for in_order in [true, false] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("store");
        let store = open(&path);
        let table = store.create_table("t", schema()).expect("fresh");
        let batches = batches(in_order);
        let (first, others) = batches.split_at(1);
        append(&table, &first[0]).expect("appends");
        check(&table, &by_time(first));
        let snapshot = store.snapshot();
        let mark = table.mark();
        for batch in others {
            append(&table, batch).expect("appends");
        }
        let expected = by_time(&batches);
        check(&table, &expected);
        let plain: usize = batches
            .iter()
            .map(|rows| batch(rows).get_array_memory_size())
            .sum();
        let logged = store.info().expect("reads").wal_bytes;
        assert!(
            logged < plain as u64 / 2,
            "{logged} bytes of log for {plain} of arrays"
        );

        // Another process finds them in the log.
        let reader = Options::new().read_only(true).open(&path).expect("opens");
        check(&reader.table("t").expect("there"), &expected);
        drop(reader);

        store.flush().expect("flushes");
        check(&table, &expected);
        assert_eq!(store.verify().expect("reads").problems, []);
        let before = collect(snapshot.range("t", ..).expect("there")).expect("reads");
        assert!(before == by_time(first));
        drop(snapshot);

        // A part of what a run has is deleted before it is flushed.
        table.retract_since(mark).expect("retracts");
        append(&table, &others[0]).expect("appends");
        table.delete_range(1_000..30_000).expect("deletes");
        let mut left = by_time(first);
        let begin = expected.len() as u64 + 1;
        left.extend((begin..).zip(others[0].iter().cloned()));
        left.retain(|(_, row)| !(1_000..30_000).contains(&row.time));
        left.sort_by_key(|(sequence, row)| (row.time, *sequence));
        check(&table, &left);
        store.flush().expect("flushes");
        check(&table, &left);
    }
}

#[test]
fn few_rows_of_a_batch_in_order_are_read() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let table = store.create_table("t", schema()).expect("fresh");
    let batches = batches(true);
    append(&table, &batches[0]).expect("appends");
    for row in batches[0].iter().step_by(1_999) {
        check_row(&table, row);
    }
    // A few are looked at in vain, and others follow them.
    table.delete_range(..1_000).expect("deletes");
    table.delete_range(199_000..).expect("deletes");
    let left = &by_time(&batches[..1])[100..19_900];
    let all = || table.range(..).expect("there");
    let oldest = collect(all().limit(70)).expect("reads");
    assert!(oldest[..] == left[..70]);
    let mut newest = collect(all().rev().limit(70)).expect("reads");
    newest.reverse();
    assert!(newest[..] == left[left.len() - 70..]);
    let some = table.range(100_000..105_000).expect("there");
    assert!(collect(some).expect("reads")[..] == left[9_900..10_400]);
    let names = all().columns(&["name", "at"]).expect("columns").limit(3);
    let names: Vec<_> = names.map(|batch| batch.expect("reads")).collect();
    assert_eq!(names[0].column(0).as_string::<i32>().value(2), left[2].1.name);
    let times = names[0].column(1).as_primitive::<TimestampMillisecondType>();
    assert_eq!(times.value(2), left[2].1.time);
    // Those of a fresh batch, too, among rows that arrays have.
    append(&table, &batches[1]).expect("appends");
    check_row(&table, &batches[1][4_321]);
    let mut expected = left.to_vec();
    expected.extend((20_002..).zip(batches[1].iter().cloned()));
    expected.sort_by_key(|(sequence, row)| (row.time, *sequence));
    check(&table, &expected);
}

#[test]
fn long_batches_in_the_log_are_backed_up_and_salvaged() {
    for in_order in [true, false] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| dir.path().join(name);
        let store = open(&path("store"));
        let table = store.create_table("t", schema()).expect("fresh");
        let batches = batches(in_order);
        for batch in &batches {
            append(&table, batch).expect("appends");
        }
        let expected = by_time(&batches);
        assert_eq!(store.info().expect("reads").tables[0].rows, 32_000);
        store.backup(path("backup")).expect("copies");
        restore(path("backup"), path("restored")).expect("copies");
        check(&open(&path("restored")).table("t").expect("there"), &expected);
        drop((table, store));

        assert_eq!(inspect(path("store")).expect("a store"), []);
        let report = salvage(path("store"), path("saved")).expect("a store");
        assert!(report.is_complete(), "{:?}", report.problems);
        let saved = open(&path("saved"));
        assert_eq!(saved.verify().expect("reads").problems, []);
        check(&saved.table("t").expect("there"), &expected);
        let store = open(&path("store"));
        check(&store.table("t").expect("there"), &expected);
        assert_eq!(store.verify().expect("reads").problems, []);
    }
}

#[test]
fn readers_unpack_rows_at_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let table = store.create_table("t", schema()).expect("fresh");
    let batches = batches(true);
    for batch in &batches {
        append(&table, batch).expect("appends");
    }
    let expected = by_time(&batches);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| check(&table, &expected));
        }
        store.flush().expect("flushes");
    });
    check(&table, &expected);
}

#[test]
fn long_rows_among_many_short_ones_are_packed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = open(&path);
    let table = store.create_table("t", schema()).expect("fresh");
    // Twelve rows of almost 1 MiB stand together.
    let text = |number: i32| (100..112).contains(&number).then(|| "lengthy ".repeat(131_000));
    let rows: Vec<TestRow> = (0..5000)
        .map(|number| TestRow {
            text: text(number),
            ..TestRow::numbered(i64::from(number / 3), number)
        })
        .collect();
    append(&table, &rows).expect("appends");
    let expected: Rows = (0..).zip(rows).collect();
    let is_read = |table: &Table| {
        assert!(collect(table.range(..).expect("there")).expect("reads") == expected);
    };
    is_read(&table);
    let reader = Options::new().read_only(true).open(&path).expect("opens");
    is_read(&reader.table("t").expect("there"));
    drop(reader);
    drop((table, store));
    let store = open(&path);
    is_read(&store.table("t").expect("there"));
}

#[test]
fn a_commit_to_two_tables_may_have_long_batches() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = open(&path);
    let tables = ["a", "b"].map(|name| store.create_table(name, schema()).expect("fresh"));
    let [in_order, not] = [true, false].map(|in_order| batches(in_order).remove(1));
    let mut together = store.write_batch();
    together.append(&tables[0], &batch(&in_order)).expect("fits");
    together.append(&tables[1], &batch(&not)).expect("fits");
    together.commit().expect("commits");
    let numbered = |rows: &Vec<TestRow>, first: u64| -> Rows {
        let mut rows: Rows = (first..).zip(rows.iter().cloned()).collect();
        rows.sort_by_key(|(_, row)| row.time);
        rows
    };
    let expected = [numbered(&in_order, 0), numbered(&not, 6_000)];
    let reader = Options::new().read_only(true).open(&path).expect("opens");
    for (table, expected) in tables.iter().zip(&expected) {
        check(table, expected);
        check(&reader.table(table.name()).expect("there"), expected);
    }
}

#[test]
fn a_table_of_random_numbers_rarely_tries_to_pack_them() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let columns = Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("number", DataType::Int64, false),
    ]));
    let schema = TableSchema::new(columns.clone(), "at").expect("storable");
    store.create_table("t", schema).expect("fresh");
    let (mut time, mut rng) = (0, Rng::new(6));
    let mut is_packed = |bits: u32| {
        let rows = time..time + 5000;
        time = rows.end;
        let times = TimestampSecondArray::from_iter_values(rows.clone());
        let number = |_| (rng.next_u64() >> (64 - bits)).cast_signed();
        let numbers = Int64Array::from_iter_values(rows.map(number));
        let batch = RecordBatch::try_new(columns.clone(), vec![Arc::new(times), Arc::new(numbers)]);
        let before = store.metrics().log_bytes;
        // Failed attempts are remembered by the table, across its handles and checkpoints.
        let table = store.table("t").expect("there");
        table.append(&batch.expect("of one length")).expect("appends");
        if time % 3 == 0 {
            store.flush().expect("flushes");
        }
        store.metrics().log_bytes - before < 5000 * 16
    };
    assert!(is_packed(8));
    assert!(!is_packed(64));
    assert!(!is_packed(8), "the next batch is not tried");
    assert!(is_packed(8) && is_packed(8));
    for _ in 0..20 {
        assert!(!is_packed(64));
    }
    let until_packed = (0..).find(|_| is_packed(8)).expect("tried again at last");
    assert!((10..=20).contains(&until_packed), "after {until_packed} batches");
    assert!(is_packed(8), "it helped");
    let rows = store.table("t").expect("there").range(..).expect("there").count();
    assert_eq!(rows.expect("counts"), u64::try_from(time).expect("positive"));
}
