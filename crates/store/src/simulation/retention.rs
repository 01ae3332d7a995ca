//! Rows that are taken back make no others expire.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::rewritten::batch;
use super::workload::{STORE, open, options};
use crate::disk::sim::{Access, SimDisk};
use crate::rows::TableSchema;
use crate::store::{Store, Table};
use crate::table::{Grid, Layout};

const ROWS: i64 = 1000;
/// Where rows stand that are a mistake.
const FAR: i64 = 1 << 32;

/// A store of each layout, whose table has rows that are not flushed.
fn filled() -> impl Iterator<Item = (SimDisk, Store, Table)> {
    let sparse = Layout::Sparse(Grid::every(1).expect("positive"));
    [Layout::Indexed, sparse].into_iter().map(|layout| {
        let disk = SimDisk::new(1);
        let store = open(&disk, options().head_bytes(4 << 20)).expect("creates");
        let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
        let table = store.create_table_as("t", schema, layout).expect("fresh");
        table.append(&batch(0..ROWS, 0)).expect("a sound disk");
        (disk, store, table)
    })
}

/// Lets `change` do something to a table of each layout, after which it has the same rows.
fn keeps_all(change: impl Fn(&SimDisk, &Store, &Table)) {
    for (disk, store, table) in filled() {
        change(&disk, &store, &table);
        store.flush().expect("a sound disk");
        assert_eq!(count(&table), ROWS, "{:?}", table.layout());
        assert_eq!(
            store.verify().expect("reads").problems,
            [],
            "{:?}",
            table.layout()
        );
    }
}

fn count(table: &Table) -> i64 {
    let rows = table.range(..).and_then(|scan| scan.count());
    rows.expect("a sound table").cast_signed()
}

fn keep(table: &Table) {
    let keep = Duration::from_secs(2 * ROWS.unsigned_abs());
    table.set_retention(Some(keep)).expect("a sound disk");
}

#[test]
fn rows_that_were_never_flushed_make_none_too_old() {
    keeps_all(|_, _, table| {
        keep(table);
        table.append(&batch(FAR..FAR + 5, 0)).expect("a sound disk");
        table.delete_range(FAR..).expect("a sound disk");
    });
}

#[test]
fn rows_that_are_taken_back_make_none_too_old() {
    keeps_all(|_, store, table| {
        keep(table);
        store.flush().expect("a sound disk");
        if table.layout() == Layout::Indexed {
            let mark = table.mark();
            table.append(&batch(FAR..FAR + 5, 0)).expect("a sound disk");
            table.retract_since(mark).expect("its own mark");
        } else {
            let snapshot = store.snapshot();
            table.append(&batch(FAR..FAR + 5, 0)).expect("a sound disk");
            table.put_back(&snapshot, FAR..).expect("a sparse table");
        }
    });
}

#[test]
fn rows_that_are_flushed_and_deleted_in_a_pause_make_none_too_old() {
    for flushes_deletion in [false, true] {
        keeps_all(|_, store, table| {
            keep(table);
            let pause = table.pause_retention();
            table.append(&batch(FAR..FAR + ROWS, 0)).expect("a sound disk");
            store.flush().expect("a sound disk");
            assert_eq!(count(table), 2 * ROWS);
            // Not all rows of their block, where the table is sparse.
            table.delete_range(FAR..).expect("a sound disk");
            if flushes_deletion {
                store.flush().expect("a sound disk");
            }
            drop(pause);
        });
    }
}

#[test]
fn leaves_that_lost_all_their_rows_make_none_too_old() {
    keeps_all(|_, store, table| {
        for part in 0..20 {
            let first = FAR + part * ROWS;
            let rows = batch(first..first + ROWS, 0);
            table.append(&rows).expect("a sound disk");
            store.flush().expect("a sound disk");
        }
        table.delete_range(FAR..).expect("a sound disk");
        store.flush().expect("a sound disk");
        keep(table);
    });
}

#[test]
fn rows_that_a_later_generation_takes_back_make_none_too_old() {
    keeps_all(|disk, store, table| {
        keep(table);
        let (mark, pause) = (table.mark(), table.pause_retention());
        table.append(&batch(FAR..FAR + 5, 0)).expect("a sound disk");
        // They stay in a generation that is sealed and not flushed.
        disk.set_capacity(disk.used());
        assert!(store.flush().is_err(), "there is no space");
        disk.set_capacity(u64::MAX);
        if table.layout() == Layout::Indexed {
            table.retract_since(mark).expect("its own mark");
        } else {
            table.delete_range(FAR..).expect("a sound disk");
        }
        drop(pause);
    });
}

