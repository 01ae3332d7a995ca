//! Leaves that have nothing for a scan are not read.

use bedload::{Scan, Store, Table};

use crate::rows::{TestRow, append, schema};

/// Some leaves full.
const ROWS: i64 = 300_000;

fn rows(times: std::ops::Range<i64>) -> Vec<TestRow> {
    times.map(|at| TestRow::numbered(at, 0)).collect()
}

/// A table that is in pages, in order.
fn table(store: &Store) -> Table {
    let table = store.create_table("t", schema()).expect("fresh");
    append(&table, &rows(0..ROWS)).expect("appends");
    store.flush().expect("flushes");
    table
}

/// How many rows a scan gives, and how many pages it looks at.
fn looks(store: &Store, scan: Scan) -> (usize, u64) {
    let looks = || {
        let counts = store.metrics();
        counts.cache_hits + counts.cache_misses
    };
    let before = looks();
    let rows = scan.map(|batch| batch.expect("reads").num_rows()).sum();
    (rows, looks() - before)
}

#[test]
fn leaves_of_rows_that_were_seen_are_passed_over() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Store::create(dir.path().join("store")).expect("creates");
    let table = table(&store);
    let (_, all) = looks(&store, table.range(..).expect("there"));
    let mark = table.mark();
    // Two late rows and three in order.
    append(&table, &rows(1000..1002)).expect("appends");
    append(&table, &rows(ROWS..ROWS + 3)).expect("appends");
    store.flush().expect("flushes");
    let (new, few) = looks(&store, table.since(mark).expect("there"));
    assert_eq!(new, 5);
    assert!(3 * few < 2 * all, "{few} pages, {all} for the whole table");
}

#[test]
fn leaves_of_deleted_rows_are_passed_over() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Store::create(dir.path().join("store")).expect("creates");
    let table = table(&store);
    let (_, all) = looks(&store, table.range(..).expect("there"));
    table.delete_range(100..).expect("deletes");
    let newest = table.range(..).expect("there").rev().limit(1);
    let (newest, few) = looks(&store, newest);
    assert_eq!(newest, 1);
    assert!(2 * few < all, "{few} pages, {all} for the whole table");
    assert_eq!(table.range(..).expect("there").count().expect("reads"), 100);
    append(&table, &rows(ROWS - 2..ROWS - 1)).expect("appends");
    let (left, few) = looks(&store, table.range(..).expect("there"));
    assert_eq!(left, 101);
    assert!(2 * few < all, "{few} pages, {all} for the whole table");
}
