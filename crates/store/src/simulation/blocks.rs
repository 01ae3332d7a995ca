//! Batches whose blocks and whose log record reach the disk each by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampSecondType;
use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use arrow_select::filter::filter_record_batch;
use bedload_testkit::Rng;

use super::workload::{STORE, open, options};
use crate::disk::Disk;
use crate::disk::sim::{Fault, FaultKind, SimDisk};
use crate::engine::{Engine, inspect, salvage};
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::rows::TableSchema;
use crate::scan::Scan;
use crate::store::{Snapshot, Store, Table};
use crate::table::{BlockFiles, Grid, Layout};

/// Rows in blocks of a checkpoint, over and after which others are written.
const OLD: i64 = 1000;
const NEW: std::ops::Range<i64> = 400..3000;

fn batch(times: std::ops::Range<i64>) -> RecordBatch {
    let times = |offset: i64| {
        let times = times.clone().map(move |time| time + offset);
        Arc::new(TimestampSecondArray::from_iter_values(times))
    };
    let field = |name: &str| Field::new(name, DataType::Timestamp(TimeUnit::Second, None), false);
    let schema = Schema::new(vec![field("at"), field("again")]);
    RecordBatch::try_new(Arc::new(schema), vec![times(0), times(7)]).expect("of one length")
}

fn table(store: &Store) -> Result<Table> {
    store.table("t")
}

/// A store whose table has the old rows, in blocks.
fn begin(disk: &SimDisk) -> Store {
    let store = open(disk, options()).expect("creates");
    let schema = TableSchema::new(batch(0..1).schema(), "at").expect("storable");
    let layout = Layout::Sparse(Grid::every(1).expect("positive"));
    let table = store.create_table_as("t", schema, layout).expect("fresh");
    table.append(&batch(0..OLD)).expect("a sound disk");
    store.flush().expect("a sound disk");
    store
}

/// How many rows the store on a disk has; it is whole in every respect.
fn rows_on(disk: &SimDisk) -> u64 {
    let store = open(disk, options()).expect("opens");
    let rows = rows_in(&store);
    assert_eq!(store.verify().expect("reads").problems, []);
    rows
}

fn rows_in(store: &Store) -> u64 {
    table(store)
        .and_then(|table| table.range(..)?.count())
        .expect("reads")
}

/// The newest of the files with an extension.
fn file_of(disk: &SimDisk, extension: &str) -> (PathBuf, Vec<u8>) {
    let files = disk.files().into_iter();
    let of_kind = files.filter(|(path, _)| path.extension().is_some_and(|found| found == extension));
    of_kind.max().expect("there is one")
}

/// Puts back what a file was.
fn put_back(disk: &SimDisk, (path, bytes): &(PathBuf, Vec<u8>)) {
    let file = disk.open(path).expect("there");
    file.truncate(0).expect("a sound disk");
    file.write_at(0, bytes).expect("a sound disk");
}

#[test]
fn a_batch_of_which_one_file_lost_its_part_was_never_committed() {
    let disk = SimDisk::new(1);
    let store = begin(&disk);
    let (blocks, log) = (file_of(&disk, "blocks"), file_of(&disk, "log"));
    table(&store)
        .and_then(|table| table.append(&batch(NEW)))
        .expect("a sound disk");
    let all = disk.copy();
    assert_eq!(rows_on(&all.copy()), NEW.end.unsigned_abs(), "nothing is lost");
    for (lost, file) in [("blocks", &blocks), ("log", &log)] {
        let part = all.copy();
        put_back(&part, file);
        assert_eq!(rows_on(&part), OLD.unsigned_abs(), "the {lost} are lost");
        // The next writes take the places of what is lost.
        let store = open(&part, options()).expect("opens");
        table(&store)
            .and_then(|table| table.append(&batch(NEW.start + 1..NEW.end)))
            .expect("a sound disk");
        drop(store);
        assert_eq!(
            rows_on(&part),
            NEW.end.unsigned_abs(),
            "after the {lost} were lost"
        );
    }
    // One sector of one block is enough.
    let part = all.copy();
    let (path, now) = file_of(&part, "blocks");
    let changed = (0..now.len())
        .rev()
        .find(|&at| blocks.1.get(at) != Some(&now[at]));
    part.change(&path, changed.expect("something was written"), 0xFF);
    assert_eq!(rows_on(&part), OLD.unsigned_abs());
}

