//! Every call of the disk failing once, and the disk full.

use bedload_testkit::{Rng, stride};

use super::full::batch;
use super::say;
use super::workload::{KEYED, WRITERS, Writer, columns, create_tables, open, options, table_name};
use crate::disk::sim::{Fault, FaultKind, SimDisk};
use crate::error::Error;
use crate::rows::TableSchema;
use crate::store::Store;

const OPERATIONS: usize = 30;

/// The outcome of a run.
struct Run {
    writers: Vec<Writer>,
    /// Operations of each writer that were acknowledged.
    acknowledged: [usize; WRITERS],
    store: Store,
    /// Errors that operations and flushes gave.
    errors: Vec<Error>,
}

fn writers(seed: u64) -> Vec<Writer> {
    let numbers = 0..WRITERS;
    numbers
        .map(|number| Writer::new(number, OPERATIONS, seed))
        .collect()
}

/// Runs the writers in a seeded order until all are done or the store takes no more writes.
fn run(disk: &SimDisk, seed: u64, writers: &[Writer]) -> Result<Run, Error> {
    let mut rng = Rng::new(seed);
    let store = open(disk, options())?;
    create_tables(&store)?;
    let mut run = Run {
        writers: writers.to_vec(),
        acknowledged: [0; WRITERS],
        store,
        errors: Vec::new(),
    };
    while run.writers.iter().any(|writer| !writer.is_done()) {
        let number = rng.index(WRITERS);
        if run.writers[number].is_done() {
            continue;
        }
        match run.writers[number].step(&run.store) {
            Ok(()) => run.acknowledged[number] += 1,
            // The model does not cover operations after one that failed.
            Err(error) => {
                run.errors.push(error);
                return Ok(run);
            }
        }
        if rng.below(20) == 0
            && let Err(error) = run.store.flush()
        {
            run.errors.push(error);
        }
    }
    if let Err(error) = run.store.flush() {
        run.errors.push(error);
    }
    Ok(run)
}

impl Run {
    /// Closes the store, and goes on with what `open` opens then.
    fn reopened(self, open: impl FnOnce() -> Store) -> Self {
        drop(self.store);
        Self {
            store: open(),
            writers: self.writers,
            acknowledged: self.acknowledged,
            errors: self.errors,
        }
    }

    /// The open store answers with what was acknowledged and nothing else.
    fn check_open(&self) -> Result<(), String> {
        for (writer, &acknowledged) in self.writers.iter().zip(&self.acknowledged) {
            writer.check(&self.store, acknowledged, acknowledged)?;
        }
        Ok(())
    }

    /// After closing and opening, what was acknowledged is there; an operation that failed may be
    /// there too.
    fn check_reopened(&self, disk: &SimDisk) -> Result<(), String> {
        let store = open(disk, options()).map_err(|error| format!("does not open again: {error}"))?;
        for (writer, &acknowledged) in self.writers.iter().zip(&self.acknowledged) {
            writer.check(&store, acknowledged, writer.begun())?;
        }
        let report = store.verify().map_err(|error| error.to_string())?;
        if report.problems.is_empty() {
            Ok(())
        } else {
            Err(format!("{:?}", report.problems))
        }
    }
}

/// How many calls the run makes on a sound disk.
fn calls_of_a_sound_run(seed: u64) -> u64 {
    let disk = SimDisk::new(seed);
    let run = run(&disk, seed, &writers(seed)).expect("a sound disk");
    assert!(run.errors.is_empty());
    disk.calls()
}

#[test]
fn each_call_may_fail() {
    let refused = fail_each_call(FaultKind::Error);
    assert!(refused > 0, "failed syncs and writes end writing");
}

#[test]
fn each_call_may_find_no_space() {
    let refused = fail_each_call(FaultKind::NoSpace);
    assert!(refused > 0, "writes that find no space end writing");
}

#[test]
fn each_call_may_end_half_way() {
    let refused = fail_each_call(FaultKind::Partial);
    assert!(refused > 0, "failed writes end writing");
}

