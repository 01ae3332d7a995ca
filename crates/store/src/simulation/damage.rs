//! The bytes of a small store changed, one at a time.

use std::path::Path;
use std::sync::Arc;

use bedload_testkit::{Rng, stride};

use super::say;
use super::workload::{STORE, WRITERS, Writer, columns, create_tables, open, open_at, options, table_name};
use crate::disk::Disk;
use crate::disk::sim::{Fault, FaultKind, SimDisk};
use crate::engine::{inspect, salvage};
use crate::error::Error;
use crate::pages::{PageFile, catalogue_chains};
use crate::rows::TableSchema;
use crate::table::Layout;

/// A store with rows in pages of several levels and rows in the log; and what wrote them.
pub(super) fn build() -> (SimDisk, Vec<Writer>) {
    const OPERATIONS: usize = 6;
    let disk = SimDisk::new(5);
    let store = open(&disk, options()).expect("creates");
    create_tables(&store).expect("fresh tables");
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer::new(number, OPERATIONS, 2))
        .collect();
    for operation in 0..OPERATIONS {
        for writer in &mut writers {
            writer.step(&store).expect("a sound disk");
        }
        if operation == OPERATIONS / 2 {
            store.flush().expect("a sound disk");
        }
    }
    drop(store);
    (disk, writers)
}

/// Opens the store, reads every table and verifies; whether nothing at all was found to be wrong.
fn read(disk: &SimDisk, writers: &[Writer]) -> Result<bool, Error> {
    let store = open(disk, options().create(false))?;
    for writer in writers {
        let operations = writer.operations_in(&store)?;
        assert!(
            operations.contains(&writer.begun()),
            "a table as after one of {operations:?} operations"
        );
    }
    Ok(store.verify()?.problems.is_empty())
}

#[test]
fn a_changed_byte_is_harmless_or_named() {
    let (disk, writers) = build();
    assert!(
        read(&disk.copy(), &writers).expect("a sound disk"),
        "the store is sound"
    );
    let (mut named, mut harmless) = (0, 0);
    for (name, bytes) in disk.files() {
        let written = bytes
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        // Bytes claimed ahead of the log are zeros, and nothing after a superblock is ever read but
        // the log end; a sample of both will do, but in a soak.
        let is_soak = std::env::var_os("BEDLOAD_EVERY_BYTE").is_some();
        let is_log_end = |at: usize| (4096..4096 + 20).contains(&at);
        let is_reserved =
            |at: usize| name.ends_with("data") && at < 64 << 10 && at % (32 << 10) >= 4096 && !is_log_end(at);
        // Blocks of sparse tables have a checksum over all they are; of them, too, a sample will
        // do.
        let is_of_blocks = name.extension().is_some_and(|kind| kind == "blocks");
        // So has a page, whose end is often empty.
        let page_bytes = 4096;
        let is_empty = |at: usize| {
            let page = at - at % page_bytes..at;
            let end = (at + page_bytes - at % page_bytes).min(bytes.len());
            name.ends_with("data")
                && !page.is_empty()
                && bytes[at.saturating_sub(16).max(page.start)..end]
                    .iter()
                    .all(|&byte| byte == 0)
        };
        let is_unused = |at: usize| at > written + 600 || is_reserved(at) || is_of_blocks || is_empty(at);
        let is_tried = |at: usize| {
            let every = if is_unused(at) { 61 } else { stride() };
            is_soak || at.is_multiple_of(every)
        };
        for at in (0..bytes.len()).filter(|&at| is_tried(at)) {
            let damaged = disk.copy();
            damaged.change(&name, at, 1 << (at % 8));
            match read(&damaged, &writers) {
                Ok(true) => harmless += 1,
                Ok(false) | Err(Error::Corrupt { .. } | Error::NewerFormat { .. }) => named += 1,
                Err(error) => panic!("byte {at} of {} changed: {error}", name.display()),
            }
        }
    }
    say(&format!(
        "{} bytes changed, one at a time: {named} named, {harmless} without effect",
        named + harmless
    ));
    assert!(named * stride() > 10_000, "bytes in use are checked: {named}");
}

/// Rows that one changed byte can cost: those of a page, or of a record.
pub(super) const LOST_AT_ONCE: usize = 400;

#[test]
fn what_a_changed_byte_leaves_whole_is_salvaged() {
    let (disk, writers) = build();
    let saved = Path::new("/saved");
    let mut complete = 0;
    let mut salvaged = 0;
    for (name, bytes) in disk.files() {
        for at in (0..bytes.len()).step_by(251 * stride()) {
            let damaged = disk.copy();
            damaged.change(&name, at, 1 << (at % 8));
            let place = format!("byte {at} of {}", name.display());
            let report = match salvage(Arc::new(damaged.clone()), Path::new(STORE), saved) {
                Err(Error::NewerFormat { .. }) => continue,
                salvaged => salvaged.unwrap_or_else(|error| panic!("{place}: {error}")),
            };
            let store = open_at(&damaged, saved, options().create(false)).expect("a new store");
            let missing: usize = writers
                .iter()
                .map(|writer| writer.missing_in(&store).expect("a new store"))
                .sum();
            assert_eq!(store.verify().expect("a new store").problems, [], "{place}");
            if report.is_complete() {
                complete += 1;
                assert_eq!(missing, 0, "{place}");
            }
            assert!(
                missing < LOST_AT_ONCE,
                "{place}: {missing} rows are missing: {report:?}"
            );
            salvaged += 1;
        }
    }
    say(&format!(
        "{salvaged} damaged stores salvaged, {complete} of them as whole"
    ));
    assert!(complete < salvaged);
}

