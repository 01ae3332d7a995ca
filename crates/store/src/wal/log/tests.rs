//! The log on a simulated disk.

use super::*;
use crate::disk::sim::{Access, Fault, FaultKind, SimDisk};
use crate::rows::TableId;
use crate::wal::Record;

/// A log without records, and its directory.
fn begin(disk: &SimDisk) -> (Log, &'static Path) {
    let dir = Path::new("/log");
    disk.create_dir(dir).expect("a sound disk");
    Log::create(disk, dir, [7; 16]).expect("a sound disk");
    let log = Log::begin(Arc::new(disk.clone()), dir.into(), [7; 16], 0).expect("a sound disk");
    (log, dir)
}

#[test]
fn records_appended_before_a_sync_share_it() {
    let disk = SimDisk::new(1);
    let (log, _) = begin(&disk);
    let trace = disk.record();
    let ends: Vec<u64> = (0..8).map(|_| log.append(&[3]).expect("a sound disk")).collect();
    for &end in ends.iter().rev() {
        log.sync_to(end).expect("a sound disk");
    }
    assert_eq!(disk.trace(trace).syncs(), 1);
}

#[test]
fn small_records_find_zeros_and_long_ones_are_written_once() {
    let disk = SimDisk::new(1);
    let (log, dir) = begin(&disk);
    let begun = disk.calls();
    let records = 2 * ZERO_BYTES / (FRAME_BYTES as u64 + 1);
    for _ in 0..records {
        log.append(&[3]).expect("a sound disk");
    }
    assert_eq!(
        disk.calls() - begun,
        3,
        "space is claimed once, zeros are written twice"
    );
    let long = Record::append_head(TableId(1), 0);
    let end = log
        .append_naming(&[&long, &[0; 3000]], None)
        .expect("a sound disk");
    assert_eq!(
        disk.calls() - begun,
        3,
        "neither zeros nor space for a long record"
    );
    log.sync_to(end).expect("a sound disk");
    log.append(&[3]).expect("a sound disk");
    let found = replay(&disk, dir, [7; 16], 0..u64::MAX, |_, _, _| Ok(true)).expect("it is whole");
    assert_eq!(found.records, records + 1, "zeros are written over nothing");
}

#[test]
fn a_log_whose_syncs_no_commit_waits_for_writes_no_zeros() {
    let disk = SimDisk::new(1);
    let (log, dir) = begin(&disk);
    let log = log.relaxed();
    let begun = disk.calls();
    let records = 2 * ZERO_BYTES / (FRAME_BYTES as u64 + 1);
    for _ in 0..records {
        log.append(&[3]).expect("a sound disk");
    }
    assert_eq!(disk.calls() - begun, 1, "space is claimed once");
    log.sync_to(log.end()).expect("a sound disk");
    let found = replay(&disk, dir, [7; 16], 0..u64::MAX, |_, _, _| Ok(true)).expect("it is whole");
    assert_eq!(found.records, records);
}

#[test]
fn writes_and_syncs_of_several_threads_lose_nothing() {
    let disk = SimDisk::new(1);
    let (log, dir) = begin(&disk);
    let log = log.relaxed();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..500 {
                    let end = log.append(&[3]).expect("a sound disk");
                    if number % 10 == thread {
                        log.sync_to(end).expect("a sound disk");
                        assert!(log.state.lock().synced >= end);
                    } else {
                        log.write_to(end).expect("a sound disk");
                        assert!(log.state.lock().written >= end);
                    }
                }
            });
        }
    });
    let state = log.state.lock();
    assert!(!state.writing && !state.syncing && state.synced <= state.written);
    assert_eq!(state.written, state.end);
    drop(state);
    let found = replay(&disk, dir, [7; 16], 0..u64::MAX, |_, _, _| Ok(true)).expect("it is whole");
    assert_eq!((found.records, found.position), (2000, log.end()));
}