#[test]
fn rows_beside_full_blocks_keep_to_the_memory_for_rows() {
    let disk = SimDisk::new(1);
    let store = begin(&disk);
    // The first rows fill blocks. Of the others, each third is there, which is worth no block.
    let whole = batch(OLD..OLD + 16_000);
    let is_kept = (0..whole.num_rows()).map(|row| Some(row < 4000 || row % 3 == 0));
    let kept = filter_record_batch(&whole, &is_kept.collect()).expect("as long as the rows");
    let appended = table(&store).and_then(|table| table.append(&kept));
    assert_eq!(appended.expect("a sound disk").rows, kept.num_rows() as u64);
    assert_eq!(rows_in(&store), OLD.unsigned_abs() + kept.num_rows() as u64);
    assert!(store.metrics().head_bytes <= 64 << 10, "{:?}", store.metrics());
    drop(store);
    assert_eq!(rows_on(&disk), OLD.unsigned_abs() + kept.num_rows() as u64);
}

#[test]
fn blocks_that_a_later_record_vouches_for_are_missed() {
    let disk = SimDisk::new(1);
    let store = begin(&disk);
    let blocks = file_of(&disk, "blocks");
    let append = |times| table(&store).and_then(|table| table.append(&batch(times)));
    append(NEW).expect("a sound disk");
    append(NEW.end..NEW.end + 1).expect("a sound disk");
    let part = disk.copy();
    put_back(&part, &blocks);
    let found = open(&part, options()).and_then(|store| table(&store)?.range(..)?.count());
    assert!(matches!(found, Err(Error::Corrupt { .. })), "{found:?}");
}

/// Cuts the power at each event of an append of some rows behind the old ones, or over them;
/// returns how many images have the batch, and how many do not.
fn cut(times: &std::ops::Range<i64>, durability: Durability) -> (u64, u64) {
    let (mut with, mut without) = (0, 0);
    let disk = SimDisk::new(1);
    drop(begin(&disk));
    let store = open(&disk, options().durability(durability)).expect("opens");
    let begun = disk.record();
    table(&store)
        .and_then(|table| table.append(&batch(times.clone())))
        .expect("a sound disk");
    let trace = disk.trace(begun);
    let mut replay = trace.replay();
    let mut rng = Rng::new(1);
    for event in 0..=trace.len() as u64 {
        for outcome in 0..24 {
            let rows = rows_on(&replay.image(event << 8 | outcome));
            assert!([OLD, times.end].contains(&rows.cast_signed()), "{rows} rows");
            let is_last = event == trace.len() as u64 && durability == Durability::Always;
            assert!(!is_last || rows.cast_signed() == times.end, "it was acknowledged");
            *(if rows.cast_signed() == OLD {
                &mut without
            } else {
                &mut with
            }) += 1;
        }
        replay.step(&mut rng);
    }
    (with, without)
}

#[test]
fn power_cuts_between_two_files_leave_a_batch_whole_or_not_at_all() {
    let (mut with, mut without) = (0, 0);
    // By the caller alone; with a thread that syncs; with one that writes, too.
    for times in [OLD..OLD + 700, 400..1900, NEW] {
        for durability in [Durability::Always, Durability::Relaxed] {
            let (found, missing) = cut(&times, durability);
            with += found;
            without += missing;
        }
    }
    assert!(
        with > 50 && without > 200,
        "{with} with the batch, {without} without"
    );
}