#[test]
fn what_power_loss_leaves_of_a_checkpoint_is_no_damage() {
    let disk = SimDisk::new(5);
    let store = open(&disk, options()).expect("creates");
    create_tables(&store).expect("fresh tables");
    let mut writers: Vec<Writer> = (0..WRITERS).map(|number| Writer::new(number, 6, 2)).collect();
    let mut steps = || {
        for _ in 0..3 {
            for writer in &mut writers {
                writer.step(&store).expect("a sound disk");
            }
        }
    };
    steps();
    // The log that this flush leaves is written over by the next.
    let begun = disk.record();
    store.flush().expect("a sound disk");
    steps();
    let appended = disk.trace(begun.clone()).len() as u64;
    store.flush().expect("a sound disk");
    let trace = disk.trace(begun);
    let mut replay = trace.replay();
    let mut rng = Rng::new(1);
    let (saved, mut torn) = (Path::new("/saved"), 0);
    for event in 0..=trace.len() as u64 {
        for outcome in 0..64 {
            if event < appended {
                break;
            }
            let image = replay.image(event << 8 | outcome);
            let data = Path::new(STORE).join("data");
            let file = image.open(&data).expect("there");
            let superblock = PageFile::read_superblock(&data, &*file);
            let is_torn = superblock.is_ok_and(|(_, damage)| damage.is_some());
            torn += u64::from(is_torn);
            if !is_torn && outcome >= 4 {
                continue;
            }
            let place = format!("event {event}, outcome {outcome}");
            let disk: Arc<dyn Disk> = Arc::new(image.clone());
            assert_eq!(
                inspect(&disk, Path::new(STORE)).expect("a sound disk"),
                [],
                "{place}"
            );
            let report = salvage(disk, Path::new(STORE), saved).expect("a sound disk");
            assert!(report.is_complete(), "{place}");
            let store = open_at(&image, saved, options().create(false)).expect("a new store");
            for writer in &writers {
                assert_eq!(writer.missing_in(&store).expect("a new store"), 0, "{place}");
            }
        }
        replay.step(&mut rng);
    }
    assert!(torn > 4, "a superblock was cut short in {torn} images");
}

/// Where the pages of the catalogue and of its copy stand in the data file, as the newest
/// checkpoint has them: those of the directory, and of each part.
fn catalogues(disk: &SimDisk) -> [Vec<Vec<usize>>; 2] {
    let data = Path::new(STORE).join("data");
    let chains = catalogue_chains(&data, disk.open(&data).expect("there"));
    let small = |offset: u64| usize::try_from(offset).expect("a small disk");
    chains.map(|chains| {
        let chains = chains.into_iter();
        chains
            .map(|chain| chain.into_iter().map(small).collect())
            .collect()
    })
}

#[test]
fn of_the_catalogue_one_copy_will_do_and_the_other_is_replaced() {
    let (disk, writers) = build();
    let store = open(&disk, options()).expect("a sound disk");
    let schema = || TableSchema::new(columns(), "at").expect("storable");
    for number in 0..30 {
        store.create_table(&format!("{number}"), schema()).expect("fresh");
    }
    store.close().expect("a sound disk");
    let data = Path::new(STORE).join("data");
    let whole = catalogues(&disk);
    assert!(whole[0].len() > 2, "a directory and several parts");
    assert!(
        whole[0].iter().any(|chain| chain.len() > 1),
        "a part of several pages"
    );
    for &torn in whole.iter().flatten().flatten() {
        let damaged = disk.copy();
        damaged.change(&data, torn + 1000, 4);
        assert!(
            read(&damaged, &writers).expect("the other is whole"),
            "nothing is wrong any more"
        );
        // Whichever is damaged next, there is another one; and what the first had is not used up.
        for torn in catalogues(&damaged).iter().flatten().map(|chain| chain[0]) {
            let damaged = damaged.copy();
            damaged.change(&data, torn + 1000, 4);
            assert!(read(&damaged, &writers).expect("the other is whole"));
        }
    }
    for (chain, copy) in whole[0].iter().zip(&whole[1]) {
        for (&first, &second) in chain
            .iter()
            .flat_map(|first| copy.iter().map(move |second| (first, second)))
        {
            let damaged = disk.copy();
            for torn in [first, second] {
                damaged.change(&data, torn + 1000, 4);
            }
            let before = damaged.files();
            let error = open(&damaged, options())
                .expect_err("neither is whole")
                .to_string();
            for torn in [first, second] {
                assert!(
                    error.contains(&format!("a page of the catalogue at offset {torn}")),
                    "{error}"
                );
            }
            assert_eq!(damaged.files(), before, "it is left as it is");
        }
    }
}

