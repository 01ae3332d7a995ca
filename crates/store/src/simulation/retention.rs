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

fn each_layout(check: impl Fn(&Store, &Table, &str)) {
    let sparse = Layout::Sparse(Grid::every(1).expect("positive"));
    for (name, layout) in [("indexed", Layout::Indexed), ("sparse", sparse)] {
        let disk = SimDisk::new(1);
        let store = open(&disk, options()).expect("creates");
        let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
        let table = store.create_table_as("t", schema, layout).expect("fresh");
        table.append(&batch(0..ROWS, 0)).expect("a sound disk");
        check(&store, &table, name);
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
    each_layout(|_, table, _| {
        keep(table);
        table.append(&batch(FAR..FAR + 5, 0)).expect("a sound disk");
        table.delete_range(FAR..).expect("a sound disk");
    });
}

#[test]
fn rows_that_are_taken_back_make_none_too_old() {
    each_layout(|store, table, name| {
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
        each_layout(|store, table, _| {
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
    each_layout(|store, table, _| {
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
