//! Tables with a key: one row of each key, the last that was appended.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use bedload::{Error, Grid, Layout, Options, Scan, Store, Table};
use bedload_testkit::Rng;

use crate::rows::{TestRow, append, batch, collect, schema};

type Key = (i64, Option<bool>, String);

fn key(row: &TestRow) -> Key {
    (row.time, row.flag, row.name.clone())
}

/// A row with one of a few keys at its time; its other columns follow from `number`.
fn row(time: i64, number: i32) -> TestRow {
    TestRow {
        name: format!("sensor {}", number % 4),
        ..TestRow::numbered(time, number)
    }
}

fn keyed(store: &Store) -> Table {
    let schema = schema()
        .with_key(&["flag", "name"])
        .expect("columns of the table");
    store.table_or_create("t", schema).expect("creates")
}

fn rows(scan: bedload::Result<Scan>) -> Vec<TestRow> {
    let found = collect(scan.expect("there")).expect("reads");
    found.into_iter().map(|(_, row)| row).collect()
}

/// The rows of a table are those of the oracle, in the order of time, each key once.
fn assert_same(table: &Table, oracle: &BTreeMap<Key, TestRow>) {
    let mut found = rows(table.range(..));
    assert!(found.is_sorted_by_key(|row| row.time));
    found.sort_by_key(key);
    let expected: Vec<TestRow> = oracle.values().cloned().collect();
    assert_eq!(found, expected);
    let count = table.range(..).expect("there").count().expect("counts");
    assert_eq!(count, oracle.len() as u64);
}

/// A number below `bound`.
fn below(rng: &mut Rng, bound: u64) -> i64 {
    rng.below(bound).cast_signed()
}

fn number(rng: &mut Rng, bound: u64) -> i32 {
    i32::try_from(rng.below(bound)).expect("a small bound")
}

fn options() -> Options {
    Options::new().create(true).page_bytes(4096).head_bytes(128 << 10)
}

/// A table whose rows are flushed when that is asked for.
fn with_much_memory(dir: &Path) -> (Store, Table) {
    let options = options().head_bytes(8 << 20);
    let store = options.open(dir.join("store")).expect("creates");
    let table = keyed(&store);
    (store, table)
}

#[test]
fn rows_replace_those_of_their_key_in_any_order_of_arrival() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let mut store = options().open(&path).expect("creates");
    let mut table = keyed(&store);
    let mut oracle: BTreeMap<Key, TestRow> = BTreeMap::new();
    let mut rng = Rng::new(11);
    let mut newest = 0;
    let mut replaced = 0;
    for step in 0..200 {
        let count = 1 + number(&mut rng, 120);
        let mut batch_rows = Vec::new();
        let reach = if rng.below(3) == 0 { 2000 } else { 20 };
        for _ in 0..count {
            let time = match rng.below(4) {
                0 => {
                    newest += below(&mut rng, 3);
                    newest
                }
                _ => newest - below(&mut rng, reach),
            };
            batch_rows.push(row(time, number(&mut rng, 1_000_000)));
        }
        let before = oracle.len();
        oracle.extend(batch_rows.iter().map(|row| (key(row), row.clone())));
        let gone = (before + batch_rows.len() - oracle.len()) as u64;
        let appended = if step % 5 == 0 {
            let mut changes = store.write_batch();
            changes.append(&table, &batch(&batch_rows)).expect("adds");
            changes.commit()
        } else if step % 5 == 1 {
            table
                .begin_append(&batch(&batch_rows))
                .and_then(|begun| begun.wait())
        } else {
            table.append(&batch(&batch_rows))
        };
        let appended = appended.expect("appends");
        assert_eq!(
            (appended.rows, appended.replaced),
            (batch_rows.len() as u64, gone)
        );
        replaced += gone;
        if step % 17 == 0 {
            let from = newest - below(&mut rng, 500);
            let to = from + below(&mut rng, 30);
            table.delete_range(from..=to).expect("deletes");
            oracle.retain(|key, _| !(from..=to).contains(&key.0));
        }
        if step % 40 == 39 {
            drop((table, store));
            store = options().open(&path).expect("opens");
            table = store.table("t").expect("there");
            assert_eq!(table.schema().key_names(), Some(vec!["at", "flag", "name"]));
        }
        if step % 10 == 0 {
            assert_same(&table, &oracle);
        }
    }
    assert!(replaced > 1000, "{replaced}");
    store.flush().expect("flushes");
    assert_same(&table, &oracle);
    assert!(store.verify().expect("reads").problems.is_empty());
}

