//! A full disk: what was written can be taken back, and a store can be opened, if only to be read.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use bedload_testkit::Rng;

use super::say;
use super::workload::{STORE, WRITERS, Writer, columns, create_tables, open, options, table_name};
use crate::disk::Disk;
use crate::disk::sim::{Fault, FaultKind, SimDisk};
use crate::error::Error;
use crate::rows::TableSchema;
use crate::store::{Store, Table};
use crate::table::{Grid, Layout};

/// A store with rows in pages and in the log.
fn build() -> (SimDisk, Vec<Writer>) {
    let disk = SimDisk::new(9);
    let store = open(&disk, options()).expect("creates");
    create_tables(&store).expect("fresh tables");
    let mut writers: Vec<Writer> = (0..WRITERS).map(|number| Writer::new(number, 8, 4)).collect();
    for step in 0..8 {
        for writer in &mut writers {
            writer.step(&store).expect("a sound disk");
        }
        if step == 4 {
            store.flush().expect("a sound disk");
        }
    }
    (disk, writers)
}

fn check(store: &Store, writers: &[Writer]) {
    for writer in writers {
        writer
            .check(store, writer.begun(), writer.begun())
            .expect("its rows");
    }
    assert_eq!(store.verify().expect("reads").problems, []);
}

#[test]
fn a_store_is_opened_however_full_the_disk_is() {
    let (disk, writers) = build();
    let (mut read, mut written) = (0, 0);
    for has_reserve in [true, false] {
        for free in (0..40).map(|step| step * 8192) {
            let disk = disk.copy();
            if !has_reserve {
                disk.remove(&Path::new(STORE).join("reserve"))
                    .expect("it was set aside");
            }
            disk.set_capacity(disk.used() + free);
            let store = open(&disk, options()).unwrap_or_else(|error| panic!("{free} bytes free: {error}"));
            check(&store, &writers);
            let table = store.table(&table_name(0)).expect("there");
            match store.flush() {
                Ok(()) => written += 1,
                Err(Error::NoSpace { .. }) => {
                    read += 1;
                    assert!(matches!(table.delete_range(0..1), Err(Error::NoSpace { .. })));
                }
                Err(error) => panic!("{free} bytes free: {error}"),
            }
            drop((table, store));
            disk.set_capacity(u64::MAX);
            let store = open(&disk, options()).expect("a sound disk");
            check(&store, &writers);
            store.close().expect("a sound disk");
            check(&open(&disk, options()).expect("a sound disk"), &writers);
        }
    }
    say(&format!(
        "full disks: {read} stores could be read alone, {written} written to"
    ));
    assert!(read > 4 && written > 20, "{read} read, {written} written");
}

pub(super) fn batch(times: std::ops::Range<i64>) -> RecordBatch {
    let texts = times
        .clone()
        .map(|time| "x".repeat(usize::try_from(time % 50).unwrap_or(0)));
    RecordBatch::try_new(
        columns(),
        vec![
            Arc::new(TimestampMillisecondArray::from_iter_values(times.clone())),
            Arc::new(Int64Array::from_iter_values(times.clone())),
            Arc::new(StringArray::from_iter_values(texts)),
        ],
    )
    .expect("columns of one length")
}

