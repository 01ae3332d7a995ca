//! A store that is open for reading, on the disk of one that is being written to.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bedload_testkit::Rng;

use super::rewritten::batch;
use super::say;
use super::workload::{STORE, WRITERS, Writer, create_tables, open, options};
use crate::disk::Disk;
use crate::disk::sim::{Access, Fault, FaultKind, SimDisk};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::rows::TableSchema;
use crate::store::{Snapshot, Store};

const OPERATIONS: usize = 40;

fn open_to_read(disk: &SimDisk) -> Result<Store> {
    let engine = Engine::open_to_read(Arc::new(disk.clone()), Path::new(STORE), options())?;
    Ok(Store::new(engine))
}

fn writers(seed: u64) -> Vec<Writer> {
    let writer = |number| Writer::new(number, OPERATIONS, seed);
    (0..WRITERS).map(writer).collect()
}

/// How many operations of each writer were done.
fn done(writers: &[Writer]) -> Vec<usize> {
    writers.iter().map(Writer::begun).collect()
}

fn files_of_readers(disk: &SimDisk) -> Vec<PathBuf> {
    disk.list(&Path::new(STORE).join("readers")).unwrap_or_default()
}

/// Ends the writer's process without a word.
fn kill(disk: &SimDisk, store: Store) {
    disk.set_fault(Some(Fault {
        call: disk.calls(),
        kind: FaultKind::Death,
    }));
    drop(store);
    disk.set_fault(None);
}

#[test]
fn a_reader_sees_each_commit_and_keeps_what_it_holds() {
    let (mut refreshed, mut reopened) = (0, 0);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(seed);
        disk.set_holes(seed % 2 == 0);
        let mut store = open(&disk, options()).expect("creates");
        create_tables(&store).expect("a sound disk");
        let mut writers = writers(seed);
        let mut reader = open_to_read(&disk).expect("opens");
        let mut held: Vec<(Snapshot, Vec<usize>)> = Vec::new();
        let mut extra = 0;
        while writers.iter().any(|writer| !writer.is_done()) {
            let number = rng.index(WRITERS);
            if !writers[number].is_done() {
                writers[number].step(&store).expect("a sound disk");
            }
            match rng.below(60) {
                0..=9 => {
                    reader
                        .refresh()
                        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                    refreshed += 1;
                    for writer in &writers {
                        let n = writer.begun();
                        writer
                            .check(&reader, n, n)
                            .unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
                    }
                    if rng.below(3) == 0 {
                        held.push((reader.snapshot(), done(&writers)));
                    }
                }
                10..=14 => store.flush().expect("a sound disk"),
                15 => {
                    drop(store);
                    store = open(&disk, options()).expect("opens again");
                    reopened += 1;
                }
                16 => {
                    kill(&disk, store);
                    store = open(&disk, options()).expect("opens again");
                    reopened += 1;
                }
                17 => {
                    let name = format!("extra {extra}");
                    let schema = store.table("writer 0").expect("there").schema().clone();
                    store.create_table(&name, schema).expect("a sound disk");
                    extra += 1;
                }
                18 if extra > 0 => {
                    let _ = store.drop_table(&format!("extra {}", rng.below(extra)));
                }
                19 => reader = open_to_read(&disk).expect("opens"),
                20 if !held.is_empty() => drop(held.swap_remove(rng.index(held.len()))),
                _ => {}
            }
            if let Some((snapshot, operations)) = held.get(rng.index(held.len().max(1)))
                && rng.below(4) == 0
            {
                for (writer, &n) in writers.iter().zip(operations) {
                    writer
                        .check_snapshot(snapshot, n)
                        .unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
                }
            }
        }
        reader.refresh().expect("a sound disk");
        assert_eq!(reader.verify().expect("a sound disk").problems, [], "seed {seed}");
        assert!(!files_of_readers(&disk).is_empty());
        drop((reader, held));
        assert_eq!(files_of_readers(&disk), [] as [PathBuf; 0]);
        drop(store);
        let store = open(&disk, options()).expect("opens");
        assert_eq!(store.verify().expect("a sound disk").problems, [], "seed {seed}");
    }
    assert!(refreshed > 1000 && reopened > 100, "{refreshed}, {reopened}");
    say(&format!(
        "readers: {refreshed} refreshed, beside {reopened} reopened writers"
    ));
}