#[test]
fn a_file_that_is_loaded_again_is_replaced_in_few_deletions() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (_store, table) = with_much_memory(dir.path());
    let all: Vec<TestRow> = (0..20_000)
        .map(|number| row(i64::from(number / 3), number))
        .collect();
    for _ in 0..2 {
        all.chunks(5000)
            .for_each(|part| append(&table, part).expect("appends"));
    }
    let oracle = all.iter().map(|row| (key(row), row.clone())).collect();
    assert_same(&table, &oracle);
    let again = table.append(&batch(&all[..5000])).expect("appends");
    let distinct: HashSet<Key> = all[..5000].iter().map(key).collect();
    assert_eq!(again.replaced, distinct.len() as u64);
    // One deletion of times, one of single rows at the last of them, and its rows.
    let next = table.append(&batch(&[row(1 << 40, 1)])).expect("appends");
    assert!(next.first_sequence - again.first_sequence <= distinct.len() as u64 + 2);
}

#[test]
fn a_correction_writes_no_row_but_its_own() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, table) = with_much_memory(dir.path());
    let sensor = |number: i32, value: i32| TestRow {
        name: format!("sensor {number}"),
        ..TestRow::numbered(5, value)
    };
    let mut all: Vec<TestRow> = (0..1000).map(|number| sensor(number, 2 * number)).collect();
    append(&table, &all).expect("appends");
    for is_flushed in [false, true] {
        if is_flushed {
            store.flush().expect("flushes");
        }
        let number = if is_flushed { 400 } else { 600 };
        let corrected = sensor(number, 2 * number);
        let mark = table.mark();
        let told = table
            .append(&batch(std::slice::from_ref(&corrected)))
            .expect("appends");
        assert_eq!((told.rows, told.replaced), (1, 1));
        assert_eq!(rows(table.since(mark)), std::slice::from_ref(&corrected));
        let place = all.iter().position(|row| key(row) == key(&corrected));
        all.remove(place.expect("one of them"));
        all.push(corrected);
        assert_eq!(rows(table.range(..)), all, "others keep their order");
    }
    store.flush().expect("flushes");
    assert_eq!(rows(table.range(..)), all);
}

#[test]
fn threads_leave_one_row_of_each_key() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = options().open(dir.path().join("store")).expect("creates");
    let table = keyed(&store);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let table = &table;
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for _ in 0..50 {
                    let time = below(&mut rng, 5);
                    let part: Vec<TestRow> = (0..20)
                        .map(|number| row(time + i64::from(number % 3), number))
                        .collect();
                    append(table, &part).expect("appends");
                    if rng.below(10) == 0 {
                        table.delete_range(time..=time).expect("deletes");
                    }
                }
            });
        }
    });
    let found = rows(table.range(..));
    let keys: HashSet<Key> = found.iter().map(key).collect();
    assert_eq!(keys.len(), found.len());
}

