//! Space on the disk is used again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Options, Store, TableSchema};
use bedload_testkit::Rng;

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

/// Bytes that do not get shorter.
fn noise(first: u64, rows: u64) -> RecordBatch {
    let fields = vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("noise", DataType::FixedSizeBinary(64), false),
    ];
    let mut rng = Rng::new(first);
    let bytes: Vec<u8> = (0..rows * 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    let times = (first..first + rows).map(u64::cast_signed);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampSecondArray::from_iter_values(times)),
        Arc::new(FixedSizeBinaryArray::new(64, bytes.into(), None)),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("columns of one length")
}

#[test]
fn deleting_half_of_a_table_gives_its_space_back() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let options = || Options::new().create(true).background(false);
    let store = options().open(&path).expect("creates");
    let schema = TableSchema::new(noise(0, 0).schema(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    const ROWS: u64 = 1_600_000;
    for first in (0..ROWS).step_by(100_000) {
        table.append(&noise(first, 100_000)).expect("appends");
    }
    store.flush().expect("flushes");
    let on_disk = || fs::metadata(path.join("data")).expect("there").blocks() * 512;
    let before = on_disk();
    assert!(before > ROWS * 64, "{before} bytes");
    table.delete_range(..800_000).expect("deletes");
    store.flush().expect("flushes");
    let after = on_disk();
    assert!(
        (before - after) * 2 > before * 9 / 10,
        "{before} bytes on the disk before, {after} after"
    );
    let told = store.info().expect("reads").file_bytes;
    assert!(
        told.abs_diff(after) < after / 50,
        "{told} bytes are told, {after} are taken"
    );
    drop((table, store));
    let store = options().open(&path).expect("opens");
    // The holes are those of an earlier process now.
    let (told, taken) = (store.info().expect("reads").file_bytes, on_disk());
    assert!(
        told.abs_diff(taken) < taken / 50,
        "{told} bytes are told after reopening, {taken} are taken"
    );
    assert_eq!(store.verify().expect("reads").problems, []);
    let table = store.table("t").expect("there");
    let mut next = 800_000;
    for batch in table.range(..).expect("there") {
        let batch = batch.expect("reads");
        let expected = noise(next / 100_000 * 100_000, 100_000);
        let begin = usize::try_from(next % 100_000).expect("small");
        let rows = batch.num_rows().min(100_000 - begin);
        assert_eq!(batch.slice(0, rows), expected.slice(begin, rows));
        next += batch.num_rows() as u64;
    }
    assert_eq!(next, ROWS);
    // Space that went back is used again.
    for first in (ROWS..2 * ROWS).step_by(100_000) {
        table.append(&noise(first, 100_000)).expect("appends");
    }
    store.flush().expect("flushes");
    assert_eq!(store.verify().expect("reads").problems, []);
    assert!(data_bytes(&path) < before * 2);
}

#[test]
fn space_goes_back_in_the_background() {
    const ROWS: u64 = 700_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = Options::new().create(true).open(&path).expect("creates");
    let schema = TableSchema::new(noise(0, 0).schema(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    for first in (0..ROWS).step_by(100_000) {
        table.append(&noise(first, 100_000)).expect("appends");
    }
    store.flush().expect("flushes");
    let on_disk = || fs::metadata(path.join("data")).expect("there").blocks() * 512;
    let before = on_disk();
    table.delete_range(..650_000).expect("deletes");
    store.flush().expect("flushes");
    // 16 MiB of the 40 that are free are kept for pages to come; as many go back at a time.
    let begun = Instant::now();
    while before - on_disk() < 22 << 20 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{} bytes of {before}",
            on_disk()
        );
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(store.verify().expect("reads").problems, []);
    let rows = table.range(..).and_then(|scan| scan.count());
    assert_eq!(rows.expect("reads"), 50_000);
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
    assert!(bytes_of("log")[0] <= 4096, "{:?}", bytes_of("log"));

    // Rows that are not flushed stay, and nothing but them.
    let store = Store::open(&path).expect("opens");
    let rows = [TestRow::numbered(1 << 40, 1)];
    append(&store.table("t").expect("there"), &rows).expect("appends");
    drop(store);
    let log: u64 = bytes_of("log").iter().sum();
    assert!(log <= 3 * 4096, "{log} bytes for a row");
    let store = Store::open(&path).expect("opens");
    let rows = store
        .table("t")
        .expect("there")
        .range(..)
        .and_then(|scan| scan.count());
    assert_eq!(rows.expect("counts"), 20_001);
}

/// Segments of the log that may be written over.
fn spares(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path.join("log")).expect("reads");
    let paths = entries.map(|entry| entry.expect("reads").path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == "spare"))
        .collect()
}

#[test]
fn spare_segments_may_be_removed_or_replaced() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let options = Options::new().create(true).background(false);
    let store = options.open(&path).expect("creates");
    store.create_table("t", schema()).expect("fresh");
    for round in 0..6 {
        fill(&store, 100);
        let spares = spares(&path);
        assert!(!spares.is_empty(), "round {round}");
        for spare in spares {
            fs::remove_file(&spare).expect("removes");
            if round % 2 == 1 {
                fs::write(&spare, "another file").expect("writes");
            }
        }
    }
    store.close().expect("closes");
    let store = options.open(&path).expect("opens");
    let table = store.table("t").expect("there");
    assert_eq!(table.range(..).expect("reads").count().expect("reads"), 600);
    assert_eq!(store.verify().expect("reads").problems, []);
}