#[test]
fn rows_that_the_end_of_a_long_log_takes_back_make_none_too_old() {
    for (disk, store, table) in filled() {
        let layout = table.layout();
        keep(&table);
        // A process that dies without a flush.
        let pause = table.pause_retention();
        for part in 0..20 {
            let first = FAR + part * ROWS;
            table
                .append(&batch(first..first + ROWS, 0))
                .expect("there is memory");
        }
        table.delete_range(FAR..).expect("a sound disk");
        let left = disk.copy();
        drop((pause, table, store));
        let options = options().head_bytes(64 << 10);
        let store = open(&left, options).expect("opens");
        let table = store.table("t").expect("there");
        assert_eq!(count(&table), ROWS, "{layout:?}");
        store.flush().expect("a sound disk");
        assert_eq!(count(&table), ROWS, "{layout:?}");
    }
}

#[test]
fn rows_that_have_expired_in_a_pause_go_when_it_ends() {
    for (_disk, store, table) in filled() {
        let layout = table.layout();
        keep(&table);
        let pause = table.pause_retention();
        table.append(&batch(FAR..FAR + 5, 0)).expect("a sound disk");
        store.flush().expect("a sound disk");
        assert_eq!(count(&table), ROWS + 5, "{layout:?}");
        pause.end().expect("a sound disk");
        assert_eq!(count(&table), 5, "{layout:?}");
    }
}

/// A device with a wrong clock takes no other rows away.
#[test]
fn rows_from_the_future_make_none_of_today_too_old() {
    const HOUR: i64 = 3600;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    let now = i64::try_from(now.as_secs()).expect("few");
    for (keep, wrong) in [(7 * 24, FAR), (1, FAR), (1, now + 2 * HOUR), (1, now + 30 * HOUR)] {
        for (_, store, table) in filled() {
            let times = now - ROWS..now;
            table.append(&batch(times.clone(), 0)).expect("a sound disk");
            let keep = Duration::from_hours(keep);
            table.set_retention(Some(keep)).expect("a sound disk");
            table.append(&batch(wrong..wrong + 5, 0)).expect("a sound disk");
            for _ in 0..2 {
                store.flush().expect("a sound disk");
                let rows = table.range(times.clone()).and_then(|scan| scan.count());
                assert_eq!(rows.expect("reads").cast_signed(), ROWS, "{:?}", table.layout());
            }
            assert_eq!(count(&table), ROWS + 5, "those of 1970 have gone");
        }
    }
}

/// Late rows that are still at the root count for every leaf of the tree, the last one among them.
#[test]
fn late_rows_are_not_taken_for_the_newest() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options().head_bytes(4 << 20)).expect("creates");
    let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    for times in [0..ROWS, 5..11] {
        table.append(&batch(times, 0)).expect("a sound disk");
        store.flush().expect("a sound disk");
    }
    table.delete_range(700..).expect("a sound disk");
    store.flush().expect("a sound disk");
    assert_eq!(count(&table), 706);
    table
        .set_retention(Some(Duration::from_secs(100)))
        .expect("a sound disk");
    assert_eq!(count(&table), 101);
}

/// A flush looks for pauses once. One that is under way may drop rows which the caller still sees.
#[test]
fn a_pause_waits_for_a_flush_that_is_under_way() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options().head_bytes(4 << 20)).expect("creates");
    let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    table.append(&batch(0..ROWS, 0)).expect("a sound disk");
    let (tell, paused) = mpsc::channel();
    let other = table.clone();
    let data = Path::new(STORE).join("data");
    let waits = Arc::new(AtomicBool::new(false));
    let found = waits.clone();
    disk.interrupt(Access::Write, &data, move || {
        std::thread::spawn(move || {
            let pause = other.pause_retention();
            tell.send(pause).expect("is waited for");
        });
        let early = paused.recv_timeout(Duration::from_millis(100));
        found.store(early.is_err(), Ordering::SeqCst);
        std::thread::spawn(move || drop(paused.recv()));
    });
    store.flush().expect("a sound disk");
    assert!(waits.load(Ordering::SeqCst));
}
