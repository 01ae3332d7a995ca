//! Rows go once they are older than a table keeps them.

use std::time::Duration;

use bedload::{Grid, Layout, Options, Store, Table};

use crate::rows::{TestRow, append, schema};

const SECOND: i64 = 1000;

fn open(path: &std::path::Path) -> Store {
    let options = Options::new()
        .create(true)
        .page_bytes(4096)
        .head_bytes(64 << 10)
        .background(false);
    options.open(path).expect("opens")
}

/// Appends a row a second, and returns the number of the next.
fn fill(table: &Table, from: i64, rows: i64) -> i64 {
    for first in (from..from + rows).step_by(100) {
        let rows = (first..(from + rows).min(first + 100))
            .map(|second| TestRow::numbered(second * SECOND, i32::try_from(second).expect("small")));
        append(table, &rows.collect::<Vec<_>>()).expect("appends");
    }
    from + rows
}

fn seconds(table: &Table) -> Vec<i64> {
    let rows = crate::rows::rows_without_sequence;
    let scan = table.range(..).expect("there");
    scan.flat_map(|batch| rows(&batch.expect("reads")))
        .map(|row| row.time / SECOND)
        .collect()
}

#[test]
fn rows_of_an_indexed_table_are_kept_for_their_time() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = open(&path);
    let table = store.create_table("t", schema()).expect("fresh");
    let mut next = fill(&table, 0, 5000);
    let snapshot = store.snapshot();
    table
        .set_retention(Some(Duration::from_secs(1600)))
        .expect("sets");
    // At once, and to the row.
    assert_eq!(seconds(&table), (3399..5000).collect::<Vec<_>>());
    assert_eq!(store.info().expect("reads").tables[0].rows, 1601);
    assert_eq!(
        snapshot.range("t", ..).expect("there").count().expect("reads"),
        5000
    );
    drop(snapshot);
    drop((table, store));

    let store = open(&path);
    let table = store.table("t").expect("there");
    assert_eq!(store.info().expect("reads").tables[0].retention, Some(1_600_000));
    for _ in 0..40 {
        next = fill(&table, next, 50);
        store.flush().expect("flushes");
        let oldest = seconds(&table)[0];
        let kept = next - 1 - oldest;
        assert!((1600..=1700 + 1).contains(&kept), "rows of {kept} seconds");
    }
    assert_eq!(
        store.info().expect("reads").tables[0].rows,
        seconds(&table).len() as u64
    );
    // Too late to be kept, and just in time.
    append(
        &table,
        &[
            TestRow::numbered(100 * SECOND, 1),
            TestRow::numbered((next - 1500) * SECOND, 2),
        ],
    )
    .expect("appends");
    store.flush().expect("flushes");
    let kept = seconds(&table);
    assert!(!kept.contains(&100));
    assert_eq!(kept.iter().filter(|&&second| second == next - 1500).count(), 2);
    assert_eq!(store.verify().expect("reads").problems, []);

    table.set_retention(None).expect("sets");
    let rows = seconds(&table).len();
    next = fill(&table, next, 3000);
    store.flush().expect("flushes");
    assert_eq!(seconds(&table).len(), rows + 3000);
    assert_eq!(seconds(&table).last(), Some(&(next - 1)));
}

