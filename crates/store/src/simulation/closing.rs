//! A store that is dropped: all that was committed is durable, whatever its commits waited for.

use std::any::Any;
use std::time::Duration;

use bedload_testkit::Rng;

use super::full::batch;
use super::workload::{columns, open, options};
use crate::disk::sim::SimDisk;
use crate::options::Durability;
use crate::rows::TableSchema;
use crate::store::{Store, Table};
use crate::table::{Grid, Layout};

const ROWS: i64 = 500;

/// The last part of a store that is dropped.
#[derive(Debug, Clone, Copy)]
enum Last {
    Store,
    Table,
    Snapshot,
    Scan,
    Pending,
}

/// Appends all rows, the last ten without waiting for them. Drops every handle to the store but
/// one, which it returns.
fn fill(store: Store, table: Table, last: Last) -> Box<dyn Any> {
    table.append(&batch(0..ROWS - 10)).expect("a sound disk");
    let pending = table.begin_append(&batch(ROWS - 10..ROWS));
    let pending = pending.expect("a sound disk");
    match last {
        Last::Store => Box::new(store),
        Last::Table => Box::new(table),
        Last::Snapshot => Box::new(store.snapshot()),
        Last::Scan => Box::new(table.range(..).expect("reads")),
        Last::Pending => Box::new(pending),
    }
}

#[test]
fn a_store_that_is_dropped_loses_nothing_to_a_power_cut() {
    let durabilities = [
        Durability::Always,
        Durability::Group {
            every: Duration::from_millis(1),
        },
        Durability::Relaxed,
    ];
    let parts = [
        Last::Store,
        Last::Table,
        Last::Snapshot,
        Last::Scan,
        Last::Pending,
    ];
    let grid = Grid::every(1).expect("positive");
    for (durability, last, layout) in durabilities.into_iter().flat_map(|durability| {
        let layouts = [Layout::Indexed, Layout::Sparse(grid)];
        let each = parts.into_iter();
        each.flat_map(move |last| layouts.map(|layout| (durability, last, layout)))
    }) {
        for background in [false, true] {
            let disk = SimDisk::new(6);
            let begun = disk.record();
            let options = options().durability(durability).background(background);
            let store = open(&disk, options.clone()).expect("creates");
            let schema = TableSchema::new(columns(), "at").expect("storable");
            let table = store.create_table_as("t", schema, layout).expect("fresh");
            drop(fill(store, table, last));
            let trace = disk.trace(begun);
            let mut replay = trace.replay();
            while replay.step(&mut Rng::new(1)).is_some() {}
            for outcome in 0..12 {
                let place = format!("{durability:?}, {last:?} last, {layout:?}, outcome {outcome}");
                let store = open(&replay.image(outcome), options.clone());
                let store = store.unwrap_or_else(|error| panic!("{place}: {error}"));
                let table = store.table("t").expect("it was durable when it was created");
                let rows = table.range(..).and_then(|scan| scan.count()).expect("reads");
                assert_eq!(rows, ROWS.cast_unsigned(), "{place}");
            }
        }
    }
}