#[test]
fn space_is_kept_for_readers_that_live() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options()).expect("creates");
    create_tables(&store).expect("a sound disk");
    let mut writer = Writer::new(0, 60, 1);
    let reader = open_to_read(&disk).expect("opens");
    let grow = |writer: &mut Writer, steps: usize| {
        for _ in 0..steps {
            writer.step(&store).expect("a sound disk");
            store.flush().expect("a sound disk");
        }
        store.info().expect("a sound disk").used_bytes
    };
    let held = grow(&mut writer, 30);
    assert_eq!(
        reader
            .snapshot()
            .range("writer 0", ..)
            .and_then(|scan| scan.count())
            .expect("reads"),
        0
    );
    // A process that died leaves its file, and no lock.
    let dir = Path::new(STORE).join("readers");
    std::mem::forget(
        disk.create(&dir.join("0000000000000001.7.0"))
            .expect("a sound disk"),
    );
    drop(reader);
    grow(&mut writer, 1);
    let freed = grow(&mut writer, 1);
    assert!(freed * 2 < held, "{freed} of {held} bytes are left");
    assert_eq!(files_of_readers(&disk), [] as [PathBuf; 0]);
}

/// The space of a segment that the writer removes comes back once no reader has it open.
#[test]
fn a_reader_has_only_the_segment_open_that_it_follows() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options()).expect("creates");
    create_tables(&store).expect("a sound disk");
    let mut writer = Writer::new(0, OPERATIONS, 1);
    let before = disk.open_files();
    let reader = open_to_read(&disk).expect("opens");
    let opened = disk.open_files() - before;
    assert_eq!(opened, 2, "the data file and a segment");
    drop(store);
    let store = open(&disk, options()).expect("opens");
    writer.step(&store).expect("a sound disk");
    store.flush().expect("a sound disk");
    reader.refresh().expect("a sound disk");
    drop(store);
    assert_eq!(
        disk.open_files(),
        2,
        "the data file and the segment that the reader moved on to"
    );
}

#[test]
fn a_store_that_needs_recovery_is_read_and_not_changed() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let store = open(&disk, options()).expect("creates");
        create_tables(&store).expect("a sound disk");
        let mut writers = writers(seed);
        for step in 0..60 {
            writers[step % WRITERS].step(&store).expect("a sound disk");
            if step == 30 {
                store.flush().expect("a sound disk");
            }
        }
        // As it is when its process is killed.
        let left = disk.copy();
        let before = left.files();
        let reader = open_to_read(&left).expect("opens");
        for writer in &writers {
            let n = writer.begun();
            writer
                .check(&reader, n, n)
                .unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
        }
        assert!(!reader.refresh().expect("a sound disk"));
        assert!(reader.info().expect("a sound disk").wal_bytes > 0);
        let report = reader.verify().expect("a sound disk");
        assert!(report.problems.is_empty() && report.log_records > 0, "{report:?}");
        reader.close().expect("a sound disk");
        assert!(left.files() == before, "seed {seed}");
    }
}

#[test]
fn what_a_reader_has_seen_survives_power_loss() {
    let mut unsynced = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(seed);
        let begun = disk.record();
        let relaxed = || options().durability(Durability::Relaxed);
        let store = open(&disk, relaxed()).expect("creates");
        create_tables(&store).expect("a sound disk");
        let mut writers = writers(seed);
        let reader = open_to_read(&disk).expect("opens");
        for _ in 0..1 + rng.below(80) {
            let number = rng.index(WRITERS);
            if !writers[number].is_done() {
                writers[number].step(&store).expect("a sound disk");
            }
        }
        reader.refresh().expect("a sound disk");
        check(&writers, &reader, &format!("seed {seed}"));
        let seen = done(&writers);
        for writer in writers.iter_mut().filter(|writer| !writer.is_done()) {
            writer.step(&store).expect("a sound disk");
        }
        let trace = disk.trace(begun);
        let mut replay = trace.replay();
        while replay.step(&mut rng).is_some() {}
        let store = open(&replay.image(seed), options()).expect("opens after power loss");
        for (writer, &seen) in writers.iter().zip(&seen) {
            let found = writer.check(&store, seen, writer.begun());
            let found = found.unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
            unsynced += usize::from(found < writer.begun());
        }
    }
    assert!(
        unsynced > 20,
        "only {unsynced} tables have lost what was not seen"
    );
}

