//! A process that may have few files open: a table of many more files is flushed and recovered, and
//! what cannot be done for a while is refused, and done later.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampSecondType;

use super::rewritten::batch;
use super::say;
use super::workload::{open, options};
use crate::disk::sim::{Fault, FaultKind, SimDisk};
use crate::rows::TableSchema;
use crate::store::{Store, Table};
use crate::table::{Grid, Layout};

/// When the row of each time was written.
type Rows = BTreeMap<i64, i64>;

fn table(store: &Store) -> Table {
    store.table("t").expect("there")
}

fn rows(store: &Store) -> Rows {
    let mut rows = Rows::new();
    for batch in table(store).range(..).expect("reads") {
        let batch = batch.expect("reads");
        let column = |number: usize| batch.column(number).as_primitive::<TimestampSecondType>();
        let pairs = column(0).values().iter().zip(column(1).values());
        rows.extend(pairs.map(|(&time, &written)| (time, written)));
    }
    rows
}

/// Appends a batch of times that no other has, and flushes; returns how many of both were refused.
fn work(store: &Store, written: i64, model: &mut Rows) -> usize {
    let times = || (0..900).map(|row| row * 50 + written);
    let appended = table(store).append(&batch(times(), written));
    if appended.is_ok() {
        model.extend(times().map(|time| (time, written)));
    }
    usize::from(appended.is_err()) + usize::from(store.flush().is_err())
}

#[test]
fn a_store_goes_on_once_files_can_be_opened_again() {
    let grid = Grid::every(1).expect("positive");
    let mut refused = [0, 0];
    for (number, layout) in [Layout::Indexed, Layout::Sparse(grid)].into_iter().enumerate() {
        for call in 0..80 {
            let disk = SimDisk::new(3);
            let store = open(&disk, options()).expect("creates");
            let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
            store.create_table_as("t", schema, layout).expect("fresh");
            let mut model = Rows::new();
            assert_eq!(work(&store, 0, &mut model), 0);
            disk.set_fault(Some(Fault {
                call: disk.calls() + call,
                kind: FaultKind::NoDescriptors,
            }));
            refused[number] += (1..4).map(|step| work(&store, step, &mut model)).sum::<usize>();
            disk.set_fault(None);
            assert_eq!(work(&store, 4, &mut model), 0, "call {call}: it goes on");
            assert!(rows(&store) == model, "call {call}");
            store.close().expect("a sound disk");
            let store = open(&disk, options()).expect("opens");
            assert!(rows(&store) == model, "call {call}, opened again");
            assert_eq!(store.verify().expect("reads").problems, [], "call {call}");
        }
    }
    say(&format!(
        "too many open files: {refused:?} appends and flushes refused"
    ));
    assert!(refused.iter().all(|&refused| refused > 40), "{refused:?}");
}

#[test]
fn a_table_of_many_files_needs_few_of_them_open() {
    const FILES: i64 = 150;
    let disk = SimDisk::new(3);
    disk.set_descriptors(60);
    let store = open(&disk, options().head_bytes(1 << 20)).expect("creates");
    let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
    let layout = Layout::Sparse(Grid::every(1).expect("positive"));
    store.create_table_as("t", schema, layout).expect("fresh");
    // One row for each file, in memory, then so many rows of each that they are blocks at once.
    let scattered = |written: i64| batch((0..FILES).map(|file| file << 32), written);
    let blocks = |written: i64| {
        batch(
            (0..FILES).flat_map(|file| (0..600).map(move |row| (file << 32) + row)),
            written,
        )
    };
    let mut model = Rows::new();
    for (written, rows) in (0..).zip([scattered(0), scattered(1), blocks(2), scattered(3)]) {
        table(&store).append(&rows).expect("a sound disk");
        let times = rows
            .column(0)
            .as_primitive::<TimestampSecondType>()
            .values()
            .iter();
        model.extend(times.map(|&time| (time, written)));
        if written == 0 {
            store.flush().expect("few files are open");
        }
    }
    assert!(rows(&store) == model);
    // The process dies; what it has written is in the log.
    let left = disk.copy();
    left.set_descriptors(60);
    drop(store);
    let files = |disk: &SimDisk| {
        disk.files()
            .iter()
            .filter(|(name, _)| name.to_string_lossy().ends_with(".blocks"))
            .count() as u64
    };
    assert!(files(&left) >= FILES.unsigned_abs());
    let store = open(&left, options()).expect("few files are open");
    assert!(rows(&store) == model);
    store.flush().expect("few files are open");
    assert_eq!(store.verify().expect("reads").problems, []);
}