/// Lets one call after another fail once, and checks the store before and after a loss of power;
/// returns how many stores took no more writes.
fn fail_each_call(kind: FaultKind) -> u64 {
    let seed = 7;
    let writers = writers(seed);
    let calls = calls_of_a_sound_run(seed);
    let (mut failed, mut refused, mut tried) = (0, 0, 0);
    for call in (1..=calls).step_by(stride()) {
        tried += 1;
        let fault = Fault { call, kind };
        let disk = SimDisk::new(seed);
        let begun = disk.record();
        disk.set_fault(Some(fault));
        let outcome = run(&disk, seed, &writers);
        disk.set_fault(None);
        match outcome {
            // Creating the store or its tables failed: it opens, or is created, the next time.
            Err(_) => {
                failed += 1;
                let store = open(&disk, options()).unwrap_or_else(|error| panic!("{fault:?}: {error}"));
                let report = store
                    .verify()
                    .unwrap_or_else(|error| panic!("{fault:?}: {error}"));
                assert!(report.problems.is_empty(), "{fault:?}: {:?}", report.problems);
            }
            Ok(run) => {
                failed += u64::from(!run.errors.is_empty());
                run.check_open()
                    .unwrap_or_else(|problem| panic!("{fault:?}, still open: {problem}"));
                if let Err(Error::ReadOnly { .. }) = run.store.flush() {
                    refused += 1;
                }
                // With power loss on top, then without.
                let run = run.reopened(|| {
                    let trace = disk.trace(begun);
                    let mut replay = trace.replay();
                    let mut rng = Rng::new(call);
                    while replay.step(&mut rng).is_some() {}
                    let closed = open(&replay.image(call), options());
                    closed.unwrap_or_else(|error| panic!("{fault:?}, after power loss: {error}"))
                });
                for (writer, &acknowledged) in run.writers.iter().zip(&run.acknowledged) {
                    let checked = writer.check(&run.store, acknowledged, writer.begun());
                    checked.unwrap_or_else(|problem| panic!("{fault:?}, after power loss: {problem}"));
                }
                run.check_reopened(&disk)
                    .unwrap_or_else(|problem| panic!("{fault:?}, reopened: {problem}"));
            }
        }
    }
    say(&format!(
        "{tried} of {calls} calls, each failing once ({kind:?}): {failed} runs with an error, {refused} stores refusing writes"
    ));
    assert!(3 * failed > tried, "many calls are noticed when they fail");
    refused
}

#[test]
fn a_creation_that_fails_leaves_nothing() {
    let sound = SimDisk::new(5);
    drop(open(&sound, options()).expect("creates"));
    let mut failed = 0;
    for call in 1..=sound.calls() {
        for kind in [FaultKind::Error, FaultKind::NoSpace, FaultKind::Partial] {
            let fault = Fault { call, kind };
            let disk = SimDisk::new(5);
            disk.set_fault(Some(fault));
            let created = open(&disk, options());
            disk.set_fault(None);
            if created.is_ok() {
                continue;
            }
            failed += 1;
            // A lock file that could not be locked may be another process's.
            let mut left: Vec<_> = disk.files().into_iter().map(|(name, _)| name).collect();
            left.retain(|name| !name.ends_with("lock"));
            assert!(left.is_empty(), "{fault:?}: {left:?}");
            drop(open(&disk, options()).unwrap_or_else(|error| panic!("{fault:?}, created again: {error}")));
        }
    }
    assert!(failed > 30, "{failed} creations failed");
}

