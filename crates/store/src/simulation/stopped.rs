//! Scans that are ended while they look for a row.

use std::path::{Path, PathBuf};

use arrow_array::TimestampSecondArray;
use bedload_columns::{Operator, Predicate};

use super::rewritten::batch;
use super::workload::{STORE, open, options};
use crate::disk::sim::{Access, SimDisk};
use crate::rows::TableSchema;
use crate::scan::Scan;
use crate::table::{Grid, Layout};

const ROWS: i64 = 40_000;

/// A store of a table with two values, as it is after it was opened.
fn build(layout: Layout) -> SimDisk {
    let disk = SimDisk::new(1);
    let store = open(&disk, options()).expect("creates");
    let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
    let table = store.create_table_as("t", schema, layout).expect("fresh");
    for from in (0..ROWS).step_by(20) {
        let written = from / 20 % 2 * 2;
        table
            .append(&batch(from..from + 20, written))
            .expect("a sound disk");
    }
    drop(table);
    store.close().expect("a sound disk");
    disk
}

/// Looks for a row of a value that lies between the two, and so in no leaf's or block's rows;
/// returns how many calls of the disk that took.
fn look(disk: &SimDisk, before: impl FnOnce(&mut Scan)) -> u64 {
    let store = open(disk, options()).expect("opens");
    let table = store.table("t").expect("there");
    let value = TimestampSecondArray::from(vec![1]);
    let predicate = Predicate::compare(Operator::Eq, &value).expect("comparable");
    let scan = table.range(..).and_then(|scan| scan.filter("written", predicate));
    let mut scan = scan.expect("there");
    before(&mut scan);
    let calls = disk.calls();
    assert!(scan.next().is_none());
    disk.calls() - calls
}

/// The file that has the first rows of the table.
fn rows_of(disk: &SimDisk, layout: Layout) -> PathBuf {
    let dir = Path::new(STORE);
    match layout {
        Layout::Indexed => dir.join("data"),
        Layout::Sparse(_) => {
            let files = disk.files().into_iter().map(|(path, _)| path);
            let of_blocks = files.filter(|path| path.starts_with(dir.join("sparse")));
            of_blocks.min().expect("blocks")
        }
    }
}

#[test]
fn a_scan_that_is_ended_looks_no_further() {
    let sparse = Layout::Sparse(Grid::every(1).expect("positive"));
    for layout in [Layout::Indexed, sparse] {
        let disk = build(layout);
        let all = look(&disk, |_| {});
        let some = look(&disk, |scan| {
            let handle = scan.stop_handle();
            disk.interrupt(Access::Read, &rows_of(&disk, layout), move || handle.stop());
        });
        assert!(some > 0 && some < all / 2, "{layout:?}: {some} of {all} calls");
    }
}

#[test]
fn a_scan_that_is_ended_counts_nothing() {
    let disk = build(Layout::Indexed);
    let store = open(&disk, options()).expect("opens");
    let scan = store.table("t").and_then(|table| table.range(..)).expect("there");
    let mut scan = scan.filter("written", Predicate::is_not_null()).expect("there");
    scan.stop_handle().stop();
    assert!(scan.count().is_err());
}