/// Lets one call of an append fail; returns whether the batch is there all the same, for good.
fn fail_once(times: &std::ops::Range<i64>, call: u64, seed: u64) -> bool {
    let disk = SimDisk::new(seed);
    let begun = disk.record();
    let store = begin(&disk);
    disk.set_fault(Some(Fault {
        call: disk.calls() + call,
        kind: FaultKind::Partial,
    }));
    let outcome = table(&store).and_then(|table| table.append(&batch(times.clone())));
    disk.set_fault(None);
    drop(store);
    let rows = rows_on(&disk);
    assert!(outcome.is_err() || rows.cast_signed() == times.end);
    let trace = disk.trace(begun);
    let (mut replay, mut rng) = (trace.replay(), Rng::new(seed));
    while replay.step(&mut rng).is_some() {}
    assert_eq!(rows_on(&replay.image(seed)), rows, "call {call}, seed {seed}");
    outcome.is_err() && rows.cast_signed() == times.end
}

#[test]
fn what_a_failed_sync_left_unknown_is_durable_once_it_was_recovered() {
    for times in [NEW, OLD..OLD + 1500] {
        let disk = SimDisk::new(1);
        let calls = {
            let store = begin(&disk);
            let before = disk.calls();
            table(&store)
                .and_then(|table| table.append(&batch(times.clone())))
                .expect("a sound disk");
            disk.calls() - before
        };
        let runs = (1..=calls).flat_map(|call| (0..8).map(move |seed| (call, seed)));
        let recovered = runs.filter(|&(call, seed)| fail_once(&times, call, seed)).count();
        assert!(recovered > 0, "some failed batch is found whole");
    }
}

#[test]
fn what_may_be_a_batch_that_was_never_committed_is_told_as_such() {
    let disk = SimDisk::new(1);
    let store = begin(&disk);
    let blocks = file_of(&disk, "blocks");
    let append = |times| table(&store).and_then(|table| table.append(&batch(times)));
    append(NEW).expect("a sound disk");
    let torn = disk.copy();
    append(NEW.end..NEW.end + 1).expect("a sound disk");
    let damaged = disk.copy();
    drop(store);
    for (disk, is_torn) in [(torn, true), (damaged, false)] {
        put_back(&disk, &blocks);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let inspected = inspect(&shared, Path::new(STORE)).expect("reads");
        let saved = Path::new("/saved");
        let report = salvage(shared, Path::new(STORE), saved).expect("a sound disk");
        for problems in [inspected, report.problems] {
            assert!(!problems.is_empty());
            for problem in problems {
                let text = problem.to_string();
                assert_eq!(text.contains("ever acknowledged"), is_torn, "{text}");
            }
        }
    }
}

#[test]
fn a_file_whose_name_was_not_synced_is_synced_before_rows_of_it_are_acknowledged() {
    let mut failed = 0;
    for (call, kind) in (1..60).flat_map(|call| [(call, FaultKind::Death), (call, FaultKind::NoSpace)]) {
        let disk = SimDisk::new(call);
        let begun = disk.record();
        let store = begin(&disk);
        // While another process reads an earlier checkpoint, unknown files stay where they are.
        let reader = Engine::open_to_read(Arc::new(disk.clone()), Path::new(STORE), options());
        let reader = Store::new(reader.expect("opens"));
        let append = |store: &Store, times| table(store).and_then(|table| table.append(&batch(times)));
        append(&store, OLD..OLD + 1).expect("a sound disk");
        store.flush().expect("a sound disk");
        disk.set_fault(Some(Fault {
            call: disk.calls() + call,
            kind,
        }));
        let outcome = append(&store, OLD + 1..NEW.end);
        let mut store = Some(store);
        let mut again = outcome.map(drop);
        if again.is_err() && kind == FaultKind::NoSpace {
            disk.set_fault(None);
            again = append(store.as_ref().expect("open"), OLD + 1..NEW.end).map(drop);
        }
        if again.is_err() {
            drop(store.take());
            disk.set_fault(None);
            let opened = open(&disk, options()).expect("opens");
            append(&opened, OLD + 1..NEW.end).expect("a sound disk");
            store = Some(opened);
            failed += 1;
        }
        let trace = disk.trace(begun);
        let (mut replay, mut rng) = (trace.replay(), Rng::new(call));
        while replay.step(&mut rng).is_some() {}
        for seed in 0..8 {
            let rows = rows_on(&replay.image(seed));
            assert_eq!(rows, NEW.end.unsigned_abs(), "call {call}, {kind:?}, seed {seed}");
        }
        drop((store, reader));
    }
    assert!(failed > 10, "{failed} appends failed");
}