/// Drops each table that cannot be read in a store that was damaged, one of which has rows that
/// wait for a flush; how many of the indexed and of the sparse layout there were.
fn drop_damaged(disk: &SimDisk, writers: &[Writer], place: &str) -> [usize; 2] {
    let store = open(disk, options()).unwrap_or_else(|error| panic!("{place}: {error}"));
    let mut dropped = [0; 2];
    for (number, writer) in writers.iter().enumerate() {
        let name = table_name(number);
        if writer.operations_in(&store).is_ok() {
            continue;
        }
        let table = store.table(&name).expect("known");
        // A flush that fails on damage does not matter here.
        let _ = table.delete_range(..);
        store
            .drop_table(&name)
            .unwrap_or_else(|error| panic!("{place}: {name}: {error}"));
        dropped[usize::from(table.layout() != Layout::Indexed)] += 1;
        assert!(table.range(..).is_err(), "{place}: {name} is gone");
    }
    assert_eq!(store.verify().expect("a sound disk").problems, [], "{place}");
    drop(store);
    let store = open(disk, options()).unwrap_or_else(|error| panic!("{place}, again: {error}"));
    assert_eq!(
        store.verify().expect("a sound disk").problems,
        [],
        "{place}, again"
    );
    assert_eq!(
        store.tables().len(),
        writers.len() - dropped.iter().sum::<usize>()
    );
    for (number, writer) in writers.iter().enumerate() {
        if store.table(&table_name(number)).is_ok() {
            let operations = writer.operations_in(&store).expect("a sound table");
            assert!(operations.contains(&writer.begun()), "{place}");
        }
    }
    dropped
}

#[test]
fn a_damaged_table_can_be_dropped() {
    let (disk, writers) = build();
    let store = open(&disk, options()).expect("a sound disk");
    store.close().expect("a sound disk");
    let data = Path::new(STORE).join("data");
    let (mut dropped, mut together) = ([0; 2], Vec::new());
    let mut add = |more: [usize; 2]| (0..2).for_each(|layout| dropped[layout] += more[layout]);
    for (name, bytes) in disk.files() {
        if name.extension().is_some_and(|kind| kind == "blocks") {
            let damaged = disk.copy();
            damaged.remove(&name).expect("there");
            add(drop_damaged(&damaged, &writers, "a file is lost"));
        }
        let places = (64 << 10..bytes.len()).step_by(4096);
        // Without the page map nothing is known of any table.
        for at in places.filter(|&at| name == data && bytes[at + 4] != 2) {
            let damaged = disk.copy();
            damaged.change(&name, at + 200, 1);
            let more = drop_damaged(&damaged, &writers, &format!("the page at {at}"));
            if more.iter().sum::<usize>() > 0 {
                together.push(at);
            }
            add(more);
        }
    }
    assert!(dropped[0] > 4 && dropped[1] > 2, "{dropped:?}");
    // All tables are damaged, and one after the other goes.
    for at in together {
        disk.change(&data, at + 200, 1);
    }
    assert_eq!(drop_damaged(&disk, &writers, "all pages"), [WRITERS - 1, 1]);
}

#[test]
fn a_call_that_fails_costs_a_salvage_no_more_than_what_it_was_to_read() {
    let (disk, writers) = build();
    let saved = Path::new("/saved");
    let calls = {
        let disk = disk.copy();
        salvage(Arc::new(disk.clone()), Path::new(STORE), saved).expect("a sound disk");
        disk.calls()
    };
    let (mut survived, mut given_up) = (0, Vec::new());
    for call in 1..=calls {
        let disk = disk.copy();
        disk.set_fault(Some(Fault {
            call,
            kind: FaultKind::Error,
        }));
        let report = match salvage(Arc::new(disk.clone()), Path::new(STORE), saved) {
            Ok(report) => report,
            Err(error) => {
                // There is a new store only when it is whole. The last call makes its name durable.
                disk.set_fault(None);
                assert!(
                    call == calls || open_at(&disk, saved, options().create(false)).is_err(),
                    "call {call} of {calls}"
                );
                given_up.extend(matches!(error, Error::Io { action: "read", .. }).then_some(error));
                continue;
            }
        };
        disk.set_fault(None);
        let store = open_at(&disk, saved, options().create(false)).expect("a new store");
        let missing = writers
            .iter()
            .map(|writer| writer.missing_in(&store).expect("a new store"))
            .sum::<usize>();
        assert!(
            missing == 0 || !report.is_complete(),
            "call {call}: {missing} rows"
        );
        assert!(missing < LOST_AT_ONCE, "call {call}: {missing} rows: {report:?}");
        survived += u64::from(!report.is_complete());
    }
    say(&format!(
        "{calls} calls of a salvage, each failing once: {survived} told as damage"
    ));
    // Which files there are and in which place, how long the data file is, and that nothing stands
    // where the new store is to be, must be known.
    assert!(given_up.len() <= 7, "reads that fail are damage: {given_up:?}");
    assert!(survived > 0);
}
