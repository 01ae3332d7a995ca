//! Power cut anywhere.

use std::time::{Duration, Instant};

use bedload_testkit::{Rng, stride};
use parking_lot::Mutex;

use super::say;
use super::workload::{WRITERS, Writer, create_tables, open, options};
use crate::disk::sim::{Fault, FaultKind, Note, Replay, SimDisk, Trace};
use crate::options::Durability;
use crate::store::Store;

/// Cuts tried in a thorough test run, over all traces; `BEDLOAD_POWER_CUTS` asks for more.
const CUTS: u64 = 3_000;
/// Operations of each writer in a trace.
const OPERATIONS: usize = 12;

pub(super) fn cuts() -> u64 {
    std::env::var("BEDLOAD_POWER_CUTS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(CUTS / stride() as u64)
}

/// Runs all writers, one operation at a time in a seeded order, with flushes and a snapshot in
/// between; returns what was done to the disk.
fn interleaved_trace(seed: u64, operations: usize, durability: Durability) -> (Trace, Vec<Writer>) {
    let disk = SimDisk::new(seed);
    let begun = disk.record();
    let mut rng = Rng::new(seed);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer::new(number, operations, seed))
        .collect();
    let mut store = open(&disk, options().durability(durability)).expect("creates");
    create_tables(&store).expect("fresh tables");
    let mut snapshot = store.snapshot();
    while writers.iter().any(|writer| !writer.is_done()) {
        let writer = rng.index(WRITERS);
        if writers[writer].is_done() {
            continue;
        }
        disk.note(Note::Begun { writer });
        writers[writer].step(&store).expect("a sound disk");
        disk.note(Note::Acknowledged { writer });
        match rng.below(40) {
            0 => store.flush().expect("a sound disk"),
            1 => snapshot = store.snapshot(),
            2 => {
                drop((snapshot, store));
                store = open(&disk, options().durability(durability)).expect("opens again");
                snapshot = store.snapshot();
            }
            _ => {}
        }
    }
    drop(snapshot);
    store.close().expect("a sound disk");
    (disk.trace(begun), writers)
}

/// As [`interleaved_trace`], with the process dying now and then, and another one going on from
/// what it left: nothing that was not synced is lost, and yet nothing of it is durable.
fn mortal_trace(seed: u64, operations: usize) -> (Trace, Vec<Writer>) {
    let disk = SimDisk::new(seed);
    let begun = disk.record();
    let mut rng = Rng::new(seed);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer::new(number, operations, seed))
        .collect();
    create_tables(&open(&disk, options()).expect("creates")).expect("fresh tables");
    while writers.iter().any(|writer| !writer.is_done()) {
        let call = disk.calls() + 1 + rng.below(200);
        disk.set_fault(Some(Fault {
            call,
            kind: FaultKind::Death,
        }));
        // The process may die while opening.
        if let Ok(store) = open(&disk, options()) {
            let lived = live(&disk, &store, &mut writers, &mut rng);
            drop(store);
            if lived.is_err() {
                disk.set_fault(None);
                let store = open(&disk, options()).expect("opens again");
                for (number, writer) in writers.iter_mut().enumerate() {
                    let operations = writer.resume(&store).expect("a sound disk");
                    disk.note(Note::Recovered {
                        writer: number,
                        operations,
                    });
                }
            }
        }
    }
    disk.set_fault(None);
    (disk.trace(begun), writers)
}

/// Does operations until all are done or one fails.
fn live(disk: &SimDisk, store: &Store, writers: &mut [Writer], rng: &mut Rng) -> crate::Result<()> {
    while writers.iter().any(|writer| !writer.is_done()) {
        let writer = rng.index(WRITERS);
        if !writers[writer].is_done() {
            disk.note(Note::Begun { writer });
            writers[writer].step(store)?;
            disk.note(Note::Acknowledged { writer });
        }
        if rng.below(20) == 0 {
            store.flush()?;
        }
    }
    Ok(())
}