#[test]
fn files_of_a_sparse_table_are_kept_for_their_time() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = open(&path);
    let layout = Layout::Sparse(Grid::every(SECOND).expect("positive"));
    let table = store.create_table_as("t", schema(), layout).expect("fresh");
    let files = || std::fs::read_dir(path.join("sparse/1")).expect("there").count();
    // Rows a day apart, so that there are many files.
    let day = |day: i32| TestRow::numbered(i64::from(day) * 86_400 * SECOND, day);
    for first in (0..400).step_by(20) {
        append(&table, &(first..first + 20).map(day).collect::<Vec<_>>()).expect("appends");
    }
    store.flush().expect("flushes");
    let all = files();
    assert!(all > 20, "{all} files");
    table
        .set_retention(Some(Duration::from_secs(100 * 86_400)))
        .expect("sets");
    let kept = seconds(&table);
    let days = 399 - kept[0] / 86_400;
    // The rest of the file in which the time ends, and that of the newest row.
    let of_file = i64::from(400_u32.div_ceil(u32::try_from(all).expect("few")));
    assert!(
        (100..=100 + 2 * of_file).contains(&days),
        "{days} days, {of_file} in a file"
    );
    assert!(kept.iter().copied().eq((399 - days..400).map(|day| day * 86_400)));
    assert!(files() < all / 2, "{} of {all} files", files());
    append(&table, &[day(3), day(400)]).expect("appends");
    store.flush().expect("flushes");
    assert!(!seconds(&table).contains(&(3 * 86_400)));
    assert_eq!(seconds(&table).last(), Some(&(400 * 86_400)));
    let report = store.verify().expect("reads");
    assert_eq!(
        (report.problems, report.rows),
        (vec![], seconds(&table).len() as u64)
    );
}

/// Rows that come all at once go to blocks, past the memory for rows.
#[test]
fn blocks_that_come_too_late_go_at_the_next_flush() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let grid = Layout::Sparse(Grid::every(SECOND).expect("positive"));
    let table = store.create_table_as("t", schema(), grid).expect("fresh");
    fill(&table, 10_000_000, 10);
    store.flush().expect("flushes");
    table
        .set_retention(Some(Duration::from_secs(1000)))
        .expect("sets");
    let late = (0..20_000).map(|second| TestRow::numbered(i64::from(second) * SECOND, second));
    append(&table, &late.collect::<Vec<_>>()).expect("appends");
    assert_eq!(seconds(&table).len(), 20_010);
    store.flush().expect("flushes");
    assert_eq!(seconds(&table), (10_000_000..10_000_010).collect::<Vec<_>>());
}

#[test]
fn rows_in_memory_are_kept_once_the_table_keeps_all() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let grid = Grid::every(SECOND).expect("positive");
    for (name, layout) in [("i", Layout::Indexed), ("s", Layout::Sparse(grid))] {
        let table = store.create_table_as(name, schema(), layout).expect("fresh");
        table
            .set_retention(Some(Duration::from_secs(3600)))
            .expect("sets");
        fill(&table, 10_000_000, 1);
        store.flush().expect("flushes");
        fill(&table, 0, 1);
        table.set_retention(None).expect("sets");
        assert_eq!(seconds(&table), [0, 10_000_000], "{name}");
    }
}

#[test]
fn no_time_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let table = store.create_table("t", schema()).expect("fresh");
    let error = table.set_retention(Some(Duration::ZERO)).expect_err("no time");
    assert!(error.to_string().contains("delete them instead"), "{error}");
    assert!(table.set_retention(Some(Duration::MAX)).is_err());
    // Less than a tick is one.
    table.set_retention(Some(Duration::from_nanos(1))).expect("sets");
    assert_eq!(store.info().expect("reads").tables[0].retention, Some(1));
    store.drop_table("t").expect("drops");
    assert!(table.set_retention(None).is_err());
}

#[test]
fn the_first_of_all_times_are_kept_like_others() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    // The first tick of its first file lies below all numbers.
    let layout = Layout::Sparse(Grid::every(3).expect("positive"));
    for (name, layout) in [("indexed", Layout::Indexed), ("sparse", layout)] {
        let table = store.create_table_as(name, schema(), layout).expect("fresh");
        let rows = [2, 8].map(|after| TestRow::numbered(i64::MIN + after, 1));
        append(&table, &rows).expect("appends");
        store.flush().expect("flushes");
        table.set_retention(Some(Duration::from_millis(2))).expect("sets");
        append(&table, &[TestRow::numbered(i64::MIN + 11, 2)]).expect("appends");
        store.flush().expect("flushes");
        let newest = table.get(i64::MIN + 11).expect("reads");
        assert!(newest.is_some(), "the newest row of the {name} table is gone");
        // A file of the sparse table has all three.
        let left = table.range(..).expect("there").count().expect("reads");
        assert_eq!(left, if name == "sparse" { 3 } else { 1 }, "{name}");
    }
}
