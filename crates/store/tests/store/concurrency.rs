//! Several writers, readers and flushes at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bedload::{Durability, Options, Snapshot, Table, Value};
use bedload_testkit::Rng;
use bedload_testkit::linearizability::{Action, Clock, Event, Recorder, check};

use crate::rows::{TestRow, append, arrow_schema, collect, schema};

const WRITERS: i32 = 4;
const BATCHES: i32 = 150;
const ROWS: i32 = 20;

/// Batch `batch` of a writer: rows whose times lie about the batch, so that batches overlap.
fn rows_of(writer: i32, batch: i32) -> Vec<TestRow> {
    let numbered = |row: i32| {
        let late = i64::from(row * row % 50);
        TestRow::numbered(
            i64::from(batch * 10) - late,
            (writer * BATCHES + batch) * ROWS + row,
        )
    };
    (0..ROWS).map(numbered).collect()
}

/// How many batches of each writer a snapshot has; each is there as a whole, with all before it.
fn whole_batches(snapshot: &Snapshot) -> Vec<i32> {
    let mut rows: BTreeMap<i32, i32> = BTreeMap::new();
    let mut places = Vec::new();
    for (sequence, row) in collect(snapshot.range("t", ..).expect("there")).expect("reads") {
        *rows.entry(row.number / ROWS).or_default() += 1;
        places.push((row.time, sequence));
    }
    assert!(places.is_sorted(), "rows come in order, each once");
    assert!(
        rows.values().all(|&count| count == ROWS),
        "a batch is visible in part"
    );
    let of_writer = |writer| {
        let batches: Vec<i32> = rows
            .range(writer * BATCHES..(writer + 1) * BATCHES)
            .map(|(&b, _)| b)
            .collect();
        assert!(
            batches
                .iter()
                .zip(writer * BATCHES..)
                .all(|(&found, expected)| found == expected)
        );
        i32::try_from(batches.len()).expect("few")
    };
    (0..WRITERS).map(of_writer).collect()
}

#[test]
fn snapshots_see_whole_batches_in_the_order_of_each_writer() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options::new()
        .create(true)
        .page_bytes(4096)
        .head_bytes(64 << 10)
        .cache_bytes(1 << 20);
    let store = options.open(dir.path().join("store")).expect("creates");
    let table = store.create_table("t", schema()).expect("fresh");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let table = table.clone();
                scope.spawn(move || {
                    for batch in 0..BATCHES {
                        append(&table, &rows_of(writer, batch)).expect("appends");
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.flush().expect("flushes");
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = vec![0; WRITERS as usize];
                while !done.load(Ordering::Relaxed) {
                    let snapshot = store.snapshot();
                    let first = whole_batches(&snapshot);
                    assert!(
                        first.iter().zip(&seen).all(|(now, before)| now >= before),
                        "time goes forward"
                    );
                    assert_eq!(whole_batches(&snapshot), first, "a snapshot does not change");
                    seen = first;
                }
            });
        }
        // The others would go on for ever if this panicked.
        scopeguard::defer!(done.store(true, Ordering::Relaxed));
        for writer in writers {
            writer.join().expect("no panic");
        }
    });
    assert_eq!(whole_batches(&store.snapshot()), vec![BATCHES; WRITERS as usize]);
    store.flush().expect("flushes");
    assert_eq!(store.verify().expect("reads").problems, []);
}

#[test]
fn what_append_returned_is_visible_to_the_next_scan() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Options::new()
        .create(true)
        .head_bytes(64 << 10)
        .open(dir.path().join("store"))
        .expect("creates");
    let table = store.create_table("t", schema()).expect("fresh");
    thread::scope(|scope| {
        for writer in 0..4 {
            let table = &table;
            scope.spawn(move || {
                for i in 0..100 {
                    let time = i64::from(writer * 1000 + i);
                    append(table, &[TestRow::numbered(time, i)]).expect("appends");
                    assert_eq!(
                        table.range(time..=time).expect("there").count().expect("reads"),
                        1
                    );
                    if i % 10 == 0 {
                        table.delete_range(time..=time).expect("deletes");
                        assert_eq!(
                            table.range(time..=time).expect("there").count().expect("reads"),
                            0
                        );
                    }
                }
            });
        }
    });
    assert_eq!(table.range(..).expect("there").count().expect("reads"), 4 * 90);
}

/// The number of the row of a time that arrived last.
fn last_number(table: &Table, time: i64) -> Option<u64> {
    let row = table.get(time).expect("reads")?;
    let position = arrow_schema().index_of("number").expect("a column");
    match row.value(position) {
        Some(Value::Int(number)) => Some(number.cast_unsigned()),
        other => panic!("a row has the number {other:?}"),
    }
}

/// A table is a register for each time: the row that arrived last, until it is deleted.
#[test]
fn commits_of_eight_threads_take_effect_at_one_instant() {
    const THREADS: u32 = 8;
    const OPERATIONS: i32 = 250;
    const TIMES: u64 = 24;
    for durability in [Durability::Relaxed, Durability::Always] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = Options::new().create(true).page_bytes(4096).head_bytes(64 << 10);
        let options = options.durability(durability);
        let store = options.open(dir.path().join("store")).expect("creates");
        let table = store.create_table("t", schema()).expect("fresh");
        let (clock, done) = (Clock::new(), AtomicBool::new(false));
        let history: Vec<Event> = thread::scope(|scope| {
            let (clock, table) = (&clock, &table);
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut recorder = Recorder::new(clock, thread as usize);
                        let mut rng = Rng::stream(7, thread.into());
                        for operation in 0..OPERATIONS {
                            let time = rng.below(TIMES).cast_signed();
                            let number = OPERATIONS * i32::try_from(thread).expect("few") + operation;
                            recorder.record(time.cast_unsigned(), || match rng.below(8) {
                                0 => {
                                    table.delete_range(time..=time).expect("deletes");
                                    Action::RemoveBlind
                                }
                                1..4 => {
                                    append(table, &[TestRow::numbered(time, number)]).expect("appends");
                                    Action::Insert(u64::from(number.unsigned_abs()))
                                }
                                _ => Action::Get(last_number(table, time)),
                            });
                        }
                        recorder.into_events()
                    })
                })
                .collect();
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    store.flush().expect("flushes");
                }
            });
            scopeguard::defer!(done.store(true, Ordering::Relaxed));
            let histories = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            histories.flatten().collect()
        });
        if let Err(violation) = check(&history) {
            panic!("{durability:?}: {violation}");
        }
    }
}

/// A flush stops commits for a moment; one that waits to share a later sync must not make that an
/// hour.
#[test]
fn a_flush_does_not_wait_for_the_pace_of_commits() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let every = Duration::from_secs(3600);
    let options = Options::new()
        .create(true)
        .background(false)
        .durability(Durability::Group { every });
    let store = options.open(dir.path().join("store")).expect("creates");
    let table = store.create_table("t", schema()).expect("fresh");
    let (told, ended) = mpsc::channel();
    let appends = thread::spawn(move || {
        let appended = append(&table, &[TestRow::numbered(1, 1)]);
        let _ = told.send(appended.is_ok());
    });
    // Whether the commit waits by now or not, it shares the sync of one of the flushes.
    let flushes = thread::spawn(move || {
        while !appends.is_finished() {
            store.flush().expect("flushes");
        }
    });
    let told = ended.recv_timeout(Duration::from_secs(60));
    assert_eq!(told, Ok(true), "it waits for the pace");
    flushes.join().expect("no panic");
}