/// Rows of so few bytes that blocks of them stay in memory, of so many that they fill a block.
const FEW: std::ops::Range<i64> = 0..290;

/// Rows with the time and `offset`, and `offset` once more, as text.
fn wide(times: std::ops::Range<i64>, offset: i64) -> RecordBatch {
    let column = |offset: i64| -> ArrayRef {
        Arc::new(TimestampSecondArray::from_iter_values(
            times.clone().map(move |time| time + offset),
        ))
    };
    let texts = StringArray::from_iter_values(times.clone().map(|_| offset.to_string()));
    let time = |name: &str| Field::new(name, DataType::Timestamp(TimeUnit::Second, None), false);
    let fields = vec![time("at"), time("a"), Field::new("text", DataType::Utf8, true)];
    let columns = vec![column(0), column(offset), Arc::new(texts)];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("of one length")
}

/// The offset of each time of a scan.
fn by_time(scan: Result<Scan>) -> BTreeMap<i64, i64> {
    let batches = scan.and_then(Iterator::collect::<Result<Vec<_>>>).expect("reads");
    let mut offsets = BTreeMap::new();
    for batch in batches {
        let column = |number: usize| batch.column(number).as_primitive::<TimestampSecondType>();
        for row in 0..batch.num_rows() {
            let (time, value) = (column(0).value(row), column(1).value(row));
            assert_eq!(
                batch.column(2).as_string::<i32>().value(row),
                (value - time).to_string()
            );
            assert_eq!(offsets.insert(time, value - time), None, "one row of {time}");
        }
    }
    offsets
}

/// The offsets of the rows of a scan, which are those of the times from 0 on.
fn offsets_in(scan: Result<Scan>) -> Vec<i64> {
    let offsets = by_time(scan);
    assert!((0..).zip(offsets.keys()).all(|(due, &time)| due == time));
    offsets.into_values().collect()
}

/// A store whose table has rows of offset 1 in blocks of a checkpoint, and of some times those of 2
/// and then of 3 in blocks that are in memory; the snapshots are of each of these moments.
fn in_memory(disk: &SimDisk) -> (Store, Arc<BlockFiles>, Vec<Snapshot>) {
    let engine = Engine::open(Arc::new(disk.clone()), Path::new(STORE), options()).expect("creates");
    let files = engine.view().blocks.clone();
    let store = Store::new(engine);
    let schema = TableSchema::new(wide(0..1, 0).schema(), "at").expect("storable");
    let layout = Layout::Sparse(Grid::every(1).expect("positive"));
    let table = store.create_table_as("t", schema, layout).expect("fresh");
    table.append(&wide(0..OLD, 1)).expect("a sound disk");
    store.flush().expect("a sound disk");
    let mut snapshots = vec![store.snapshot()];
    let written = store.metrics().block_writes;
    for offset in [2, 3] {
        table.append(&wide(FEW, offset)).expect("a sound disk");
        snapshots.push(store.snapshot());
    }
    assert!(files.unwritten() >= 2, "{} blocks in memory", files.unwritten());
    assert_eq!(store.metrics().block_writes, written);
    (store, files, snapshots)
}

fn expected(offset: i64) -> Vec<i64> {
    let of_time = |time: i64| if FEW.contains(&time) { offset } else { 1 };
    (0..OLD).map(of_time).collect()
}

