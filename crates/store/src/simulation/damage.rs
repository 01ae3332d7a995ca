//! Each byte of a small store changed, one at a time.

use std::path::Path;
use std::sync::Arc;

use super::say;
use super::workload::{STORE, WRITERS, Writer, create_tables, open, open_at, options};
use crate::disk::sim::{Fault, FaultKind, SimDisk};
use crate::engine::salvage;
use crate::error::Error;

/// A store with rows in pages of several levels and rows in the log; and what wrote them.
fn build() -> (SimDisk, Vec<Writer>) {
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
        // What is claimed ahead of the log is zeros, and behind each superblock nothing is ever read; a sample of that
        // will do, but in a soak.
        let is_soak = std::env::var_os("BEDLOAD_EVERY_BYTE").is_some();
        let is_reserved = |at: usize| name.ends_with("data") && at < 64 << 10 && at % (32 << 10) >= 4096;
        // Blocks of sparse tables have a checksum over all they are; of them, too, a sample will do.
        let is_of_blocks = name.extension().is_some_and(|kind| kind == "blocks");
        let is_unused = |at: usize| at > written + 600 || is_reserved(at) || is_of_blocks;
        for at in (0..bytes.len()).filter(|&at| is_soak || !is_unused(at) || at.is_multiple_of(61)) {
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
    assert!(named > 10_000, "bytes in use are checked: {named}");
}

/// Rows that one changed byte can cost: those of a page, or of a record.
const LOST_AT_ONCE: usize = 400;

#[test]
fn what_a_changed_byte_leaves_whole_is_salvaged() {
    let (disk, writers) = build();
    let saved = Path::new("/saved");
    let mut complete = 0;
    let mut salvaged = 0;
    for (name, bytes) in disk.files() {
        for at in (0..bytes.len()).step_by(251) {
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
fn a_call_that_fails_costs_a_salvage_no_more_than_what_it_was_to_read() {
    let (disk, writers) = build();
    let saved = Path::new("/saved");
    let calls = {
        let disk = disk.copy();
        salvage(Arc::new(disk.clone()), Path::new(STORE), saved).expect("a sound disk");
        disk.calls()
    };
    let (mut survived, mut given_up) = (0, Vec::new());
    for call in 0..calls {
        let disk = disk.copy();
        disk.set_fault(Some(Fault {
            call,
            kind: FaultKind::Error,
        }));
        let report = match salvage(Arc::new(disk.clone()), Path::new(STORE), saved) {
            Ok(report) => report,
            Err(error) => {
                // There is a new store only when it is whole.
                disk.set_fault(None);
                assert!(
                    open_at(&disk, saved, options().create(false)).is_err(),
                    "call {call}"
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
        survived += u64::from(!report.is_complete());
    }
    say(&format!(
        "{calls} calls of a salvage, each failing once: {survived} told as damage"
    ));
    // Which files there are, and how long the data file is, must be known.
    assert!(given_up.len() <= 4, "reads that fail are damage: {given_up:?}");
    assert!(survived > 0);
}