#[test]
fn segments_are_written_over_those_before_and_show_nothing_of_them() {
    let disk = SimDisk::new(1);
    let (log, dir) = begin(&disk);
    let names = || -> Vec<String> {
        let paths = disk.list(dir).expect("a sound disk").into_iter();
        paths
            .map(|path| path.file_name().expect("a file").to_string_lossy().into())
            .collect()
    };
    let append = |records: u64| {
        let ends = (0..records).map(|_| log.append(&[3]).expect("a sound disk"));
        log.sync_to(ends.max().unwrap_or(0)).expect("a sound disk");
    };
    append(200);
    let first = log.rotate().expect("a sound disk");
    log.remove_before(first).expect("a sound disk");
    assert_eq!(
        names(),
        [format!("{:016x}.spare", 0), format!("{first:016x}.log")]
    );
    append(10);
    let second = log.rotate().expect("a sound disk");
    assert_eq!(
        names(),
        [format!("{first:016x}.log"), format!("{second:016x}.log")]
    );
    let begun = disk.calls();
    append(100);
    assert_eq!(
        disk.calls() - begun,
        2,
        "one write and its sync: neither space nor zeros"
    );
    let found = replay(&disk, dir, [7; 16], second..u64::MAX, |_, _, _| Ok(true)).expect("it is whole");
    assert_eq!((found.records, found.position), (100, log.end()));
    // Spares of an earlier process are not used.
    log.remove_before(second).expect("a sound disk");
    let end = log.end();
    drop(log);
    assert_eq!(names().len(), 2);
    Log::begin(Arc::new(disk.clone()), dir.into(), [7; 16], end).expect("a sound disk");
    assert_eq!(names(), [format!("{second:016x}.log"), format!("{end:016x}.log")]);
}

#[test]
fn a_segment_that_cannot_be_removed_is_removed_after_the_next_checkpoint() {
    let mut failed = 0;
    for call in 0..3 {
        let disk = SimDisk::new(1);
        let (log, dir) = begin(&disk);
        let mut first = 0;
        for _ in 0..2 {
            log.sync_to(log.append(&[3]).expect("a sound disk"))
                .expect("a sound disk");
            first = log.rotate().expect("a sound disk");
        }
        disk.set_fault(Some(Fault {
            call: disk.calls() + call,
            kind: FaultKind::Error,
        }));
        failed += usize::from(log.remove_before(first).is_err());
        disk.set_fault(None);
        log.remove_before(first).expect("a sound disk");
        let left = list(&disk, dir).expect("a sound disk");
        let left: Vec<u64> = left.into_iter().map(|(start, _)| start).collect();
        assert_eq!(left, [first], "call {call}");
    }
    assert!(failed > 1, "{failed} removals failed");
}

#[test]
fn nothing_is_claimed_ahead_on_a_full_disk() {
    let disk = SimDisk::new(1);
    let (log, dir) = begin(&disk);
    let mut start = 0;
    let claimed = |start: u64| {
        let path = dir.join(format!("{start:016x}.log"));
        let file = disk.open(&path).expect("there");
        file.disk_bytes().expect("a sound disk")
    };
    let mut append_after = |checkpoint: bool| {
        start = log.rotate().expect("a sound disk");
        log.give_back().expect("a sound disk");
        if checkpoint {
            log.remove_before(start).expect("a sound disk");
        }
        log.sync_to(log.append(&[3]).expect("a sound disk"))
            .expect("a sound disk");
        claimed(start)
    };
    assert_eq!(append_after(false), BLOCK_BYTES as u64);
    assert_eq!(append_after(true), CLAIM_BYTES);
}

#[test]
fn a_sync_reaches_what_was_written_without_one() {
    let disk = SimDisk::new(1);
    let (log, dir) = begin(&disk);
    let begun = disk.record();
    let append = || (0..100).map(|_| log.append(&[3]).expect("a sound disk")).max();
    for _ in 0..3 {
        log.write_to(append().expect("a record")).expect("a sound disk");
    }
    log.sync_to(append().expect("a record")).expect("a sound disk");
    let trace = disk.trace(begun);
    let mut replayed = trace.replay();
    let mut rng = bedload_testkit::Rng::new(1);
    while replayed.step(&mut rng).is_some() {}
    for seed in 0..16 {
        let image = replayed.image(seed);
        let found = replay(&image, dir, [7; 16], 0..u64::MAX, |_, _, _| Ok(true)).expect("it is whole");
        assert_eq!(found.records, 400, "seed {seed}");
    }
}

#[test]
fn a_relaxed_log_writes_what_is_new_and_zeros_to_the_end_of_each_block() {
    let disk = SimDisk::new(1);
    let (log, dir) = begin(&disk);
    let log = log.relaxed();
    let write = |records: u64| {
        for _ in 0..records {
            let end = log.append(&[3]).expect("a sound disk");
            log.write_to(end).expect("a sound disk");
        }
    };
    let begun = disk.record();
    write(200);
    let written = disk.trace(begun).bytes_written() as u64;
    let records = 200 * (FRAME_BYTES as u64 + 1);
    let needed = (HEADER + records).next_multiple_of(BLOCK);
    assert!((needed..2 * needed).contains(&written), "{written} for {needed}");
    let first = log.rotate().expect("a sound disk");
    log.remove_before(first).expect("a sound disk");
    write(10);
    // Over the records of the first one.
    let second = log.rotate().expect("a sound disk");
    for records in 1..60 {
        write(1);
        let segment = log.state.lock().segment.clone();
        let end = HEADER + records * (FRAME_BYTES as u64 + 1);
        let mut behind = vec![1; usize::try_from(end.next_multiple_of(BLOCK) - end).expect("short")];
        segment.file.read_at(end, &mut behind).expect("there");
        assert!(behind.iter().all(|&byte| byte == 0), "behind {records} records");
        let found = replay(&disk, dir, [7; 16], second..u64::MAX, |_, _, _| Ok(true)).expect("it is whole");
        assert_eq!((found.records, found.position), (records, log.end()));
    }
    log.sync_to(log.end()).expect("a sound disk");
}