#[test]
fn a_full_disk_changes_nothing_and_writing_goes_on_once_there_is_space() {
    let seed = 11;
    let writers = writers(seed);
    let total = {
        let disk = SimDisk::new(seed);
        run(&disk, seed, &writers).expect("a sound disk");
        disk.used()
    };
    let mut full = 0;
    for percent in 5..100 {
        let disk = SimDisk::new(seed);
        disk.set_capacity(total * percent / 100);
        let Ok(run) = run(&disk, seed, &writers) else {
            disk.set_capacity(u64::MAX);
            open(&disk, options()).unwrap_or_else(|error| panic!("{percent} %: {error}"));
            continue;
        };
        full += u64::from(!run.errors.is_empty());
        for error in &run.errors {
            assert!(matches!(error, Error::NoSpace { .. }), "{percent} %: {error}");
        }
        run.check_open()
            .unwrap_or_else(|problem| panic!("{percent} %: {problem}"));
        disk.set_capacity(u64::MAX);
        run.store
            .flush()
            .unwrap_or_else(|error| panic!("{percent} %, with space again: {error}"));
        run.check_open()
            .unwrap_or_else(|problem| panic!("{percent} %, with space again: {problem}"));
        let run = run.reopened(|| open(&disk, options()).expect("opens"));
        run.check_open()
            .unwrap_or_else(|problem| panic!("{percent} %, reopened: {problem}"));
        assert!(run.store.verify().expect("reads").problems.is_empty());
    }
    assert!(full > 20, "the disk was full in {full} runs");
}

/// Bytes of what the log keeps to be written over.
fn spare_bytes(disk: &SimDisk) -> u64 {
    let files = disk.files().into_iter();
    let spares = files.filter(|(name, _)| name.extension().is_some_and(|kind| kind == "spare"));
    spares.map(|(_, bytes)| bytes.len() as u64).sum()
}

#[test]
fn a_disk_is_full_once_nothing_is_kept_for_the_log() {
    /// Something that takes space.
    type Taking = fn(&Store, &mut [Writer]) -> Result<(), Error>;
    let operations: [(&str, Taking); 5] = [
        ("appends", |store, writers| {
            let next = writers.iter_mut().find(|writer| !writer.is_done());
            next.expect("operations enough for this disk").step(store)
        }),
        ("a table", |store, _| {
            let name = format!("table {}", store.tables().len());
            store
                .create_table(&name, TableSchema::new(columns(), "at")?)
                .map(drop)
        }),
        ("a flush", |store, writers| {
            let next = writers.iter_mut().find(|writer| !writer.is_done());
            let writer = next.expect("operations enough for this disk");
            writer.step(store).and_then(|()| store.flush())
        }),
        ("commits of two tables", |store, _| {
            let mut changes = store.write_batch();
            for writer in 0..2 {
                changes.append(&store.table(&table_name(writer))?, &batch(0..20))?;
            }
            changes.commit().map(drop)
        }),
        ("rows that take the place of others", |store, _| {
            let table = store.table(&table_name(KEYED))?;
            table.append(&batch(0..20)).map(drop)
        }),
    ];
    // Either memory is full first, or the log has no space for a record.
    let heads = [64 << 10, 1 << 20];
    for ((name, take), head_bytes) in operations.iter().flat_map(|each| heads.map(|head| (each, head))) {
        let disk = SimDisk::new(3);
        let store = open(&disk, options().head_bytes(head_bytes)).expect("creates");
        create_tables(&store).expect("fresh tables");
        let mut writers: Vec<Writer> = (0..WRITERS).map(|number| Writer::new(number, 400, 3)).collect();
        for writer in &mut writers {
            (0..40).for_each(|_| writer.step(&store).expect("a sound disk"));
            store.flush().expect("a sound disk");
        }
        take(&store, &mut writers).expect("a sound disk");
        let kept = spare_bytes(&disk);
        assert!(kept > 0, "{name}: segments are kept");
        disk.set_capacity(disk.used());
        let full = std::iter::repeat_with(|| take(&store, &mut writers)).find_map(Result::err);
        assert!(matches!(full, Some(Error::NoSpace { .. })), "{name}: {full:?}");
        assert_eq!(spare_bytes(&disk), 0, "{name}: nothing is kept on a full disk");
        // And it is as if there had never been any.
        disk.set_capacity(u64::MAX);
        take(&store, &mut writers).unwrap_or_else(|error| panic!("{name}, with space again: {error}"));
        assert_eq!(store.verify().expect("reads").problems, [], "{name}");
    }
}
