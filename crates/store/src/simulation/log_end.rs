//! The end of the log is missing from a store that was closed: that is noticed. From one that was
//! killed it may be missing after any loss of power.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bedload_testkit::stride;

use super::full::batch;
use super::workload::{STORE, columns, open, options};
use crate::disk::Disk;
use crate::disk::sim::{Fault, FaultKind, SimDisk};
use crate::engine::{Engine, copy_store, inspect, salvage};
use crate::error::{Error, Result};
use crate::options::{Durability, Options};
use crate::pages::PageFile;
use crate::rows::TableSchema;
use crate::store::{Store, Table};
use crate::table::{Grid, Layout};

const ROWS: i64 = 100;

fn data() -> PathBuf {
    Path::new(STORE).join("data")
}

/// The segments of the log, ascending.
fn segments(disk: &SimDisk) -> Vec<PathBuf> {
    let paths = disk.files().into_iter().map(|(path, _)| path);
    let mut segments: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "log"))
        .collect();
    segments.sort_unstable();
    segments
}

fn newest(disk: &SimDisk) -> PathBuf {
    segments(disk).pop().expect("there is a log")
}

fn bytes_of(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let files = disk.files();
    files
        .into_iter()
        .find(|(found, _)| found == path)
        .expect("there")
        .1
}

fn replace(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path).expect("there");
    file.truncate(0).expect("a sound disk");
    file.write_at(0, bytes).expect("a sound disk");
}

fn create(disk: &SimDisk, options: Options, layout: Layout) -> (Store, Table) {
    let store = open(disk, options).expect("creates");
    let schema = TableSchema::new(columns(), "at").expect("storable");
    let table = store.create_table_as("t", schema, layout).expect("fresh");
    table.append(&batch(0..ROWS)).expect("a sound disk");
    store.flush().expect("a sound disk");
    (store, table)
}

/// Appends rows that stay in the log; returns the newest segment as it is before the last of them.
fn fill(disk: &SimDisk, table: &Table) -> Vec<u8> {
    for part in 1..9 {
        table
            .append(&batch(part * ROWS..(part + 1) * ROWS))
            .expect("a sound disk");
    }
    let older = bytes_of(disk, &newest(disk));
    table.append(&batch(9 * ROWS..10 * ROWS)).expect("a sound disk");
    older
}

/// Ways to lose the end of the log, which has `older` as an older copy.
fn damages(disk: &SimDisk, older: &[u8]) -> Vec<(&'static str, SimDisk)> {
    let path = newest(disk);
    let bytes = bytes_of(disk, &path);
    let end = bytes.iter().rposition(|&byte| byte != 0).expect("records") + 1;
    let mut torn = bytes[..end - 200].to_vec();
    torn.resize(bytes.len(), 0);
    let damaged = |bytes: &[u8]| {
        let disk = disk.copy();
        replace(&disk, &path, bytes);
        disk
    };
    vec![
        ("cut off", damaged(&bytes[..end / 2])),
        ("cut off at a block", damaged(&bytes[..end / 2 / 512 * 512])),
        ("emptied", damaged(&[])),
        ("zeroed", damaged(&vec![0; bytes.len()])),
        ("zeroed at its end", damaged(&torn)),
        ("replaced by an older copy", damaged(older)),
    ]
}

fn to_read(disk: &SimDisk) -> Result<Store> {
    let engine = Engine::open_to_read(Arc::new(disk.clone()), Path::new(STORE), options());
    engine.map(Store::new)
}

fn rows_in(store: &Store) -> u64 {
    let table = store.table("t").expect("it is in the checkpoint");
    table.range(..).and_then(|scan| scan.count()).expect("reads")
}

/// Every reader of the store says that the end of its log is missing, and where; salvaging it
/// brings out the rest.
fn check_noticed(disk: &SimDisk, place: &str) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (saved, restored) = (Path::new("/saved"), Path::new("/restored"));
    let restored = copy_store(&shared, Path::new(STORE), restored).map(drop);
    let opened = open(disk, options().create(false)).map(drop);
    for found in [to_read(disk).map(drop), restored, opened] {
        let error = found.expect_err(place);
        let Error::Corrupt { file, reason, .. } = &error else {
            panic!("{place}: {error}");
        };
        assert!(file.starts_with(Path::new(STORE).join("log")), "{place}: {error}");
        assert!(
            reason.contains("was durable up to") && reason.contains("`bedload salvage /store NEW`"),
            "{place}: {error}"
        );
    }
    let problems = inspect(&shared, Path::new(STORE)).expect("reads");
    assert!(
        problems
            .iter()
            .any(|problem| problem.reason.contains("was durable up to")),
        "{place}: {problems:?}"
    );
    let report = salvage(shared, Path::new(STORE), saved).expect("the rest is whole");
    assert!(!report.is_complete(), "{place}");
    let engine = Engine::open(Arc::new(disk.clone()), saved, options());
    let found = rows_in(&Store::new(engine.expect("a new store")));
    assert!(found >= ROWS.cast_unsigned(), "{place}: {found} rows");
}

