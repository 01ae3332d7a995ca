//! A backup on a disk that loses power, fails and fills up.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampSecondType;
use bedload_testkit::Rng;
use parking_lot::Mutex;

use super::rewritten::batch;
use super::say;
use super::workload::{STORE, WRITERS, Writer, create_tables, open, open_at, options};
use crate::disk::Disk;
use crate::disk::sim::{Access, Fault, FaultKind, SimDisk, Trace};
use crate::engine::copy_store;
use crate::error::Error;
use crate::rows::TableSchema;
use crate::store::Store;
use crate::table::{Grid, Layout};

const COPY: &str = "/copy";

/// A store with rows of both layouts, in pages, blocks and the log.
fn build(disk: &SimDisk) -> (Store, Vec<Writer>) {
    build_with(disk, 9)
}

/// As [`build`], with writers that have done 8 of so many operations.
fn build_with(disk: &SimDisk, operations: usize) -> (Store, Vec<Writer>) {
    let store = open(disk, options()).expect("creates");
    create_tables(&store).expect("fresh tables");
    let writer = |number| Writer::new(number, operations, 3);
    let mut writers: Vec<Writer> = (0..WRITERS).map(writer).collect();
    for operation in 0..8 {
        for writer in &mut writers {
            writer.step(&store).expect("a sound disk");
        }
        if operation == 5 {
            store.flush().expect("a sound disk");
        }
    }
    (store, writers)
}

/// Every table is as after the last operation.
fn check(store: &Store, writers: &[Writer]) -> Result<(), String> {
    for writer in writers {
        writer.check(store, writer.begun(), writer.begun())?;
    }
    let problems = store.verify().map_err(|error| error.to_string())?.problems;
    if problems.is_empty() {
        Ok(())
    } else {
        Err(format!("{problems:?}"))
    }
}

