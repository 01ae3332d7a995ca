//! A process that has too many files open for a while: what cannot be done then is refused, and
//! done later.

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