#[test]
fn a_closed_store_misses_the_end_of_its_log_and_a_killed_one_does_not() {
    let grid = Grid::every(1).expect("positive");
    for durability in [Durability::Always, Durability::Relaxed] {
        for layout in [Layout::Indexed, Layout::Sparse(grid)] {
            let disk = SimDisk::new(1);
            let (store, table) = create(&disk, options().durability(durability), layout);
            let older = fill(&disk, &table);
            let killed = disk.copy();
            drop((store, table));
            assert_eq!(
                rows_in(&to_read(&disk).expect("it is whole")),
                10 * ROWS.cast_unsigned()
            );
            for (kind, damaged) in damages(&disk, &older) {
                check_noticed(&damaged, &format!("{durability:?}, {layout:?}, {kind}"));
            }
            for (kind, damaged) in damages(&killed, &older) {
                let place = format!("{durability:?}, {layout:?}, killed, {kind}");
                let store = open(&damaged, options()).unwrap_or_else(|error| panic!("{place}: {error}"));
                assert!(rows_in(&store) < 10 * ROWS.cast_unsigned(), "{place}");
                // Rows that are appended after that loss are missed if they are lost in turn.
                let table = store.table("t").expect("there");
                let older = fill(&damaged, &table);
                drop((store, table));
                for (again, damaged) in damages(&damaged, &older) {
                    check_noticed(&damaged, &format!("{place}, closed, {again}"));
                }
            }
        }
    }
}

#[test]
fn a_missing_segment_is_noticed_after_a_flush_that_failed() {
    let mut tried = 0;
    for call in 1..60 {
        let disk = SimDisk::new(1);
        let (store, table) = create(&disk, options(), Layout::Indexed);
        fill(&disk, &table);
        disk.set_fault(Some(Fault {
            call: disk.calls() + call,
            kind: FaultKind::NoSpace,
        }));
        let flushed = store.flush();
        disk.set_fault(None);
        let appended = table.append(&batch(10 * ROWS..11 * ROWS));
        drop((store, table));
        if appended.is_err() {
            continue;
        }
        let rows = rows_in(&to_read(&disk).expect("it is whole"));
        assert_eq!(rows, 11 * ROWS.cast_unsigned(), "call {call}");
        if flushed.is_ok() || segments(&disk).len() < 2 {
            continue;
        }
        disk.remove(&newest(&disk)).expect("there");
        let error = open(&disk, options()).expect_err("rows are missing");
        assert!(
            error.to_string().contains("was durable up to"),
            "call {call}: {error}"
        );
        tried += 1;
    }
    assert!(tried > 0, "no flush failed after a segment was begun");
}

#[test]
fn a_death_while_a_damaged_store_is_opened_hides_nothing() {
    let disk = SimDisk::new(1);
    let (store, table) = create(&disk, options().head_bytes(8 << 20), Layout::Indexed);
    for part in 1..100 {
        let rows = part * ROWS..(part + 1) * ROWS;
        table.append(&batch(rows)).expect("a sound disk");
    }
    drop((store, table));
    let path = newest(&disk);
    let bytes = bytes_of(&disk, &path);
    replace(&disk, &path, &bytes[..bytes.len() - 1000]);
    let checkpoint = |disk: &SimDisk| {
        let file = disk.open(&data()).expect("there");
        let read = PageFile::read_superblock(&data(), &*file);
        read.expect("one is whole").0.checkpoint
    };
    // With little memory, rows go to pages before the end of the log is found.
    let (calls, checkpoints) = {
        let disk = disk.copy();
        let before = checkpoint(&disk);
        open(&disk, options()).expect_err("rows are missing");
        (disk.calls(), checkpoint(&disk) - before)
    };
    assert!(checkpoints > 1, "{checkpoints} checkpoints");
    for call in (1..=calls).step_by(stride()) {
        let disk = disk.copy();
        disk.set_fault(Some(Fault {
            call: disk.calls() + call,
            kind: FaultKind::Death,
        }));
        open(&disk, options()).expect_err("rows are missing");
        disk.set_fault(None);
        let error = open(&disk, options()).expect_err("rows are missing");
        assert!(
            error.to_string().contains("was durable up to"),
            "call {call}: {error}"
        );
    }
}

