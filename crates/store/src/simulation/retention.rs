//! Rows that are taken back make no others expire.

use std::time::Duration;

use super::rewritten::batch;
use super::workload::{open, options};
use crate::disk::sim::SimDisk;
use crate::rows::TableSchema;
use crate::store::{Store, Table};
use crate::table::{Grid, Layout};

const ROWS: i64 = 1000;
/// Where rows stand that are a mistake.
const FAR: i64 = 1 << 32;

fn create(disk: &SimDisk, layout: Layout) -> Store {
    let store = open(disk, options().head_bytes(4 << 20)).expect("creates");
    let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
    store.create_table_as("t", schema, layout).expect("fresh");
    store
}

fn each_layout(check: impl Fn(&SimDisk, &Store, &Table, &str)) {
    let sparse = Layout::Sparse(Grid::every(1).expect("positive"));
    for (name, layout) in [("indexed", Layout::Indexed), ("sparse", sparse)] {
        let disk = SimDisk::new(1);
        let store = create(&disk, layout);
        let table = store.table("t").expect("there");
        table.append(&batch(0..ROWS, 0)).expect("a sound disk");
        check(&disk, &store, &table, name);
        store.flush().expect("a sound disk");
        assert_eq!(count(&table), ROWS, "{name}");
        assert_eq!(store.verify().expect("reads").problems, [], "{name}");
    }
}

fn count(table: &Table) -> i64 {
    let rows = table.range(..).and_then(|scan| scan.count());
    rows.expect("a sound table").cast_signed()
}

fn keep(table: &Table) {
    let keep = Duration::from_secs(2 * ROWS.unsigned_abs());
    table.set_retention(Some(keep)).expect("a sound disk");
}

#[test]
fn rows_that_were_never_flushed_make_none_too_old() {
    each_layout(|_, _, table, _| {
        keep(table);
        table.append(&batch(FAR..FAR + 5, 0)).expect("a sound disk");
        table.delete_range(FAR..).expect("a sound disk");
    });
}

#[test]
fn rows_that_are_taken_back_make_none_too_old() {
    each_layout(|_, store, table, name| {
        keep(table);
        store.flush().expect("a sound disk");
        if name == "indexed" {
            let mark = table.mark();
            table.append(&batch(FAR..FAR + 5, 0)).expect("a sound disk");
            table.retract_since(mark).expect("its own mark");
        } else {
            let snapshot = store.snapshot();
            table.append(&batch(FAR..FAR + 5, 0)).expect("a sound disk");
            table.put_back(&snapshot, FAR..).expect("a sparse table");
        }
    });
}

#[test]
fn rows_that_are_flushed_and_deleted_in_a_pause_make_none_too_old() {
    for flushes_deletion in [false, true] {
        each_layout(|_, store, table, _| {
            keep(table);
            let pause = table.pause_retention();
            table.append(&batch(FAR..FAR + ROWS, 0)).expect("a sound disk");
            store.flush().expect("a sound disk");
            assert_eq!(count(table), 2 * ROWS);
            // Not all rows of their block, where the table is sparse.
            table.delete_range(FAR..).expect("a sound disk");
            if flushes_deletion {
                store.flush().expect("a sound disk");
            }
            drop(pause);
        });
    }
}

#[test]
fn leaves_that_lost_all_their_rows_make_none_too_old() {
    each_layout(|_, store, table, _| {
        for part in 0..20 {
            let first = FAR + part * ROWS;
            let rows = batch(first..first + ROWS, 0);
            table.append(&rows).expect("a sound disk");
            store.flush().expect("a sound disk");
        }
        table.delete_range(FAR..).expect("a sound disk");
        store.flush().expect("a sound disk");
        keep(table);
    });
}

/// Rows in a generation that is sealed and not flushed, which a later one takes back.
fn take_back_later(disk: &SimDisk, store: &Store, table: &Table) {
    keep(table);
    let (mark, pause) = (table.mark(), table.pause_retention());
    table.append(&batch(FAR..FAR + 5, 0)).expect("a sound disk");
    disk.set_capacity(disk.used());
    assert!(store.flush().is_err(), "there is no space");
    disk.set_capacity(u64::MAX);
    if table.layout() == Layout::Indexed {
        table.retract_since(mark).expect("its own mark");
    } else {
        table.delete_range(FAR..).expect("a sound disk");
    }
    drop(pause);
}

#[test]
fn rows_that_a_later_generation_takes_back_make_none_too_old() {
    each_layout(|disk, store, table, _| {
        take_back_later(disk, store, table);
    });
}

#[test]
fn rows_that_the_end_of_a_long_log_takes_back_make_none_too_old() {
    let sparse = Layout::Sparse(Grid::every(1).expect("positive"));
    for layout in [Layout::Indexed, sparse] {
        let disk = SimDisk::new(1);
        let store = create(&disk, layout);
        let table = store.table("t").expect("there");
        table.append(&batch(0..ROWS, 0)).expect("a sound disk");
        keep(&table);
        // A process that dies without a flush.
        let pause = table.pause_retention();
        for part in 0..20 {
            let first = FAR + part * ROWS;
            table
                .append(&batch(first..first + ROWS, 0))
                .expect("there is memory");
        }
        table.delete_range(FAR..).expect("a sound disk");
        let left = disk.copy();
        drop((pause, table, store));
        let options = options().head_bytes(64 << 10);
        let store = open(&left, options).expect("opens");
        let table = store.table("t").expect("there");
        assert_eq!(count(&table), ROWS, "{layout:?}");
        store.flush().expect("a sound disk");
        assert_eq!(count(&table), ROWS, "{layout:?}");
    }
}

#[test]
fn rows_that_have_expired_in_a_pause_go_when_it_ends() {
    let sparse = Layout::Sparse(Grid::every(1).expect("positive"));
    for layout in [Layout::Indexed, sparse] {
        let disk = SimDisk::new(1);
        let store = create(&disk, layout);
        let table = store.table("t").expect("there");
        table.append(&batch(0..ROWS, 0)).expect("a sound disk");
        keep(&table);
        let pause = table.pause_retention();
        table.append(&batch(FAR..FAR + 5, 0)).expect("a sound disk");
        store.flush().expect("a sound disk");
        assert_eq!(count(&table), ROWS + 5, "{layout:?}");
        pause.end().expect("a sound disk");
        assert_eq!(count(&table), 5, "{layout:?}");
    }
}