/// Runs each writer in a thread of its own, with the background thread and one that flushes:
/// commits share syncs and overlap with checkpoints.
fn threaded_trace(seed: u64, operations: usize) -> (Trace, Vec<Writer>) {
    let disk = SimDisk::new(seed);
    let begun = disk.record();
    let writers: Vec<Mutex<Writer>> = (0..WRITERS)
        .map(|number| Mutex::new(Writer::new(number, operations, seed)))
        .collect();
    let store = open(&disk, options().background(true)).expect("creates");
    create_tables(&store).expect("fresh tables");
    std::thread::scope(|scope| {
        for (number, writer) in writers.iter().enumerate() {
            let (disk, store) = (&disk, &store);
            scope.spawn(move || {
                let mut writer = writer.lock();
                while !writer.is_done() {
                    disk.note(Note::Begun { writer: number });
                    writer.step(store).expect("a sound disk");
                    disk.note(Note::Acknowledged { writer: number });
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..10 {
                let snapshot = store.snapshot();
                store.flush().expect("a sound disk");
                drop(snapshot);
            }
        });
    });
    store.close().expect("a sound disk");
    (
        disk.trace(begun),
        writers.into_iter().map(Mutex::into_inner).collect(),
    )
}

/// A cut: after which event of a trace, and the seed of what survives it.
#[derive(Debug, Clone, Copy)]
struct Cut {
    event: usize,
    seed: u64,
}

/// Cuts the power at every event of the trace, `per_event` times with other outcomes, and checks
/// each disk that results; returns how many there were.
fn cut_everywhere(name: &str, trace: &Trace, writers: &[Writer], seed: u64, per_event: u64) -> u64 {
    let mut cuts = 0;
    each_event(trace, seed, |event, replay, progress| {
        for outcome in 0..per_event {
            let cut = Cut {
                event,
                seed: (seed << 32) ^ ((event as u64) << 4) ^ outcome,
            };
            try_cut(name, seed, replay, writers, progress, cut);
            cuts += 1;
        }
    });
    cuts
}

/// How far each writer had come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    pub(super) begun: [usize; WRITERS],
    pub(super) acknowledged: [usize; WRITERS],
}

/// Calls `visit` before the first event of the trace and after each.
pub(super) fn each_event(trace: &Trace, seed: u64, mut visit: impl FnMut(usize, &Replay<'_>, &Progress)) {
    let mut progress = Progress::default();
    let mut replay = trace.replay();
    let mut rng = Rng::new(seed);
    for event in 0..=trace.len() {
        visit(event, &replay, &progress);
        match replay.step(&mut rng) {
            Some(Some(Note::Begun { writer })) => progress.begun[writer] += 1,
            Some(Some(Note::Acknowledged { writer })) => progress.acknowledged[writer] += 1,
            Some(Some(Note::Recovered { writer, operations })) => {
                (progress.begun[writer], progress.acknowledged[writer]) = (operations, operations);
            }
            _ => {}
        }
    }
}

fn try_cut(name: &str, seed: u64, replay: &Replay<'_>, writers: &[Writer], progress: &Progress, cut: Cut) {
    if let Err(problem) = check(&replay.image(cut.seed), writers, progress, cut.seed) {
        let Cut {
            event,
            seed: image_seed,
        } = cut;
        let dir = std::env::temp_dir().join(format!("bedload-power-{name}-{seed}-{event}"));
        let exported = replay.image(image_seed).export(&dir);
        panic!(
            "power cut after event {event} of the {name} trace {seed}: {problem}\n\
             the disk before recovery, if it could be written ({exported:?}): {}\n\
             again: BEDLOAD_POWER_CUT={seed}:{event}:{image_seed} cargo test -p bedload --lib power",
            dir.display()
        );
    }
}

/// Recovers, checks every table and every page; now and then goes on writing, or loses power in the
/// recovery.
fn check(image: &SimDisk, writers: &[Writer], progress: &Progress, seed: u64) -> Result<(), String> {
    let text = |error: crate::Error| error.to_string();
    let begun_trace = image.record();
    let store = open(image, options()).map_err(text)?;
    if progress.begun == [0; WRITERS] && store.tables().len() < WRITERS {
        return Ok(());
    }
    check_store(&store, writers, progress)?;
    if seed.is_multiple_of(8) {
        store.flush().map_err(text)?;
        check_store(&store, writers, progress)?;
        drop(store);
        let trace = image.trace(begun_trace);
        check_store(&open(image, options()).map_err(text)?, writers, progress)?;
        let mut outcome = Ok(());
        each_event(&trace, seed, |event, replay, _| {
            if outcome.is_ok() && seed.is_multiple_of(64) {
                let again = replay.image(seed ^ event as u64);
                outcome = open(&again, options())
                    .map_err(text)
                    .and_then(|store| check_store(&store, writers, progress))
                    .map_err(|problem| {
                        format!("power lost again after event {event} of the recovery: {problem}")
                    });
            }
        });
        outcome?;
    }
    Ok(())
}

fn check_store(store: &Store, writers: &[Writer], progress: &Progress) -> Result<(), String> {
    for (number, writer) in writers.iter().enumerate() {
        writer.check(store, progress.acknowledged[number], progress.begun[number])?;
    }
    let report = store.verify().map_err(|error| error.to_string())?;
    if report.problems.is_empty() {
        Ok(())
    } else {
        Err(format!("{:?}", report.problems))
    }
}

#[test]
fn acknowledged_operations_survive_power_cuts() {
    if let Ok(text) = std::env::var("BEDLOAD_POWER_CUT") {
        return again(&text);
    }
    cut_traces("interleaved", |seed| {
        interleaved_trace(seed, OPERATIONS, Durability::Always)
    });
}

#[test]
fn acknowledged_operations_of_threads_survive_power_cuts() {
    cut_traces("threaded", |seed| threaded_trace(seed, OPERATIONS));
}

#[test]
fn acknowledged_operations_of_processes_that_died_survive_power_cuts() {
    cut_traces("mortal", |seed| mortal_trace(seed, OPERATIONS));
}

/// Cuts the power everywhere in traces of seed after seed, until there were as many cuts as each of
/// the three kinds of traces owes.
fn cut_traces(name: &str, trace: impl Fn(u64) -> (Trace, Vec<Writer>)) {
    let wanted = cuts().div_ceil(3);
    let per_event = if cuts() > CUTS { 8 } else { 1 };
    let (mut cuts, mut seed) = (0, 0);
    while cuts < wanted {
        seed += 1;
        let (trace, writers) = trace(seed);
        cuts += cut_everywhere(name, &trace, &writers, seed, per_event);
    }
    let events = cuts / per_event;
    say(&format!(
        "power cut at each of {events} events of {seed} {name} traces, {cuts} times in all"
    ));
}

/// One cut of an interleaved trace once more, as a failure prints it.
fn again(text: &str) {
    let parts: Vec<u64> = text
        .split(':')
        .map(|part| part.parse().expect("seed:event:outcome"))
        .collect();
    let [seed, event, image_seed] = parts[..] else {
        panic!("seed:event:outcome, not {text:?}")
    };
    let (trace, writers) = interleaved_trace(seed, OPERATIONS, Durability::Always);
    each_event(&trace, seed, |at, replay, progress| {
        if at as u64 == event {
            try_cut(
                "interleaved",
                seed,
                replay,
                &writers,
                progress,
                Cut {
                    event: at,
                    seed: image_seed,
                },
            );
        }
    });
}

#[test]
fn relaxed_commits_lose_the_newest_and_nothing_before() {
    let mut lost = 0;
    for seed in 1..4 {
        let (trace, writers) = interleaved_trace(seed, OPERATIONS, Durability::Relaxed);
        let mut order = Vec::new();
        let mut begun = 0;
        each_event(&trace, seed, |event, replay, progress| {
            // Operations were done one at a time: the one that was just begun is the next in their
            // order.
            if progress.begun.iter().sum::<usize>() > order.len() {
                let writer =
                    (0..WRITERS).find(|&w| progress.begun[w] > order.iter().filter(|&&o| o == w).count());
                order.extend(writer);
            }
            begun = order.len();
            let store = open(&replay.image(event as u64), options()).expect("opens after power loss");
            if begun == 0 {
                return;
            }
            let held: Vec<Vec<usize>> = writers
                .iter()
                .map(|writer| writer.operations_in(&store).expect("reads"))
                .collect();
            let of_prefix = |end: usize, writer: usize| order[..end].iter().filter(|&&o| o == writer).count();
            let prefix = (0..=begun)
                .rev()
                .find(|&end| (0..WRITERS).all(|writer| held[writer].contains(&of_prefix(end, writer))));
            let prefix =
                prefix.unwrap_or_else(|| panic!("seed {seed}, event {event}: {held:?} is no prefix"));
            lost += begun - prefix;
            assert_eq!(store.verify().expect("reads").problems, []);
        });
    }
    assert!(
        lost > 0,
        "without waiting for the disk, power loss takes something"
    );
}

#[test]
fn commits_of_a_group_share_syncs() {
    const COMMITS: usize = 20;
    let every = Duration::from_millis(20);
    let disk = SimDisk::new(1);
    let store = open(
        &disk,
        options()
            .head_bytes(8 << 20)
            .durability(Durability::Group { every }),
    )
    .expect("creates");
    create_tables(&store).expect("fresh tables");
    let (trace, begun) = (disk.record(), Instant::now());
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                let mut writer = Writer::new(number, COMMITS, 3);
                while !writer.is_done() {
                    writer.step(store).expect("a sound disk");
                }
            });
        }
    });
    let syncs = disk.trace(trace).syncs();
    let most = begun.elapsed().as_millis() / every.as_millis() + 2;
    assert!(syncs as u128 <= most, "{syncs} syncs, {most} expected at most");
}
