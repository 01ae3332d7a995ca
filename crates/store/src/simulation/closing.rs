//! A store that is dropped: all that was committed is durable, whatever its commits waited for, and
//! whatever happens meanwhile, the store opens.

use std::any::Any;
use std::time::Duration;

use bedload_testkit::Rng;

use super::full::batch;
use super::workload::{columns, open, options};
use crate::disk::sim::{Fault, FaultKind, SimDisk};
use crate::error::Result;
use crate::options::{Durability, Options};
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
            let filled = fill(store, table, last);
            let before = disk.trace(begun.clone()).len();
            drop(filled);
            let trace = disk.trace(begun);
            let mut replay = trace.replay();
            let mut rng = Rng::new(1);
            for event in 0..=trace.len() {
                let is_closed = event == trace.len();
                let outcomes = match event {
                    _ if is_closed => 12,
                    _ if event >= before => 4,
                    _ => 0,
                };
                for outcome in 0..outcomes {
                    let place = format!(
                        "{durability:?}, {last:?} last, {layout:?}, event {event}, outcome {outcome}"
                    );
                    let image = replay.image((event as u64) << 8 | outcome);
                    let found = rows_in(&image, &options).unwrap_or_else(|error| panic!("{place}: {error}"));
                    let least = match (is_closed, durability) {
                        (true, _) => ROWS,
                        (_, Durability::Relaxed) => 0,
                        _ => ROWS - 10,
                    };
                    let rows = least.cast_unsigned()..=ROWS.cast_unsigned();
                    assert!(rows.contains(&found), "{place}: {found} rows");
                }
                replay.step(&mut rng);
            }
            reopen(
                &disk,
                &options,
                &format!("{durability:?}, {last:?} last, {layout:?}"),
            );
        }
    }
}

fn rows_in(disk: &SimDisk, options: &Options) -> Result<u64> {
    let store = open(disk, options.clone())?;
    let rows = store.table("t")?.range(..)?.count()?;
    assert_eq!(store.verify()?.problems, []);
    Ok(rows)
}

/// Opens a closed store and closes it, with a power cut at each event.
fn reopen(disk: &SimDisk, options: &Options, place: &str) {
    let begun = disk.record();
    drop(open(disk, options.clone()).expect("a sound disk"));
    let trace = disk.trace(begun);
    let mut replay = trace.replay();
    for event in 0..=trace.len() as u64 {
        let found = rows_in(&replay.image(event), options);
        let found = found.unwrap_or_else(|error| panic!("{place}, reopened, event {event}: {error}"));
        assert_eq!(found, ROWS.cast_unsigned(), "{place}, reopened, event {event}");
        replay.step(&mut Rng::new(event));
    }
}

#[test]
fn each_call_of_closing_may_fail() {
    let build = || {
        let disk = SimDisk::new(7);
        let begun = disk.record();
        let store = open(&disk, options()).expect("creates");
        let schema = TableSchema::new(columns(), "at").expect("storable");
        let table = store.create_table("t", schema).expect("fresh");
        let filled = fill(store, table, Last::Store);
        (disk, begun, filled)
    };
    let calls = {
        let (disk, _, filled) = build();
        let before = disk.calls();
        drop(filled);
        disk.calls() - before
    };
    for kind in [
        FaultKind::Error,
        FaultKind::NoSpace,
        FaultKind::Partial,
        FaultKind::Death,
    ] {
        for call in 1..=calls {
            let (disk, begun, filled) = build();
            let place = format!("{kind:?} of call {call}");
            disk.set_fault(Some(Fault {
                call: disk.calls() + call,
                kind,
            }));
            drop(filled);
            disk.set_fault(None);
            let trace = disk.trace(begun);
            let mut replay = trace.replay();
            while replay.step(&mut Rng::new(call)).is_some() {}
            let images = (0..8).map(|outcome| replay.image(outcome));
            for (number, image) in images.chain([disk]).enumerate() {
                let found = rows_in(&image, &options());
                let found = found.unwrap_or_else(|error| panic!("{place}, image {number}: {error}"));
                assert!(found >= (ROWS - 10).cast_unsigned(), "{place}, image {number}");
            }
        }
    }
    assert!(calls > 5, "{calls} calls");
}