#[test]
fn blocks_in_memory_are_read_there_and_written_by_the_next_flush() {
    let disk = SimDisk::new(1);
    let (store, files, snapshots) = in_memory(&disk);
    let check = |when: &str| {
        let now = offsets_in(table(&store).and_then(|table| table.range(..)));
        assert_eq!(now, expected(3), "{when}");
        for (snapshot, offset) in snapshots.iter().zip(1..) {
            assert_eq!(offsets_in(snapshot.range("t", ..)), expected(offset), "{when}");
        }
        assert_eq!(store.verify().expect("reads").problems, [], "{when}");
    };
    check("in memory");
    // A flush for which there is no space leaves them where they are.
    disk.set_capacity(disk.used());
    let waiting = files.unwritten();
    let found = store.flush();
    assert!(matches!(found, Err(Error::NoSpace { .. })), "{found:?}");
    assert_eq!(files.unwritten(), waiting);
    check("after a flush that failed");
    disk.set_capacity(u64::MAX);
    store.flush().expect("a sound disk");
    assert_eq!(files.unwritten(), 0);
    check("written");
    drop((snapshots, store));
    let store = open(&disk, options()).expect("opens");
    assert_eq!(
        offsets_in(table(&store).and_then(|table| table.range(..))),
        expected(3)
    );
}

#[test]
fn what_a_flush_that_found_no_space_has_written_is_written_and_synced_by_the_next() {
    let disk = SimDisk::new(1);
    let begun = disk.record();
    let (store, ..) = in_memory(&disk);
    let (used, mut failed) = (disk.used(), 0);
    while let Err(error) = {
        disk.set_capacity(used + 256 * failed);
        store.flush()
    } {
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
        failed += 1;
    }
    assert!(failed > 20, "{failed} flushes failed");
    let trace = disk.trace(begun);
    let (mut replay, mut rng) = (trace.replay(), Rng::new(1));
    while replay.step(&mut rng).is_some() {}
    for seed in 0..16 {
        let store = open(&replay.image(seed), options()).expect("opens");
        assert_eq!(store.verify().expect("reads").problems, []);
        assert_eq!(
            offsets_in(table(&store).and_then(|table| table.range(..))),
            expected(3)
        );
    }
}

#[test]
fn blocks_in_memory_survive_power_loss_in_the_log() {
    let disk = SimDisk::new(1);
    let begun = disk.record();
    let (store, ..) = in_memory(&disk);
    let appended = disk.trace(begun.clone()).len();
    store.flush().expect("a sound disk");
    let trace = disk.trace(begun);
    let (mut replay, mut rng) = (trace.replay(), Rng::new(1));
    for event in 0..=trace.len() {
        for outcome in 0..4 {
            if event < appended {
                break;
            }
            let image = replay.image((event as u64) << 4 | outcome);
            let store = open(&image, options()).expect("opens");
            let found = offsets_in(table(&store).and_then(|table| table.range(..)));
            assert_eq!(found, expected(3), "event {event} of {}", trace.len());
            assert_eq!(store.verify().expect("reads").problems, []);
        }
        replay.step(&mut rng);
    }
}

#[test]
fn a_table_that_is_dropped_leaves_no_blocks_in_memory() {
    let disk = SimDisk::new(1);
    let (store, files, _) = in_memory(&disk);
    store.drop_table("t").expect("a sound disk");
    assert_eq!(files.unwritten(), 0);
}

#[test]
fn views_of_a_dropped_table_keep_its_blocks_in_memory() {
    let disk = SimDisk::new(1);
    let layout = Layout::Sparse(Grid::every(1).expect("positive"));
    let store = open(&disk, options()).expect("creates");
    let table = store.create_table_as("t", table_schema(), layout).expect("fresh");
    table.append(&wide(0..OLD, 1)).expect("a sound disk");
    drop(table);
    store.close().expect("a sound disk");
    // No flush gets past a row of the first block, so that nothing writes those that are in memory.
    let of_blocks = disk.files().into_iter();
    for (path, bytes) in of_blocks.filter(|(path, _)| path.extension().is_some_and(|found| found == "blocks"))
    {
        (100..bytes.len())
            .step_by(512)
            .for_each(|at| disk.change(&path, at, 0xFF));
    }
    let engine = Engine::open(Arc::new(disk.clone()), Path::new(STORE), options()).expect("opens");
    let files = engine.view().blocks.clone();
    let store = Store::new(engine);
    let table = store.table("t").expect("there");
    // They fill a block, of which these times are some.
    let (few, filled) = (600..600 + FEW.end, 720..820);
    table.append(&wide(few, 2)).expect("in memory");
    let snapshot = store.snapshot();
    table.append(&wide(5..6, 3)).expect("in memory");
    assert!(store.flush().is_err(), "a block is damaged");
    let waiting = files.unwritten();
    assert!(waiting > 1, "{waiting} blocks in memory");
    store.drop_table("t").expect("without its newest rows");
    let found = by_time(snapshot.range("t", filled));
    assert_eq!(found.len(), 100);
    assert!(found.values().all(|&offset| offset == 2));
    drop((table, snapshot));
    store.create_table("other", table_schema()).expect("a sound disk");
    assert_eq!(files.unwritten(), 0);
}