/// Appends rows until the disk is full; returns how many there are then.
fn fill(table: &Table, from: i64) -> i64 {
    for first in (from..).step_by(40) {
        match table.append(&batch(first..first + 40)) {
            Ok(_) => {}
            Err(Error::NoSpace { .. }) => return first - from,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("the disk is not without end")
}

fn count(table: &Table) -> u64 {
    table.range(..).and_then(|scan| scan.count()).expect("reads")
}

/// Both layouts of a table that fills a disk, and by how many percent the disk may grow until then.
fn layouts_and_room() -> impl Iterator<Item = (Layout, u64)> {
    let grid = Grid::every(1).expect("positive");
    let layouts = [Layout::Indexed, Layout::Sparse(grid)].into_iter();
    layouts.flat_map(|layout| (1..20).map(move |step| (layout, 10 * step)))
}

#[test]
fn what_has_filled_a_disk_can_be_taken_back() {
    for (layout, percent) in layouts_and_room() {
        let disk = SimDisk::new(2);
        let store = open(&disk, options()).expect("creates");
        let schema = || TableSchema::new(columns(), "at").expect("storable");
        let table = store.create_table_as("t", schema(), layout).expect("fresh");
        table.append(&batch(0..300)).expect("a sound disk");
        store.flush().expect("a sound disk");
        let (mark, before) = (table.mark(), store.snapshot());
        disk.set_capacity(disk.used() * (100 + percent) / 100);
        let added = fill(&table, 300);
        let place = format!("{layout:?}, {percent} % more, {added} rows");
        match layout {
            Layout::Indexed => table.retract_since(mark),
            _ => table.put_back(&before, 300..),
        }
        .unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(count(&table), 300, "{place}");
        // It is durable, whatever becomes of the store; and closing it is no failure.
        drop((table, before));
        store.close().unwrap_or_else(|error| panic!("{place}: {error}"));
        let store = open(&disk, options()).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(count(&store.table("t").expect("there")), 300, "{place}");
        assert_eq!(store.verify().expect("reads").problems, [], "{place}");
    }
}

#[test]
fn a_table_that_has_filled_a_disk_can_be_dropped() {
    for (layout, percent) in layouts_and_room() {
        let disk = SimDisk::new(2);
        let store = open(&disk, options()).expect("creates");
        let schema = || TableSchema::new(columns(), "at").expect("storable");
        let other = store.create_table("other", schema()).expect("fresh");
        other.append(&batch(0..300)).expect("a sound disk");
        let table = store.create_table_as("t", schema(), layout).expect("fresh");
        disk.set_capacity(disk.used() * (100 + percent) / 100);
        let added = fill(&table, 0);
        // There may be room for rows of the other table in the log, and none to flush them.
        let more = other.append(&batch(300..301)).map_or(0, |_| 1);
        let place = format!("{layout:?}, {percent} % more, {added} and {more} rows");
        drop(table);
        store
            .drop_table("t")
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(count(&other), 300 + more, "{place}");
        drop(other);
        store.close().unwrap_or_else(|error| panic!("{place}: {error}"));
        let store = open(&disk, options()).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(store.tables(), ["other"], "{place}");
        assert_eq!(
            count(&store.table("other").expect("there")),
            300 + more,
            "{place}"
        );
        assert_eq!(store.verify().expect("reads").problems, [], "{place}");
    }
}

#[test]
fn a_sparse_table_whose_flush_failed_is_dropped_with_all_its_pages() {
    let added = |table: &Table| {
        // The blocks of these times are in another file.
        let rows = table.append(&batch(1_000_000..1_000_040));
        rows.map(drop).expect("a sound disk");
    };
    let deleted = |table: &Table| table.delete_range(..).expect("a sound disk");
    let changes: [fn(&Table); 2] = [added, deleted];
    let mut failed = [0; 2];
    for (change, call) in (0..2).flat_map(|change| (1..30).map(move |call| (change, call))) {
        let disk = SimDisk::new(2);
        let store = open(&disk, options()).expect("creates");
        let schema = || TableSchema::new(columns(), "at").expect("storable");
        let other = store.create_table("other", schema()).expect("fresh");
        let layout = Layout::Sparse(Grid::every(1).expect("positive"));
        let table = store.create_table_as("t", schema(), layout).expect("fresh");
        table.append(&batch(0..300)).expect("a sound disk");
        store.flush().expect("a sound disk");
        changes[change](&table);
        drop(table);
        disk.set_fault(Some(Fault {
            call: disk.calls() + call,
            kind: FaultKind::NoSpace,
        }));
        let flushed = store.flush();
        disk.set_fault(None);
        // The flush before the drop moves pages of the table, and these rows may get their places.
        let rows = batch(0..40);
        let appended = (0..20).try_for_each(|_| other.append(&rows).map(drop));
        if flushed.is_ok() || appended.is_err() {
            continue;
        }
        failed[change] += 1;
        let place = format!("change {change}, call {call}");
        store
            .drop_table("t")
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(store.verify().expect("reads").problems, [], "{place}");
        drop(other);
        store.close().unwrap_or_else(|error| panic!("{place}: {error}"));
        let store = open(&disk, options()).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(count(&store.table("other").expect("there")), 800, "{place}");
        assert_eq!(store.verify().expect("reads").problems, [], "{place}");
    }
    assert!(failed.iter().all(|&failed| failed > 0), "{failed:?}");
}

#[test]
fn a_deletion_that_is_durable_is_no_failure() {
    let disk = SimDisk::new(2);
    let store = open(&disk, options()).expect("creates");
    let schema = TableSchema::new(columns(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    table.append(&batch(0..300)).expect("a sound disk");
    disk.set_capacity(disk.used() + (16 << 10));
    fill(&table, 300);
    table.delete_range(0..300).expect("there is a reserve");
    let left = count(&table);
    drop(table);
    store.close().expect("what the log has is durable");
    let store = open(&disk, options()).expect("reads");
    assert_eq!(count(&store.table("t").expect("there")), left);
}

#[test]
fn a_commit_of_deletions_in_several_tables_has_the_reserve() {
    let disk = SimDisk::new(2);
    let store = open(&disk, options()).expect("creates");
    let names = ["a", "b"];
    let tables = names.map(|name| {
        let schema = TableSchema::new(columns(), "at").expect("storable");
        let table = store.create_table(name, schema).expect("fresh");
        table.append(&batch(0..300)).expect("a sound disk");
        table
    });
    disk.set_capacity(disk.used() + (16 << 10));
    let added = fill(&tables[0], 300);
    // More of them than fit where rows did not, and so many that a flush is tried.
    for first in (0..180).step_by(60) {
        let mut changes = store.write_batch();
        for time in first..first + 60 {
            for table in &tables {
                changes.delete_range(table, time..=time).expect("its table");
            }
        }
        changes.commit().expect("there is a reserve");
    }
    let left = tables.each_ref().map(count);
    assert_eq!(left, [120 + added.cast_unsigned(), 120]);
    drop(tables);
    store.close().expect("what the log has is durable");
    let store = open(&disk, options()).expect("reads");
    assert_eq!(names.map(|name| count(&store.table(name).expect("there"))), left);
}

/// Recovery writes blocks again that the log names: a checkpoint that finds no space at first, and
/// names them when it is tried again, has them synced all the same.
#[test]
fn blocks_that_recovery_renews_on_a_full_disk_are_durable() {
    let (mut opened, mut died) = (0, 0);
    for (death, call) in (1..80)
        .step_by(4)
        .flat_map(|death| (1..60).map(move |call| (death, call)))
    {
        let disk = SimDisk::new(7);
        let begun = disk.record();
        let store = open(&disk, options()).expect("creates");
        let schema = || TableSchema::new(columns(), "at").expect("storable");
        let layout = Layout::Sparse(Grid::every(1).expect("positive"));
        let sparse = store.create_table_as("s", schema(), layout).expect("fresh");
        let indexed = store.create_table("t", schema()).expect("fresh");
        indexed.append(&batch(0..400)).expect("a sound disk");
        let fault = |kind, call| {
            let call = disk.calls() + call;
            disk.set_fault(Some(Fault { call, kind }));
        };
        fault(FaultKind::Death, death);
        // So long that its blocks are written at once.
        died += usize::from(sparse.append(&batch(0..5000)).is_err());
        drop((sparse, indexed, store));
        disk.set_fault(None);
        fault(FaultKind::NoSpace, call);
        let reopened = open(&disk, options());
        disk.set_fault(None);
        let Ok(store) = reopened else { continue };
        opened += 1;
        let rows = count(&store.table("s").expect("there"));
        let trace = disk.trace(begun);
        drop(store);
        let (mut rng, mut replay) = (Rng::new(1), trace.replay());
        while replay.step(&mut rng).is_some() {}
        for seed in 0..3 {
            let image = replay.image(seed);
            let store = open(&image, options()).expect("opens");
            let place = format!("died at call {death}, call {call} of the opening");
            assert_eq!(count(&store.table("s").expect("there")), rows, "{place}");
            assert_eq!(store.verify().expect("reads").problems, [], "{place}");
        }
    }
    say(&format!(
        "full disks: {opened} stores opened whose writers had died, {died} while they wrote blocks"
    ));
    assert!(opened > 100 && died > 100, "{opened} opened, {died} died");
}
