//! Batches of so many rows that the log has them packed.

use arrow_array::Int32Array;
use bedload::{Operator, Options, Predicate, Scan, Store, Table};

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
        let found = table.get(row.time).expect("reads").expect("there");
        assert_eq!(found.value(0), Some(bedload::Value::Int(i64::from(row.number))));
        assert_eq!(found.value(5), Some(bedload::Value::Text(&row.name)));
    }
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