#[test]
fn views_read_on_after_a_table_was_dropped_whose_flush_had_failed() {
    let disk = SimDisk::new(1);
    let (store, files, mut snapshots) = in_memory(&disk);
    disk.set_capacity(disk.used());
    assert!(store.flush().is_err(), "there is no space");
    disk.set_capacity(u64::MAX);
    let waiting = files.unwritten();
    let appended = table(&store).and_then(|table| table.append(&wide(FEW, 4)));
    appended.expect("a sound disk");
    assert!(files.unwritten() > waiting, "there are blocks of two generations");
    snapshots.push(store.snapshot());
    store.drop_table("t").expect("a sound disk");
    for (snapshot, offset) in snapshots.iter().zip(1..) {
        assert_eq!(offsets_in(snapshot.range("t", ..)), expected(offset));
    }
    drop(snapshots);
    store.create_table("other", table_schema()).expect("a sound disk");
    assert_eq!(files.unwritten(), 0);
}

fn table_schema() -> TableSchema {
    TableSchema::new(wide(0..1, 0).schema(), "at").expect("storable")
}

/// As many rows as in [`in_memory`], written over and added in batches of several sizes until the
/// disk is full or they are all there; whether it was full.
fn write_over(table: &Table) -> bool {
    let batches = [200..900, 350..360, -40..30, 995..2600, 5000..5003];
    let appended = batches
        .into_iter()
        .try_for_each(|times| table.append(&wide(times, 9)).map(drop));
    match appended {
        Ok(()) => false,
        Err(Error::NoSpace { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn rows_that_were_written_over_are_put_back_on_a_full_disk_and_after_failures() {
    let (mut full, mut without_space, mut failed) = (0, 0, 0);
    let attempts = (0..40)
        .map(|step| (step * 4096, None))
        .chain((1..60).map(|call| (u64::MAX, Some(call))));
    for (space, call) in attempts {
        let disk = SimDisk::new(1);
        let (store, _, mut snapshots) = in_memory(&disk);
        let before = snapshots.pop().expect("of the last moment");
        drop(snapshots);
        let table = table(&store).expect("there");
        disk.set_capacity(disk.used().saturating_add(space));
        full += u64::from(write_over(&table));
        if let Some(call) = call {
            // A read fails once; a failed write would end all writing.
            let fault = Fault {
                call: disk.calls() + call,
                kind: FaultKind::NoSpace,
            };
            disk.set_fault(Some(fault));
        }
        if let Err(error) = table.put_back(&before, ..) {
            if matches!(error, Error::NoSpace { .. }) {
                without_space += 1;
            } else {
                failed += 1;
            }
            disk.set_fault(None);
            disk.set_capacity(u64::MAX);
            // Rows that were there are never less than before.
            assert!(table.range(0..OLD).and_then(Scan::count).expect("reads") >= OLD.unsigned_abs());
            match table.put_back(&before, ..) {
                Err(Error::ReadOnly { .. }) => continue,
                again => again.expect("there is space"),
            }
        }
        disk.set_fault(None);
        disk.set_capacity(u64::MAX);
        assert_eq!(offsets_in(table.range(..)), expected(3));
        store.flush().expect("a sound disk");
        assert_eq!(offsets_in(table.range(..)), expected(3));
        drop((before, table, store));
        let store = open(&disk, options()).expect("opens");
        assert_eq!(
            offsets_in(store.table("t").and_then(|table| table.range(..))),
            expected(3)
        );
        assert_eq!(store.verify().expect("reads").problems, []);
    }
    assert!(
        full > 3 && without_space > 0 && failed > 0,
        "{full} {without_space} {failed}"
    );
}

/// As [`in_memory`], with rows written over and added, to be put back to the snapshot; and what the
/// table has after each commit of that: first each stretch gone that was added, then all rows of
/// before.
fn to_be_put_back(disk: &SimDisk) -> (Store, Snapshot, Vec<BTreeMap<i64, i64>>) {
    let (store, ..) = in_memory(disk);
    let table = table(&store).expect("there");
    for gap in [300..=309, 500..=519] {
        table.delete_range(gap).expect("a sound disk");
    }
    let before = store.snapshot();
    let was = by_time(before.range("t", ..));
    assert!(!write_over(&table), "there is space");
    let mut now = by_time(table.range(..));
    let mut steps = vec![now.clone()];
    for added in [-40..=-1, 300..=309, 500..=519, 1000..=5002] {
        now.retain(|time, _| !added.contains(time));
        steps.push(now.clone());
    }
    now.extend(&was);
    steps.push(now.clone());
    assert_eq!(now, was);
    (store, before, steps)
}

/// Which of the steps the store on a disk is at; it is whole in every respect.
fn step_on(disk: &SimDisk, steps: &[BTreeMap<i64, i64>]) -> usize {
    let store = open(disk, options()).expect("opens");
    assert_eq!(store.verify().expect("reads").problems, []);
    let found = by_time(table(&store).and_then(|table| table.range(..)));
    let step = steps.iter().position(|step| *step == found);
    step.unwrap_or_else(|| panic!("{} rows, as after no commit", found.len()))
}

#[test]
fn power_loss_while_rows_are_put_back_leaves_all_of_a_commit_or_nothing() {
    let disk = SimDisk::new(1);
    let begun = disk.record();
    let (store, before, steps) = to_be_put_back(&disk);
    let first = disk.trace(begun.clone()).len();
    let table = table(&store).expect("there");
    table.put_back(&before, ..).expect("a sound disk");
    let trace = disk.trace(begun);
    let (mut replay, mut rng) = (trace.replay(), Rng::new(1));
    let (mut seen, mut furthest) = (BTreeSet::new(), 0);
    for event in 0..=trace.len() {
        for outcome in 0..8 {
            if event < first {
                break;
            }
            let step = step_on(&replay.image((event as u64) << 8 | outcome), &steps);
            // A commit begins when the one before is durable.
            assert!(step + 1 >= furthest, "{step} after {furthest}, event {event}");
            assert!(
                event < trace.len() || step + 1 == steps.len(),
                "{step} at the end"
            );
            furthest = furthest.max(step);
            seen.insert(step);
        }
        replay.step(&mut rng);
    }
    assert_eq!(seen.len(), steps.len(), "{seen:?}");
}

#[test]
fn a_process_that_dies_while_rows_are_put_back_leaves_all_of_a_commit_or_nothing() {
    let mut seen = BTreeSet::new();
    for call in 1.. {
        let disk = SimDisk::new(1);
        let (store, before, steps) = to_be_put_back(&disk);
        disk.set_fault(Some(Fault {
            call: disk.calls() + call,
            kind: FaultKind::Death,
        }));
        let outcome = table(&store).and_then(|table| table.put_back(&before, ..));
        drop((before, store));
        disk.set_fault(None);
        let step = step_on(&disk, &steps);
        assert!(outcome.is_err() || step + 1 == steps.len());
        seen.insert(step);
        // The next process writes over what is there.
        let store = open(&disk, options()).expect("opens");
        let table = table(&store).expect("there");
        assert!(!write_over(&table));
        assert_eq!(by_time(table.range(..)).get(&350), Some(&9));
        assert_eq!(store.verify().expect("reads").problems, []);
        if outcome.is_ok() {
            break;
        }
    }
    assert!(seen.len() > 3, "{seen:?}");
}
