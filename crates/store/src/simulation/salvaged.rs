//! Stores that are salvaged after a flush that did not end: it has left pages in the file that no
//! checkpoint names, with rows that are in the log as well. Without a superblock, they look like
//! those of a checkpoint.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use bedload_testkit::Rng;

use super::say;
use super::workload::{STORE, columns, open, open_at, options};
use crate::disk::sim::{Fault, FaultKind, SimDisk};
use crate::engine::salvage;
use crate::pages::Superblock;
use crate::rows::TableSchema;
use crate::store::{Store, Table};

const ROWS: i64 = 1200;

/// Rows that do not compress, so that a leaf of them has several pages, and is written at once.
fn batch(times: impl Iterator<Item = i64>) -> RecordBatch {
    let times: Vec<i64> = times.collect();
    let mut rng = Rng::new(times.len() as u64);
    let mut text = || -> String {
        let words = (0..25).map(|_| format!("{:016x}", rng.next_u64()));
        words.collect()
    };
    let texts = StringArray::from_iter_values(times.iter().map(|_| text()));
    RecordBatch::try_new(
        columns(),
        vec![
            Arc::new(TimestampMillisecondArray::from(times.clone())),
            Arc::new(Int64Array::from(times)),
            Arc::new(texts),
        ],
    )
    .expect("of one length")
}

fn table(store: &Store) -> Table {
    store.table("t").expect("there")
}

fn times(store: &Store) -> Vec<i64> {
    let batches = table(store).range(..).expect("reads");
    let times = batches.flat_map(|batch| {
        let batch = batch.expect("reads");
        batch
            .column(0)
            .as_primitive::<TimestampMillisecondType>()
            .values()
            .to_vec()
    });
    times.collect()
}

#[test]
fn rows_of_a_flush_that_died_are_saved_once() {
    // All late rows stay in memory until the flush.
    let options = || options().head_bytes(4 << 20);
    let late = || (0..ROWS).step_by(3).map(|n| 3 * n + 1);
    let sound = SimDisk::new(1);
    let store = open(&sound, options()).expect("creates");
    let schema = TableSchema::new(columns(), "at").expect("storable");
    let flushed = store.create_table("t", schema).expect("fresh");
    flushed
        .append(&batch((0..ROWS).map(|n| 3 * n)))
        .expect("a sound disk");
    drop(flushed);
    store.close().expect("a sound disk");
    let data = Path::new(STORE).join("data");
    let len = sound.files().into_iter().find(|(name, _)| *name == data);
    let len = len.expect("there").1.len();
    let with_late_rows = || {
        let disk = sound.copy();
        let store = open(&disk, options()).expect("opens");
        table(&store).append(&batch(late())).expect("there is memory");
        (disk, store)
    };
    let calls = {
        let (disk, store) = with_late_rows();
        let before = disk.calls();
        store.flush().expect("a sound disk");
        disk.calls() - before
    };
    let (disk, store) = with_late_rows();
    disk.set_fault(Some(Fault {
        call: disk.calls() + calls / 2,
        kind: FaultKind::Death,
    }));
    assert!(store.flush().is_err());
    drop(store);
    disk.set_fault(None);

    let mut damaged = 0;
    for at in (64 << 10..len).step_by(4096) {
        let disk = disk.copy();
        disk.change(&data, at + 200, 1);
        let saved = Path::new("/saved");
        let report = salvage(Arc::new(disk.clone()), Path::new(STORE), saved).expect("it can be written");
        damaged += usize::from(!report.problems.is_empty());
        let store = open_at(&disk, saved, options().create(false)).expect("a new store");
        let found = times(&store);
        assert!(
            found.is_sorted_by(|before, after| before < after),
            "{at}: each row once"
        );
        let found_late = found.iter().filter(|&time| time % 3 == 1).count();
        assert_eq!(found_late, late().count(), "{at}: what the log has");
        let later = (0..ROWS).step_by(7).map(|n| 3 * n + 2);
        table(&store)
            .append(&batch(later))
            .expect("a store like any other");
        store.flush().unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(store.verify().expect("reads").problems, [], "{at}");
    }
    say(&format!(
        "{damaged} damaged stores salvaged, after a flush that died at half of its {calls} calls"
    ));
    assert!(damaged > 10, "{damaged} were damaged");
}

/// A store after a flush that was to write rows which were held back before, and a range that was
/// deleted.
struct Flushed {
    disk: SimDisk,
    calls: u64,
    is_complete: bool,
    /// The times of the rows.
    times: Vec<i64>,
}

/// Builds a store whose last flush begins after `hinder`; the process dies after it.
fn flush_after(hinder: impl FnOnce(&SimDisk)) -> Flushed {
    let disk = SimDisk::new(1);
    let store = open(&disk, options().head_bytes(128 << 10)).expect("creates");
    let schema = TableSchema::new(columns(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    let append = |times: &[i64]| {
        let appended = table.append(&batch(times.iter().copied()));
        appended.expect("a sound disk");
    };
    // Each time once; a tenth of the rows is late by a little.
    let time_of = |row: i64| 4 * if row % 10 == 3 { row - 40 } else { row };
    let mut times: Vec<i64> = (0..ROWS).map(time_of).collect();
    times.chunks(50).for_each(append);
    assert!(store.metrics().rows_held_back > 0);
    times.sort_unstable();
    let deleted = times[1100]..times[1150];
    table.delete_range(deleted.clone()).expect("a sound disk");
    times.retain(|time| !deleted.contains(time));
    let again: Vec<i64> = deleted.step_by(16).collect();
    append(&again);
    times.extend(again);
    times.sort_unstable();
    let before = disk.calls();
    hinder(&disk);
    let is_complete = store.flush().is_ok();
    let calls = disk.calls() - before;
    die_at(&disk, 0);
    drop((table, store));
    disk.set_fault(None);
    Flushed {
        disk,
        calls,
        is_complete,
        times,
    }
}

/// Has the process die at the next call but `calls`.
fn die_at(disk: &SimDisk, calls: u64) {
    disk.set_fault(Some(Fault {
        call: disk.calls() + calls,
        kind: FaultKind::Death,
    }));
}

#[test]
fn rows_are_saved_once_where_no_superblock_is_whole() {
    let complete = flush_after(|_| {});
    assert!(complete.is_complete);
    let killed = (0..complete.calls).map(|call| flush_after(|disk| die_at(disk, call)));
    let data = Path::new(STORE).join("data");
    let mut tried = 0;
    for flushed in killed.filter(|flushed| !flushed.is_complete) {
        let disk = flushed.disk;
        for offset in Superblock::offsets() {
            let at = usize::try_from(offset).expect("small");
            disk.change(&data, at + 20, 0x10);
        }
        let saved = Path::new("/saved");
        salvage(Arc::new(disk.clone()), Path::new(STORE), saved).expect("it can be written");
        let store = open_at(&disk, saved, options().create(false)).expect("a new store");
        assert_eq!(times(&store), flushed.times, "store {tried}");
        let later = (0..ROWS).step_by(7).map(|row| 4 * row + 2);
        table(&store)
            .append(&batch(later))
            .expect("a store like any other");
        store
            .flush()
            .unwrap_or_else(|error| panic!("store {tried}: {error}"));
        assert_eq!(store.verify().expect("reads").problems, [], "store {tried}");
        tried += 1;
    }
    let calls = complete.calls;
    say(&format!(
        "{tried} stores without a superblock salvaged, after flushes of {calls} calls that failed"
    ));
    assert!(tried > 10, "{tried} flushes failed");
}
