//! Deletions that no flush has applied yet: what they cost readers, and how many there can be.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};

use super::workload::{columns, open, options};
use crate::disk::sim::SimDisk;
use crate::rows::{DELETION_WEIGHT, TableSchema, searches};
use crate::store::{Store, Table};
use crate::table::{Grid, Layout};

const ROWS: i64 = 5000;
/// Deletions of ten rows each, as many rows apart.
const DELETIONS: i64 = 100;

fn append(table: &Table, times: impl Iterator<Item = i64> + Clone) {
    let batch = RecordBatch::try_new(
        columns(),
        vec![
            Arc::new(TimestampMillisecondArray::from_iter_values(times.clone())),
            Arc::new(Int64Array::from_iter_values(times.clone())),
            Arc::new(StringArray::from_iter_values(times.map(|time| time.to_string()))),
        ],
    );
    table
        .append(&batch.expect("columns of one length"))
        .expect("a sound disk");
}

#[test]
fn rows_are_compared_with_stretches_and_not_with_deletions() {
    let grid = Grid::every(1).expect("positive");
    for layout in [Layout::Indexed, Layout::Sparse(grid)] {
        let disk = SimDisk::new(1);
        let store = open(&disk, options().head_bytes(8 << 20)).expect("creates");
        let schema = TableSchema::new(columns(), "at").expect("storable");
        let table = store.create_table_as("t", schema, layout).expect("fresh");
        // Rows in pages and rows in memory, between one another.
        for part in 0..50 {
            append(&table, part * 100..part * 100 + 50);
        }
        store.flush().expect("a sound disk");
        for part in 0..50 {
            append(&table, part * 100 + 50..part * 100 + 100);
        }
        for number in 0..DELETIONS {
            let first = number * (ROWS / DELETIONS);
            table.delete_range(first..first + 10).expect("a sound disk");
        }
        let stretches = 2 * DELETIONS.unsigned_abs() + 1;
        let (snapshot, left) = (store.snapshot(), (ROWS - 10 * DELETIONS).unsigned_abs());
        let mut most = 2 * stretches;
        if layout != Layout::Indexed {
            // Each batch of a sparse table begins again, and there is one for each few blocks.
            most *= 2;
        }
        for reverse in [false, true] {
            let scan = table.range(..).expect("there");
            searches::take();
            let found = if reverse { scan.rev() } else { scan }.count();
            assert_eq!(found.expect("a sound disk"), left);
            let searches = searches::take();
            assert!(
                searches <= most,
                "{searches} for {ROWS} rows and {stretches} stretches"
            );
        }
        // A state without deletions is not asked for them.
        searches::take();
        store.flush().expect("a sound disk");
        let searches = searches::take();
        assert!(searches <= most, "{searches} for a flush");
        for rows in [table.range(..), snapshot.range("t", ..)] {
            assert_eq!(rows.expect("there").count().expect("a sound disk"), left);
        }
    }
}

/// The first of some changes before which there was a flush. The log gets shorter by a flush alone.
fn first_flush(store: &Store, change: impl Fn(i64)) -> i64 {
    let log_bytes = || store.info().expect("a sound disk").wal_bytes;
    let flushed = |number: i64| {
        let before = log_bytes();
        change(number);
        log_bytes() < before
    };
    (0..1000).find(|&number| flushed(number)).expect("a flush")
}

#[test]
fn replaced_rows_are_flushed_by_their_number() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options().head_bytes(8 << 20)).expect("creates");
    let schema = TableSchema::new(columns(), "at").and_then(|schema| schema.with_key(&["text"]));
    let table = store.create_table("t", schema.expect("storable")).expect("fresh");
    append(&table, 0..ROWS);
    // Every second row, so that each is replaced by its place.
    let first = first_flush(&store, |number| {
        append(&table, (0..100).map(|row| 200 * (number % 25) + 2 * row));
    });
    // As many rows weigh as much as the deletions below.
    let deletions = 100 * first / i64::try_from(DELETION_WEIGHT).expect("small");
    assert!(
        (100..200).contains(&deletions),
        "after {first} commits of 100 rows"
    );
    let rows = table.range(..).expect("there").count().expect("reads");
    assert_eq!(rows, ROWS.unsigned_abs());
}

#[test]
fn deletions_are_flushed_by_their_number() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options().head_bytes(8 << 20)).expect("creates");
    let schema = TableSchema::new(columns(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    append(&table, 0..ROWS);
    let before = store.snapshot();
    let first = first_flush(&store, |number| {
        table.delete_range(number..=number).expect("a sound disk");
    });
    assert!((100..200).contains(&first), "after {first} deletions");
    assert_eq!(
        before.range("t", ..).expect("there").count().expect("reads"),
        ROWS.unsigned_abs()
    );
}
