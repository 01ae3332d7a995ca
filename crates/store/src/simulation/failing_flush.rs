//! Flushes that fail again and again until the obstacle is gone: a damaged page, which a cable may
//! have damaged in transit.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::full::batch;
use super::workload::{STORE, columns, open, options};
use crate::disk::sim::{Fault, FaultKind, SimDisk};
use crate::engine::Problem;
use crate::error::Error;
use crate::rows::TableSchema;
use crate::store::{Store, Table};

/// Rows that each of the two tables has in pages.
const OLD: i64 = 3000;
/// The memory for rows.
const HEAD_BYTES: usize = 64 << 10;
/// Rows of a batch, and more bytes of memory than they take.
const BATCH: i64 = 40;
const BATCH_BYTES: usize = 8 << 10;
/// Batches that take many times as much memory as there is.
const BATCHES: i64 = 400;

fn data() -> PathBuf {
    Path::new(STORE).join("data")
}

fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Index(_))
}

fn count(table: &Table) -> i64 {
    let rows = table.range(..).and_then(|scan| scan.count());
    rows.expect("a sound table").cast_signed()
}

/// Bytes of the segments of the log.
fn log_bytes(disk: &SimDisk) -> usize {
    let files = disk.files().into_iter();
    let segments = files.filter(|(name, _)| name.extension().is_some_and(|kind| kind == "log"));
    segments.map(|(_, bytes)| bytes.len()).sum()
}

fn tables(store: &Store) -> [Table; 2] {
    ["a", "b"].map(|name| store.table(name).expect("there"))
}

/// Two tables, and for each of them where to damage a page so that no flush gets past its rows.
fn build() -> (SimDisk, [usize; 2]) {
    let disk = SimDisk::new(4);
    let store = open(&disk, options()).expect("creates");
    for name in ["a", "b"] {
        let schema = TableSchema::new(columns(), "at").expect("storable");
        let table = store.create_table(name, schema).expect("fresh");
        table.append(&batch(0..OLD)).expect("a sound disk");
    }
    store.close().expect("a sound disk");
    let files = disk.files().into_iter();
    let len = files
        .filter(|(name, _)| *name == data())
        .map(|(_, bytes)| bytes.len())
        .sum();
    let fails = |at: usize, table: usize| {
        let damaged = disk.copy();
        damaged.change(&data(), at, 1);
        let store = open(&damaged, options()).ok()?;
        let appended = tables(&store)[table].append(&batch(OLD..OLD + BATCH));
        appended.expect("the log is sound");
        Some(store.flush().is_err())
    };
    let places = [0, 1].map(|table| {
        let mut places = (64 << 10..len).step_by(4096).map(|page| page + 200);
        let place = places.find(|&at| fails(at, table) == Some(true) && fails(at, 1 - table) == Some(false));
        place.expect("a flush reads a page of the table")
    });
    (disk, places)
}

/// Damages the page, and appends to both tables until long after memory is full; returns the store,
/// and how many rows each table has.
fn fill(disk: &SimDisk, place: usize, background: bool) -> (Store, [i64; 2]) {
    disk.change(&data(), place, 1);
    let store = open(disk, options().head_bytes(HEAD_BYTES).background(background)).expect("opens");
    let tables = tables(&store);
    let mut rows = [OLD; 2];
    let mut refused = 0;
    for round in 0..BATCHES {
        let table = usize::from(round % 2 == 1);
        match tables[table].append(&batch(rows[table]..rows[table] + BATCH)) {
            Ok(_) => rows[table] += BATCH,
            Err(error) => {
                assert!(is_damage(&error), "{error}");
                refused += 1;
            }
        }
        let bytes = usize::try_from(store.metrics().head_bytes).expect("small");
        assert!(
            bytes <= 2 * (HEAD_BYTES + BATCH_BYTES),
            "{bytes} bytes in batch {round}"
        );
    }
    assert!(refused > BATCHES / 2, "{refused} were refused");
    (store, rows)
}

#[test]
fn memory_and_log_stop_growing_while_flushes_fail() {
    let (sound, [place, _]) = build();
    for background in [false, true] {
        let disk = sound.copy();
        let (store, mut rows) = fill(&disk, place, background);
        let [a, b] = tables(&store);
        let log = log_bytes(&disk);
        let long = batch(rows[1]..rows[1] + 5000);
        let schema = || TableSchema::new(columns(), "at").expect("storable");
        for _ in 0..20 {
            let mut changes = store.write_batch();
            changes.append(&b, &batch(0..1)).expect("its table");
            let outcomes = [
                a.append(&batch(0..1)).map(drop),
                changes.commit().map(drop),
                b.append(&long).map(drop),
                b.delete_range(0..1),
                b.set_retention(Some(Duration::from_secs(1 << 30))),
                store.create_table("c", schema()).map(drop),
                store.rename_table("b", "c"),
                store.flush(),
            ];
            for (operation, outcome) in outcomes.into_iter().enumerate() {
                let error = outcome.expect_err("there is no memory");
                assert!(is_damage(&error), "operation {operation}: {error}");
            }
        }
        assert_eq!(log_bytes(&disk), log, "nothing was logged");
        assert_eq!(count(&b), rows[1], "what is committed can be read");
        // The next writer goes on by itself.
        disk.change(&data(), place, 1);
        for (table, rows) in [&a, &b].into_iter().zip(&mut rows) {
            table
                .append(&batch(*rows..*rows + BATCH))
                .expect("the page is whole");
            *rows += BATCH;
        }
        assert_eq!([count(&a), count(&b)], rows);
        assert_eq!(store.verify().expect("reads").problems, []);
        drop((a, b));
        store.close().expect("a sound disk");
        let store = open(&disk, options()).expect("a sound disk");
        assert_eq!(tables(&store).each_ref().map(count), rows);
    }
}