/// Where the copy stands, there is a whole store or none.
fn check_copy(disk: &SimDisk, copy: &str, writers: &[Writer]) -> Result<bool, String> {
    match open_at(disk, Path::new(copy), options().create(false)) {
        Ok(store) => check(&store, writers).map(|()| true),
        Err(Error::NotAStore { .. }) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// Cuts power at each event of what was recorded. `look` says whether the new store is there, which
/// is then whole; after the last event it has to be there.
fn cut_everywhere(what: &str, trace: &Trace, look: impl Fn(&SimDisk, &str) -> bool) {
    let (mut rng, mut replay) = (Rng::new(1), trace.replay());
    let (mut whole, mut cuts) = (0, 0);
    loop {
        let at = format!("cut at event {cuts} of {}", trace.len());
        whole += usize::from(look(&replay.image(rng.below(u64::MAX)), &at));
        cuts += 1;
        if replay.step(&mut rng).is_none() {
            break;
        }
    }
    for seed in 0..8 {
        assert!(look(&replay.image(seed), "after it"), "{what} has returned");
    }
    say(&format!(
        "power cut at each of {cuts} events of {what}: {whole} times it was whole"
    ));
    assert!(whole < cuts);
}

#[test]
fn a_backup_that_loses_power_is_whole_or_no_store() {
    let disk = SimDisk::new(9);
    let (store, writers) = build(&disk);
    store.flush().expect("a sound disk");
    let begun = disk.record();
    store.backup(COPY).expect("a sound disk");
    let trace = disk.trace(begun);
    drop(store);
    cut_everywhere("a backup", &trace, |image, at| {
        let is_whole = check_copy(image, COPY, &writers).unwrap_or_else(|error| panic!("{at}: {error}"));
        let store = open(image, options()).unwrap_or_else(|error| panic!("{at}: {error}"));
        check(&store, &writers).unwrap_or_else(|error| panic!("{at}, the store itself: {error}"));
        is_whole
    });
}

/// A backup has everything in its checkpoint; the log of a store has rows and blocks after it.
#[test]
fn a_copy_by_a_reader_that_loses_power_is_whole_or_no_store() {
    const COPIED: &str = "/copied";
    for from in [COPY, STORE] {
        let disk = SimDisk::new(9);
        let (store, mut writers) = build(&disk);
        store.backup(COPY).expect("a sound disk");
        if from == STORE {
            writers
                .iter_mut()
                .for_each(|writer| writer.step(&store).expect("a sound disk"));
        }
        let begun = disk.record();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        copy_store(&shared, Path::new(from), Path::new(COPIED)).expect("a sound disk");
        let trace = disk.trace(begun);
        drop(store);
        cut_everywhere(&format!("a copy of {from}"), &trace, |image, at| {
            let is_whole =
                check_copy(image, COPIED, &writers).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(check_copy(image, from, &writers), Ok(true), "{at}");
            is_whole
        });
    }
}

#[test]
fn a_backup_that_fails_is_told_and_harms_nothing() {
    for by_reader in [false, true] {
        let copy = |disk: &SimDisk, store: &Store| match by_reader {
            true => copy_store(
                &(Arc::new(disk.clone()) as Arc<dyn Disk>),
                Path::new(STORE),
                Path::new(COPY),
            ),
            false => store.backup(COPY),
        };
        let calls = {
            let disk = SimDisk::new(9);
            let (store, _) = build(&disk);
            let before = disk.calls();
            copy(&disk, &store).expect("a sound disk");
            disk.calls() - before
        };
        let mut told = 0;
        for kind in [FaultKind::Error, FaultKind::NoSpace, FaultKind::Death] {
            for call in (1..=calls).step_by(3) {
                let disk = SimDisk::new(9);
                let (store, writers) = build(&disk);
                let call = disk.calls() + call;
                disk.set_fault(Some(Fault { call, kind }));
                let done = copy(&disk, &store);
                told += usize::from(done.is_err());
                drop(store);
                disk.set_fault(None);
                let at = format!("call {call} of {kind:?}, by a reader: {by_reader}");
                let store = open(&disk, options()).unwrap_or_else(|error| panic!("{at}: {error}"));
                check(&store, &writers).unwrap_or_else(|error| panic!("{at}, the store itself: {error}"));
                let is_there =
                    check_copy(&disk, COPY, &writers).unwrap_or_else(|error| panic!("{at}: {error}"));
                assert!(is_there || done.is_err(), "{at}: it has returned");
            }
        }
        say(&format!(
            "a backup of {calls} calls, by a reader: {by_reader}, some failing: {told} errors"
        ));
        assert!(told > 20);
    }
}

/// The second store finds the place empty, and the first takes it meanwhile.
#[test]
fn a_backup_leaves_one_alone_that_came_first() {
    let disk = SimDisk::new(9);
    let (first, writers) = build(&disk);
    let second = open_at(&disk, Path::new("/second"), options()).expect("creates");
    create_tables(&second).expect("fresh tables");
    Writer::new(0, 9, 4).step(&second).expect("a sound disk");
    let copied = Arc::new(Mutex::new(Vec::new()));
    let (done, of_disk) = (copied.clone(), disk.clone());
    disk.interrupt(Access::Write, Path::new("/second/data"), move || {
        first.backup(COPY).expect("a sound disk");
        *done.lock() = files_in(&of_disk, COPY);
    });
    let refused = second.backup(COPY);
    assert!(matches!(refused, Err(Error::AlreadyExists { .. })), "{refused:?}");
    let without_lock = |mut files: Vec<(PathBuf, Vec<u8>)>| {
        files.retain(|(path, _)| !path.ends_with("lock"));
        files
    };
    assert!(without_lock(files_in(&disk, COPY)) == without_lock(std::mem::take(&mut copied.lock())));
    assert_eq!(check_copy(&disk, COPY, &writers), Ok(true));
}

/// The files of a folder.
fn files_in(disk: &SimDisk, dir: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = disk.files();
    files.retain(|(path, _)| path.starts_with(dir));
    files
}

#[test]
fn a_backup_that_is_restored_stays_as_it_is() {
    let disk = SimDisk::new(9);
    let (store, mut writers) = build(&disk);
    store.backup(COPY).expect("a sound disk");
    let before = files_in(&disk, COPY);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let restore = |to: &str| copy_store(&shared, Path::new(COPY), Path::new(to));
    let check_at = |writers: &[Writer], to: &str| {
        let store = open_at(&disk, Path::new(to), options()).expect("opens");
        check(&store, writers).unwrap_or_else(|problem| panic!("{to}: {problem}"));
    };
    restore("/first").expect("a sound backup");
    assert!(files_in(&disk, COPY) == before);
    check_at(&writers, "/first");
    assert!(matches!(restore("/first"), Err(Error::AlreadyExists { .. })));

    // It is a store like any other: rows are added to it, and are in its log alone.
    let copy = open_at(&disk, Path::new(COPY), options()).expect("opens");
    for writer in writers.iter_mut().filter(|writer| !writer.is_done()) {
        writer.step(&copy).expect("a sound disk");
    }
    let before = files_in(&disk, COPY);
    restore("/second").expect("a sound backup");
    check_at(&writers, "/second");
    assert!(files_in(&disk, COPY) == before);
    drop(copy);
    let before = files_in(&disk, COPY);
    restore("/third").expect("a sound backup");
    check_at(&writers, "/third");
    assert!(files_in(&disk, COPY) == before);
}

/// An operation of each writer and a flush after each read of the data file but the first ones.
fn write_between_reads(disk: &SimDisk, first: usize, store: Arc<Store>, writers: Arc<Mutex<Vec<Writer>>>) {
    let of_disk = disk.clone();
    disk.interrupt(Access::Read, Path::new("/store/data"), move || {
        if first == 0 {
            for writer in writers.lock().iter_mut().filter(|writer| !writer.is_done()) {
                writer.step(&store).expect("a sound disk");
            }
            store.flush().expect("a sound disk");
        }
        if !writers.lock().iter().all(Writer::is_done) {
            write_between_reads(&of_disk, first.saturating_sub(1), store, writers);
        }
    });
}

#[test]
fn a_copy_by_a_reader_is_one_state_of_a_store_that_is_written_to() {
    let (mut newer, mut older) = (0, 0);
    for first in 0..30 {
        let disk = SimDisk::new(9);
        let (store, writers) = build_with(&disk, 24);
        let acknowledged: Vec<usize> = writers.iter().map(Writer::begun).collect();
        let writers = Arc::new(Mutex::new(writers));
        write_between_reads(&disk, first, Arc::new(store), writers.clone());
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        copy_store(&shared, Path::new(STORE), Path::new(COPY)).expect("a sound disk");
        let copy = open_at(&disk, Path::new(COPY), options()).expect("opens");
        for (writer, &acknowledged) in writers.lock().iter().zip(&acknowledged) {
            let found = writer.check(&copy, acknowledged, writer.begun());
            let found = found.unwrap_or_else(|problem| panic!("after {first} reads: {problem}"));
            newer += usize::from(found > acknowledged);
            older += usize::from(found < writer.begun());
        }
        assert_eq!(copy.verify().expect("reads").problems, []);
    }
    say(&format!(
        "copies by readers: {newer} tables had later operations than when they began, {older} earlier ones than when \
         they ended"
    ));
    assert!(newer > 0 && older > 0);
}

/// Each batch fills all blocks of the table, and the log names these before a map does.
#[test]
fn a_copy_by_a_reader_has_the_blocks_that_only_the_log_names() {
    const ROWS: i64 = 4000;
    let disk = SimDisk::new(9);
    let store = open(&disk, options()).expect("creates");
    let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
    let layout = Layout::Sparse(Grid::every(1).expect("positive"));
    let table = store.create_table_as("t", schema, layout).expect("fresh");
    let written_in = |store: &Store| -> Vec<i64> {
        let table = store.table("t").expect("copied");
        let batches = table.range(..).expect("there");
        let written = batches.flat_map(|batch| {
            let batch = batch.expect("reads");
            batch
                .column(1)
                .as_primitive::<TimestampSecondType>()
                .values()
                .to_vec()
        });
        written.collect()
    };
    for number in 1..=12 {
        let before = store.metrics().block_writes;
        table.append(&batch(0..ROWS, number)).expect("a sound disk");
        assert!(store.metrics().block_writes > before, "they go to blocks at once");
        if number % 4 == 0 {
            table.append(&batch(100..101, -number)).expect("a sound disk");
        }
        let to = format!("/copy {number}");
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        copy_store(&shared, Path::new(STORE), Path::new(&to)).expect("a sound disk");
        let copy = open_at(&disk, Path::new(&to), options().create(false)).expect("opens");
        assert!(written_in(&copy) == written_in(&store), "after {number} batches");
        // Several times between two flushes, so that a block has several writings in the log.
        if number % 3 == 0 {
            store.flush().expect("a sound disk");
        }
    }
}

/// Rows that are held back have numbers from before the checkpoint that is without them.
#[test]
fn what_a_process_that_died_has_committed_is_restored() {
    const ROWS: i64 = 40;
    let disk = SimDisk::new(9);
    // Its flushes come between two commits.
    let store = open(&disk, options().background(true)).expect("creates");
    let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    for part in 0..300 {
        // Each row is late by a few.
        let times = part * ROWS..(part + 1) * ROWS;
        table
            .append(&batch(times.map(|time| time ^ 15), part))
            .expect("a sound disk");
        std::thread::sleep(Duration::from_millis(if part % 4 == 0 { 20 } else { 0 }));
        let left = disk.copy();
        let shared: Arc<dyn Disk> = Arc::new(left.clone());
        copy_store(&shared, Path::new(STORE), Path::new("/restored")).expect("a sound store");
        let restored = open_at(&left, Path::new("/restored"), options()).expect("opens");
        let rows = restored.table("t").and_then(|table| table.range(..)?.count());
        let expected = ((part + 1) * ROWS).unsigned_abs();
        assert_eq!(rows.expect("a sound disk"), expected, "after {part} commits");
    }
    assert!(store.metrics().rows_held_back > 0);
}

#[test]
fn a_disk_without_holes_is_said_to_be_one() {
    let disk = SimDisk::new(9);
    let (store, writers) = build(&disk);
    store.flush().expect("a sound disk");
    let density = |store: &Store| {
        store
            .info()
            .expect("reads")
            .tables
            .iter()
            .find_map(|table| table.density)
    };
    let found = density(&store).expect("one is sparse");
    assert!(!found.has_holes);
    check(&store, &writers).expect("correct all the same");
    let with_holes = SimDisk::new(9);
    with_holes.set_holes(true);
    let (store, writers) = build(&with_holes);
    store.flush().expect("a sound disk");
    let other = density(&store).expect("one is sparse");
    assert!(other.has_holes);
    assert!(other.disk_bytes < found.disk_bytes, "{other:?} {found:?}");
    check(&store, &writers).expect("correct");
}
