//! Space on the disk is used again.

use std::fs;
use std::path::Path;

use bedload::{Options, Store};

use crate::rows::{TestRow, append, schema};

fn data_bytes(path: &Path) -> u64 {
    fs::metadata(path.join("data")).expect("there").len()
}

fn fill(store: &Store, rows: i32) {
    let table = store.table("t").expect("there");
    for part in (0..rows).collect::<Vec<_>>().chunks(500) {
        let part: Vec<TestRow> = part
            .iter()
            .map(|&number| TestRow::numbered(i64::from(number * 7919 % rows), number))
            .collect();
        append(&table, &part).expect("appends");
    }
    store.flush().expect("flushes");
}

#[test]
fn a_store_that_is_filled_and_emptied_does_not_grow() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    // Without the thread, flushes come at the same moments in each round.
    let options = Options::new()
        .create(true)
        .page_bytes(4096)
        .head_bytes(256 << 10)
        .background(false);
    let store = options.open(&path).expect("creates");
    let table = store.create_table("t", schema()).expect("fresh");
    let mut sizes = Vec::new();
    for _ in 0..6 {
        fill(&store, 5000);
        sizes.push(data_bytes(&path));
        table.delete_range(..).expect("deletes");
        store.flush().expect("flushes");
    }
    assert_eq!(sizes[5], sizes[2], "space is not used again: {sizes:?}");
    let info = store.info().expect("reads");
    assert_eq!(info.tables[0].rows, 0);
    assert!(
        info.used_bytes < 20 * 4096,
        "an emptied table keeps {} bytes",
        info.used_bytes
    );
}

#[test]
fn pages_of_a_snapshot_stay_until_it_is_dropped() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = Options::new()
        .create(true)
        .page_bytes(4096)
        .open(&path)
        .expect("creates");
    let table = store.create_table("t", schema()).expect("fresh");
    fill(&store, 3000);
    let snapshot = store.snapshot();
    table.delete_range(..).expect("deletes");
    for _ in 0..5 {
        fill(&store, 3000);
        table.delete_range(..).expect("deletes");
        store.flush().expect("flushes");
    }
    assert_eq!(
        snapshot
            .range("t", ..)
            .expect("there")
            .count()
            .expect("its pages are whole"),
        3000
    );
    let held = store.info().expect("reads").used_bytes;
    drop(snapshot);
    let free = store.info().expect("reads").used_bytes;
    assert!(free < held / 2, "{held} bytes in use before, {free} after");
}

#[test]
fn the_log_is_removed_once_its_rows_are_in_pages() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = Options::new()
        .create(true)
        .head_bytes(256 << 10)
        .open(&path)
        .expect("creates");
    store.create_table("t", schema()).expect("fresh");
    fill(&store, 20_000);
    let bytes_of = |extension: &str| -> Vec<u64> {
        let entries = fs::read_dir(path.join("log")).expect("reads");
        let entries = entries.map(|entry| entry.expect("reads"));
        entries
            .filter(|entry| entry.path().extension().is_some_and(|it| it == extension))
            .map(|entry| entry.metadata().expect("is there").len())
            .collect()
    };
    assert_eq!(bytes_of("log").len(), 1);
    assert_eq!(store.info().expect("reads").wal_bytes, 0);
    let spares = bytes_of("spare");
    assert!(
        !spares.is_empty() && spares.iter().sum::<u64>() <= 32 << 20,
        "{spares:?}"
    );
    store.close().expect("flushes");
    assert_eq!((bytes_of("log").len(), bytes_of("spare").len()), (1, 0));
}