#[test]
fn a_table_that_no_flush_gets_past_can_be_dropped() {
    let (disk, [place, _]) = build();
    let (store, rows) = fill(&disk, place, false);
    store.drop_table("a").expect("its rows are given up");
    let b = store.table("b").expect("there");
    b.append(&batch(rows[1]..rows[1] + BATCH))
        .expect("nothing is in the way");
    assert_eq!(count(&b), rows[1] + BATCH);
    assert_eq!(store.verify().expect("reads").problems, []);
    drop((store, b));
    let store = open(&disk, options()).expect("a sound disk");
    assert_eq!(count(&store.table("b").expect("there")), rows[1] + BATCH);
}

/// Opens a store on a disk with a damaged page, and appends to both tables: no flush gets past.
fn stuck(disk: &SimDisk) -> Store {
    let store = open(disk, options()).expect("opens");
    for table in &tables(&store) {
        let appended = table.append(&batch(OLD..OLD + BATCH));
        appended.expect("the log is sound");
    }
    assert!(store.flush().is_err_and(|error| is_damage(&error)));
    store
}

#[test]
fn a_drop_that_finds_the_disk_full_halfway_is_finished_with_the_reserve() {
    let (sound, [place, _]) = build();
    let (mut calls, mut read) = (0, 0);
    for call in 1.. {
        let disk = sound.copy();
        disk.change(&data(), place, 1);
        let store = stuck(&disk);
        disk.set_fault(Some(Fault {
            call: disk.calls() + call,
            kind: FaultKind::NoSpace,
        }));
        let begun = disk.calls();
        let dropped = store.drop_table("a");
        let is_over = disk.calls() < begun + call;
        disk.set_fault(None);
        match dropped {
            // A call that takes no space fails for another reason, and then the table is there.
            Err(Error::Io { .. }) => {}
            dropped => {
                dropped.unwrap_or_else(|error| panic!("call {call}: {error}"));
                for slot in [0, 32 << 10] {
                    let image = disk.copy();
                    image.change(&data(), slot + 24, 1);
                    match open(&image, options()) {
                        Ok(store) => {
                            assert_eq!(store.tables(), ["b"], "call {call}, without superblock {slot}");
                            read += 1;
                        }
                        // Pages of an earlier checkpoint may be given back.
                        Err(error) => assert!(is_damage(&error), "call {call}: {error}"),
                    }
                }
                calls += 1;
            }
        }
        if is_over {
            break;
        }
    }
    assert!(calls > 5 && read > calls, "{calls} calls, {read} superblocks");
}

#[test]
fn each_of_two_tables_that_no_flush_gets_past_can_be_dropped() {
    let (disk, places) = build();
    places.iter().for_each(|&place| disk.change(&data(), place, 1));
    let store = stuck(&disk);
    let [a, b] = tables(&store);
    store.drop_table("a").expect("its rows are given up");
    b.append(&batch(OLD + BATCH..OLD + 2 * BATCH))
        .expect("there is memory");
    assert!(store.flush().is_err_and(|error| is_damage(&error)));
    // The other table has lost nothing, should its page be whole again after all.
    let whole = disk.copy();
    whole.change(&data(), places[1], 1);
    let reopened = open(&whole, options()).expect("a sound disk");
    assert!(reopened.table("a").is_err());
    let found = reopened.table("b").expect("there");
    assert_eq!(count(&found), OLD + 2 * BATCH);
    // Space is lost as long as it is not known what the other table has.
    let problems = reopened.verify().expect("reads").problems;
    let is_lost = |problem: &Problem| problem.reason == "no tree reaches it";
    assert!(problems.iter().all(is_lost), "{problems:?}");

    // Nor is a table back if the newest superblock is damaged.
    for slot in [0, 32 << 10] {
        let image = disk.copy();
        image.change(&data(), places[1], 1);
        image.change(&data(), slot + 24, 1);
        let store = open(&image, options()).expect("by the other superblock");
        assert_eq!(store.tables(), ["b"], "without the superblock at {slot}");
        assert_eq!(count(&store.table("b").expect("there")), OLD + 2 * BATCH);
    }

    store.drop_table("b").expect("its rows are given up");
    let schema = TableSchema::new(columns(), "at").expect("storable");
    let c = store.create_table("c", schema).expect("nothing is in the way");
    c.append(&batch(0..BATCH)).expect("a sound disk");
    drop((a, b, c));
    store.close().expect("a sound disk");
    let store = open(&disk, options()).expect("a sound disk");
    assert_eq!(store.tables(), ["c"]);
    assert_eq!(store.verify().expect("reads").problems, []);
}