#[test]
fn a_reader_that_cannot_register_keeps_writers_away() {
    let disk = SimDisk::new(1);
    drop(open(&disk, options()).expect("creates"));
    disk.set_read_only(true);
    let reader = open_to_read(&disk).expect("opens");
    let second = open_to_read(&disk).expect("opens beside it");
    disk.set_read_only(false);
    assert!(matches!(open(&disk, options()), Err(Error::Locked { .. })));
    drop((reader, second));
    let store = open(&disk, options()).expect("opens");
    disk.set_read_only(true);
    assert!(matches!(open_to_read(&disk), Err(Error::Locked { .. })));
    disk.set_read_only(false);
    let reader = open_to_read(&disk).expect("registers");
    drop(store);
    drop(open(&disk, options()).expect("opens beside a reader"));
    drop(reader);
}

/// Each writer's table is as its last operation left it.
fn check(writers: &[Writer], reader: &Store, what: &str) {
    for writer in writers {
        let n = writer.begun();
        writer
            .check(reader, n, n)
            .unwrap_or_else(|problem| panic!("{what}: {problem}"));
    }
}

fn fail_at(disk: &SimDisk, call: u64) {
    disk.set_fault(Some(Fault {
        call: disk.calls() + call,
        kind: FaultKind::Error,
    }));
}

#[test]
fn each_call_of_a_reader_may_fail() {
    let seed = 3;
    let disk = SimDisk::new(seed);
    let store = open(&disk, options()).expect("creates");
    create_tables(&store).expect("a sound disk");
    let mut writers = writers(seed);
    for step in 0..70 {
        writers[step % WRITERS].step(&store).expect("a sound disk");
    }
    let begun = disk.calls();
    drop(open_to_read(&disk).expect("a sound disk"));
    let calls = disk.calls() - begun;
    let mut failed = 0;
    for call in 1..=calls {
        fail_at(&disk, call);
        let opened = open_to_read(&disk);
        disk.set_fault(None);
        match opened {
            Err(_) => failed += 1,
            Ok(reader) => check(&writers, &reader, &format!("opened, call {call}")),
        }
    }
    assert!(failed > calls / 2, "{failed} of {calls}");
    // Both along the log, and to a new checkpoint.
    let mut reader = open_to_read(&disk).expect("a sound disk");
    let (mut failed, mut unsynced) = (0, 0);
    for step in 0..160 {
        let before = done(&writers);
        let writer = &mut writers[step % WRITERS];
        if step % 4 > 0 && !writer.is_done() {
            writer.step(&store).expect("a sound disk");
        }
        if step % 3 == 0 {
            store.flush().expect("a sound disk");
        }
        let call = 1 + step as u64 % 20;
        fail_at(&disk, call);
        let refreshed = reader.refresh();
        disk.set_fault(None);
        if let Err(error) = refreshed {
            failed += 1;
            if error.is_of_sync() {
                unsynced += 1;
                // The next sync would succeed, and say nothing of what this one had to write.
                reader.refresh().expect_err("what is new may be lost");
                for (writer, n) in writers.iter().zip(before) {
                    writer.check(&reader, n, n).expect("what was seen before");
                }
                reader = open_to_read(&disk).expect("a sound disk");
            }
            reader.refresh().expect("a sound disk");
        }
        check(&writers, &reader, &format!("refreshed, step {step}, call {call}"));
    }
    assert!(failed > 40, "{failed} refreshes failed");
    assert!(unsynced > 0, "no sync failed");
}