#[test]
fn spares_whose_names_may_not_be_durable_are_removed() {
    let mut rejected = 0;
    for call in 1..20 {
        for give_back in [false, true] {
            let disk = SimDisk::new(1);
            let (log, dir) = begin(&disk);
            let rotate = || {
                let end = log.append(&[3]).expect("a sound disk");
                log.sync_to(end).expect("a sound disk");
                log.rotate().expect("a sound disk")
            };
            log.remove_before(rotate()).expect("a sound disk");
            let end = (rotate(), rotate()).1;
            disk.set_fault(Some(Fault {
                call: disk.calls() + call,
                kind: FaultKind::Error,
            }));
            let removed = log.remove_before(end);
            disk.set_fault(None);
            rejected += log.state.lock().rejected.len();
            if removed.is_ok() {
                continue;
            }
            if give_back {
                log.give_back().expect("a sound disk");
                assert_eq!(list_spares(&disk, dir).expect("a sound disk"), [], "call {call}");
            } else {
                log.remove_before(rotate()).expect("a sound disk");
            }
            let state = log.state.lock();
            let mut known: Vec<_> = state.spares.iter().map(|(spare, _)| &spare.path).collect();
            known.sort_unstable();
            let spares = list_spares(&disk, dir).expect("a sound disk");
            let found: Vec<_> = spares.iter().map(|(_, path)| path).collect();
            assert_eq!(known, found, "call {call}");
        }
    }
    assert!(rejected > 0, "no sync of the directory failed");
}

/// A log with records that do not fill the first piece that is read of it, and the path of its
/// segment.
fn begin_shared(disk: &SimDisk) -> (Arc<Log>, PathBuf) {
    let (log, dir) = begin(disk);
    append_long(&log, 2);
    let path = list(disk, dir).expect("a sound disk").remove(0).1;
    (Arc::new(log), path)
}

/// Appends records, each of which vouches for the one before.
fn append_long(log: &Log, records: usize) {
    let head = Record::append_head(TableId(1), 0);
    for _ in 0..records {
        let end = log
            .append_naming(&[&head, &[0xA5; 1000]], None)
            .expect("a sound disk");
        log.sync_to(end).expect("a sound disk");
    }
}

#[test]
fn what_is_appended_while_a_log_is_checked_is_no_damage() {
    let disk = SimDisk::new(1);
    let (log, path) = begin_shared(&disk);
    let (others, again) = (log.clone(), disk.clone());
    // Once the header was read, and then the first piece.
    disk.interrupt(Access::Read, &path.clone(), move || {
        again.interrupt(Access::Read, &path, move || append_long(&others, 20));
    });
    assert_eq!(log.check(0).expect("it is whole"), 2);
    assert_eq!(log.check(0).expect("it is whole"), 22);
}

#[test]
fn each_record_that_is_not_whole_is_found_by_a_check() {
    let disk = SimDisk::new(1);
    let (log, path) = begin_shared(&disk);
    append_long(&log, 20);
    let bytes = usize::try_from(log.end()).expect("short") / 22;
    for record in 0..22 {
        let at = 64 + record * bytes + bytes / 2;
        disk.change(&path, at, 1);
        let error = log.check(0).expect_err("it is damaged");
        assert!(matches!(error, Error::Corrupt { .. }), "record {record}: {error}");
        disk.change(&path, at, 1);
    }
    assert_eq!(log.check(0).expect("it is whole"), 22);
}

#[test]
fn a_write_that_finds_no_space_is_of_unknown_outcome() {
    for (is_alone, call) in [(true, 1), (false, 1), (false, 2)] {
        let disk = SimDisk::new(1);
        let (log, _) = begin(&disk);
        let mut end = log.append(&[3]).expect("a sound disk");
        if !is_alone {
            log.write_to(end).expect("a sound disk");
            end = log.append(&[3]).expect("a sound disk");
        }
        disk.set_fault(Some(Fault {
            call: disk.calls() + call,
            kind: FaultKind::NoSpace,
        }));
        let synced = log.sync_to(end);
        assert!(matches!(synced, Err(Error::Io { .. })), "call {call}: {synced:?}");
        disk.set_fault(None);
        assert!(log.append(&[3]).is_err(), "nothing can follow it");
    }
}