#[test]
fn a_log_end_that_is_not_whole_says_nothing() {
    let disk = SimDisk::new(1);
    let (store, table) = create(&disk, options(), Layout::Indexed);
    fill(&disk, &table);
    drop((store, table));
    for at in 4096..4096 + 20 {
        let disk = disk.copy();
        disk.change(&data(), at, 1);
        assert_eq!(
            rows_in(&open(&disk, options()).expect("opens")),
            10 * ROWS.cast_unsigned()
        );
    }
}

/// The beginning of the data file, and the records of the newest segment. Space that is given back
/// shows in neither.
fn written(disk: &SimDisk) -> (Vec<u8>, Vec<u8>) {
    let mut head = bytes_of(disk, &data());
    head.truncate(64 << 10);
    let mut log = bytes_of(disk, &newest(disk));
    let end = log.iter().rposition(|&byte| byte != 0);
    log.truncate(end.map_or(0, |end| end + 1));
    (head, log)
}

#[test]
fn only_a_close_with_rows_in_the_log_writes_where_it_ends() {
    let disk = SimDisk::new(1);
    let close_without_writing = |(store, table): (Store, Table)| {
        let (before, begun) = (written(&disk), disk.record());
        drop((store, table));
        assert_eq!(disk.trace(begun).syncs(), 0);
        assert!(written(&disk) == before);
    };
    let open = || {
        let store = open(&disk, options()).expect("a sound disk");
        let table = store.table("t").expect("there");
        (store, table)
    };
    let (store, table) = create(&disk, options(), Layout::Indexed);
    assert_ne!(
        written(&disk).0[4096],
        0,
        "there is space for it, should the disk be full then"
    );
    // All is in pages.
    close_without_writing((store, table));
    close_without_writing(open());
    let (store, table) = open();
    fill(&disk, &table);
    let ((before, _), begun) = (written(&disk), disk.record());
    drop((store, table));
    assert_eq!(disk.trace(begun).syncs(), 1, "of the log end");
    let (after, _) = written(&disk);
    let changed: Vec<usize> = (0..before.len()).filter(|&at| before[at] != after[at]).collect();
    assert!(!changed.is_empty() && changed.iter().all(|at| (4096..4096 + 20).contains(at)));
    // Opening has moved the rows to pages.
    close_without_writing(open());
    close_without_writing(open());
}

#[test]
fn a_store_closed_on_a_full_disk_says_where_its_log_ends() {
    let disk = SimDisk::new(1);
    let (store, table) = create(&disk, options(), Layout::Indexed);
    let older = fill(&disk, &table);
    disk.set_capacity(disk.used());
    drop((store, table));
    disk.set_capacity(u64::MAX);
    for (kind, damaged) in damages(&disk, &older) {
        check_noticed(&damaged, &format!("a full disk, {kind}"));
    }
    assert_eq!(
        rows_in(&open(&disk, options()).expect("opens")),
        10 * ROWS.cast_unsigned()
    );
}

#[test]
fn the_log_of_a_backup_ends_where_it_says() {
    let disk = SimDisk::new(1);
    let (store, table) = create(&disk, options(), Layout::Indexed);
    fill(&disk, &table);
    let copy = Path::new("/copy");
    store.backup(copy).expect("a sound disk");
    drop((store, table));
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    assert_eq!(inspect(&shared, copy).expect("reads"), []);
    let copied = Store::new(Engine::open(shared.clone(), copy, options()).expect("opens"));
    let table = copied.table("t").expect("there");
    table.append(&batch(10 * ROWS..11 * ROWS)).expect("a sound disk");
    drop((copied, table));
    let segments: Vec<PathBuf> = shared.list(&copy.join("log")).expect("there");
    let segment = segments.into_iter().max().expect("there is a log");
    shared
        .open(&segment)
        .and_then(|file| file.truncate(64))
        .expect("a sound disk");
    let error = copy_store(&shared, copy, Path::new("/restored")).expect_err("rows are missing");
    assert!(error.to_string().contains("was durable up to"), "{error}");
}
