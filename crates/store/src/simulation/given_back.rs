//! Files and directories that are no longer needed go.

use std::path::{Path, PathBuf};

use super::rewritten::batch;
use super::workload::{STORE, open, options};
use crate::disk::Disk;
use crate::disk::sim::{Fault, FaultKind, SimDisk};
use crate::rows::TableSchema;
use crate::store::{Store, Table};
use crate::table::{Grid, Layout};

/// So many that they go to pages or blocks at once.
const ROWS: i64 = 4000;
/// So few that they stay in the log until the next flush.
const FEW: i64 = 500;

/// Creates a table whose rows have a time and the moment when they were written.
fn create(store: &Store, name: &str, layout: Layout) -> Table {
    let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
    store.create_table_as(name, schema, layout).expect("fresh")
}

fn sparse() -> Layout {
    Layout::Sparse(Grid::every(1).expect("positive"))
}

fn count(table: &Table) -> u64 {
    table.range(..).and_then(|scan| scan.count()).expect("reads")
}

/// The segments of the log.
fn segments(disk: &SimDisk) -> Vec<PathBuf> {
    let names = disk.files().into_iter().map(|(name, _)| name);
    names
        .filter(|name| name.starts_with(Path::new(STORE).join("log")))
        .collect()
}

/// Ends the process that has the store open.
fn kill(disk: &SimDisk, store: Store) {
    let (call, kind) = (disk.calls(), FaultKind::Death);
    disk.set_fault(Some(Fault { call, kind }));
    drop(store);
    disk.set_fault(None);
}

#[test]
fn a_log_that_was_replayed_goes_once_the_store_is_open() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options()).expect("creates");
    drop(create(&store, "t", Layout::Indexed));
    let mut opened = store;
    for round in 0..3 {
        let rows = round * FEW..(round + 1) * FEW;
        let appended = opened.table("t").and_then(|table| table.append(&batch(rows, 0)));
        appended.expect("a sound disk");
        kill(&disk, opened);
        let before = segments(&disk);
        opened = open(&disk, options()).expect("opens");
        let after = segments(&disk);
        assert_eq!(after.len(), 1, "{before:?}, and then {after:?}");
        assert!(!before.contains(&after[0]), "{before:?}, and then {after:?}");
    }
    assert_eq!(count(&opened.table("t").expect("there")), 3 * FEW.unsigned_abs());
    assert_eq!(opened.verify().expect("reads").problems, []);
}

fn dir_of(table: &Table) -> PathBuf {
    Path::new(STORE).join("sparse").join(table.id().to_string())
}

#[test]
fn the_directory_of_a_dropped_table_goes_with_its_last_file() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options()).expect("creates");
    for is_held in [false, true] {
        let table = create(&store, "t", sparse());
        table.append(&batch(0..ROWS, 0)).expect("a sound disk");
        store.flush().expect("a sound disk");
        let dir = dir_of(&table);
        disk.check_dir(&dir).expect("its blocks are there");
        let snapshot = is_held.then(|| store.snapshot());
        store.drop_table("t").expect("a sound disk");
        assert_eq!(disk.check_dir(&dir).is_ok(), is_held);
        if let Some(snapshot) = snapshot {
            let rows = snapshot.range("t", ..).and_then(|scan| scan.count());
            assert_eq!(rows.expect("what is held stays"), ROWS.unsigned_abs());
            drop(snapshot);
            create(&store, "other", Layout::Indexed);
            disk.check_dir(&dir).expect_err("it is held no more");
        }
    }
}

#[test]
fn a_table_that_lost_its_directory_with_its_rows_takes_rows() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options()).expect("creates");
    let table = create(&store, "t", sparse());
    for round in 0..3 {
        table.append(&batch(0..ROWS, round)).expect("a sound disk");
        store.flush().expect("a sound disk");
        disk.check_dir(&dir_of(&table)).expect("its blocks are there");
        assert_eq!(count(&table), ROWS.unsigned_abs());
        table.delete_range(..).expect("a sound disk");
        store.flush().expect("a sound disk");
        disk.check_dir(&dir_of(&table)).expect_err("it has no file");
    }
    assert_eq!(store.verify().expect("reads").problems, []);
}

#[test]
fn directories_that_a_crash_has_left_go_when_the_store_is_opened() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options()).expect("creates");
    let table = create(&store, "t", sparse());
    table.append(&batch(0..ROWS, 0)).expect("a sound disk");
    let dir = dir_of(&table);
    drop(table);
    store.close().expect("a sound disk");
    let left = dir.with_file_name("70");
    let others = dir.with_file_name("71");
    for dir in [&left, &others] {
        disk.create_dir(dir).expect("a sound disk");
    }
    disk.create(&others.join("notes")).expect("a sound disk");
    let store = open(&disk, options()).expect("opens");
    disk.check_dir(&left).expect_err("it is empty");
    disk.check_dir(&others).expect("it has a file of another program");
    assert_eq!(count(&store.table("t").expect("there")), ROWS.unsigned_abs());
}