#[test]
fn rows_that_are_not_durable_yet_are_replaced_like_others() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, table) = with_much_memory(dir.path());
    let versions: Vec<TestRow> = [1.0, 2.0, 3.0]
        .map(|measure| TestRow {
            measure: Some(measure),
            ..row(7, 1)
        })
        .into();
    let begin = |version: &TestRow| table.begin_append(&batch(std::slice::from_ref(version)));
    let before = store.metrics().log_syncs;
    let first = begin(&versions[0]).expect("appends");
    let second = begin(&versions[1]).expect("appends");
    assert_eq!(store.metrics().log_syncs, before, "nothing waits for the disk");
    assert_eq!(second.wait().expect("durable").replaced, 1);
    assert_eq!(store.metrics().log_syncs, before + 1, "for both");
    assert_eq!(first.wait().expect("durable").replaced, 0);
    let mut all = store.write_batch();
    all.append(&table, &batch(&versions[2..])).expect("fits");
    let third = begin(&versions[1]).expect("appends");
    assert_eq!(all.commit().expect("durable").replaced, 1);
    assert_eq!(third.wait().expect("durable").replaced, 1);
    assert_eq!(rows(table.range(..)), versions[2..]);
}

#[test]
fn snapshots_keep_the_rows_that_were_replaced() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = options().open(dir.path().join("store")).expect("creates");
    let table = keyed(&store);
    let (first, second) = (row(7, 8), row(7, 12));
    assert_eq!(key(&first), key(&second));
    append(&table, std::slice::from_ref(&first)).expect("appends");
    let before = store.snapshot();
    append(&table, std::slice::from_ref(&second)).expect("appends");
    store.flush().expect("flushes");
    assert_eq!(rows(before.range("t", ..)), [first]);
    assert_eq!(rows(table.range(..)), [second]);
}

#[test]
fn the_first_sequence_number_is_that_of_the_first_row() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = options().open(dir.path().join("store")).expect("creates");
    let table = keyed(&store);
    for (number, is_group) in [(8, false), (12, false), (16, true)] {
        let rows = [row(7, number), row(8, number)];
        let appended = if is_group {
            let mut all = store.write_batch();
            all.append(&table, &batch(&rows)).expect("fits");
            all.commit()
        } else {
            table.append(&batch(&rows))
        };
        let numbers = appended.expect("appends").first_sequence..;
        let expected: Vec<(u64, TestRow)> = numbers.zip(rows).collect();
        assert_eq!(collect(table.range(..).expect("there")).expect("reads"), expected);
    }
}

#[test]
fn what_a_key_cannot_do_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = options().open(dir.path().join("store")).expect("creates");
    let table = keyed(&store);
    let message = |error: Error| error.to_string();

    let other = schema().with_key(&["number"]).expect("a column");
    let error = store.table_or_create("t", other).expect_err("another key");
    assert!(message(error).contains("key"));
    assert!(schema().with_key(&["nothing"]).is_err());

    let mark = table.mark();
    append(&table, &[row(1, 1)]).expect("appends");
    let error = table.retract_since(mark).expect_err("has a key");
    assert!(message(error).contains("has a key"));

    let mut changes = store.write_batch();
    changes.append(&table, &batch(&[row(1, 1)])).expect("adds");
    assert!(changes.append(&table, &batch(&[row(2, 2)])).is_err());
    assert!(changes.delete_range(&table, 1..=1).is_err());
    changes.commit().expect("commits");
    let mut changes = store.write_batch();
    changes.delete_range(&table, 1..=1).expect("adds");
    assert!(changes.append(&table, &batch(&[row(2, 2)])).is_err());

    let grid = Layout::Sparse(Grid::every(1).expect("a grid"));
    let sparse = |key: &[&str]| {
        let schema = schema().with_key(key).expect("columns");
        store.create_table_as("s", schema, grid)
    };
    let error = sparse(&["number"]).expect_err("a sparse table");
    assert!(message(error).contains("sparse"));
    sparse(&["at"]).expect("the time alone is the key of a sparse table");

    // More than the memory for rows can be appended, but not replaced at once.
    let many: Vec<TestRow> = (0..20_000)
        .map(|number| row(i64::from(number) + 100, number))
        .collect();
    append(&table, &many).expect("appends");
    let error = append(&table, &many).expect_err("too many");
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    many.chunks(200)
        .for_each(|part| append(&table, part).expect("appends"));
    assert_eq!(
        table.range(100..).expect("there").count().expect("counts"),
        20_000
    );
}