/// The calls of a refresh include the read behind the last record, after which that record counts.
#[test]
fn rows_that_a_failed_refresh_has_shown_are_told_by_the_next_one() {
    let mut rng = Rng::new(1);
    let disk = SimDisk::new(1);
    let store = open(&disk, options().head_bytes(1 << 20)).expect("creates");
    let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    store.flush().expect("a sound disk");
    let mut reader = open_to_read(&disk).expect("opens");
    let rows = |reader: &Store| {
        let table = reader.table("t").expect("there");
        table.range(..).and_then(|scan| scan.count()).expect("reads")
    };
    let mut shown = 0;
    for call in 1..40 {
        // A record that is longer than the pieces in which the log is read: behind it another read
        // begins.
        let times = (0..1000).map(|_| rng.below(1 << 60).cast_signed());
        table.append(&batch(times, 0)).expect("a sound disk");
        let before = rows(&reader);
        fail_at(&disk, call);
        let refreshed = reader.refresh();
        disk.set_fault(None);
        match refreshed {
            // The fault is passed over, or comes later.
            Ok(is_new) => assert!(is_new, "call {call}"),
            Err(error) if error.is_of_sync() => reader = open_to_read(&disk).expect("opens"),
            Err(_) => {
                shown += u64::from(rows(&reader) > before);
                assert!(reader.refresh().expect("a sound disk"), "call {call}");
                assert!(!reader.refresh().expect("a sound disk"), "call {call}");
            }
        }
        assert_eq!(rows(&reader), 1000 * call);
    }
    assert!(shown > 0, "no call failed behind the last record");
}

/// Does something after a number of reads of a file.
fn after_reads(disk: &SimDisk, name: PathBuf, reads: usize, then: impl FnOnce() + Send + 'static) {
    let of_disk = disk.clone();
    disk.interrupt(Access::Read, &name.clone(), move || match reads {
        0 | 1 => then(),
        _ => after_reads(&of_disk, name, reads - 1, then),
    });
}

/// A segment that is no longer needed becomes another one, with another header and other records,
/// between two reads of it.
#[test]
fn a_segment_that_is_written_over_while_it_is_read_hides_no_commit() {
    const COMMITS: i64 = 6;
    let mut met = 0;
    for (reads, durability) in [1, 2, 3]
        .iter()
        .flat_map(|&reads| [Durability::Always, Durability::Relaxed].map(|durability| (reads, durability)))
    {
        let disk = SimDisk::new(9);
        let store = open(&disk, options().durability(durability)).expect("creates");
        let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
        let table = store.create_table("t", schema).expect("fresh");
        let reader = open_to_read(&disk).expect("opens");
        let append = move |number: i64| {
            let appended = table.append(&batch(number..number + 1, 0));
            appended.expect("a sound disk");
        };
        append(0);
        store.flush().expect("a sound disk");
        (1..COMMITS).for_each(&append);
        let is_segment = |name: &PathBuf| name.extension().is_some_and(|found| found == "log");
        let log = disk.list(&Path::new(STORE).join("log")).expect("it is there");
        let segment = log
            .into_iter()
            .filter(is_segment)
            .max()
            .expect("it has a segment");
        let is_met = Arc::new(AtomicBool::new(false));
        let then = {
            let is_met = is_met.clone();
            move || {
                is_met.store(true, Ordering::Relaxed);
                for number in COMMITS..COMMITS + 2 {
                    store.flush().expect("a sound disk");
                    append(number);
                }
            }
        };
        after_reads(&disk, segment, reads, then);
        assert!(reader.refresh().expect("a sound disk"));
        let rows = reader.table("t").and_then(|table| table.range(..)?.count());
        let rows = rows.expect("a sound disk");
        assert!(
            rows >= COMMITS.unsigned_abs(),
            "{rows} rows, after {reads} reads with {durability:?}"
        );
        met += usize::from(is_met.load(Ordering::Relaxed));
    }
    assert!(met >= 4, "met {met} times");
}
