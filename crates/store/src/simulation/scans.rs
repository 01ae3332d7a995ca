//! Which rows a scan looks at, and how it goes on after those that it passes over.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use bedload_columns::{Operator, Predicate};
use bedload_testkit::Rng;

use super::workload::{columns, open, options, rows};
use crate::disk::sim::SimDisk;
use crate::rows::{TableSchema, searches};
use crate::store::{Store, Table};

/// Appends rows of some times and ids.
fn append(table: &Table, of: &[(i64, i64)]) {
    let batch = rows(of, |id| Some((id % 7).to_string()));
    table.append(&batch).expect("a sound disk");
}

fn table(store: &Store) -> Table {
    let schema = TableSchema::new(columns(), "at").expect("storable");
    store.create_table("t", schema).expect("fresh")
}

fn ids(batches: impl Iterator<Item = crate::error::Result<RecordBatch>>) -> Vec<i64> {
    let of_batch = |batch: RecordBatch| batch.column(1).as_primitive::<Int64Type>().values().to_vec();
    batches
        .flat_map(|batch| of_batch(batch.expect("a sound disk")))
        .collect()
}

#[test]
fn deleted_rows_of_a_head_are_passed_over_at_once() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options().head_bytes(8 << 20)).expect("creates");
    let table = table(&store);
    append(&table, &(0..5000).map(|id| (id, id)).collect::<Vec<_>>());
    table.delete_range(100..).expect("a sound disk");
    searches::take();
    let newest = table.range(..).expect("there").rev().limit(1);
    assert_eq!(ids(newest), [99]);
    let few = searches::take();
    assert!(few < 20, "{few} searches for the last row that is left");
}

#[test]
fn a_row_that_is_rewritten_often_is_found_in_few_searches() {
    const TIMES: i64 = 300;
    let disk = SimDisk::new(1);
    let store = open(&disk, options().head_bytes(8 << 20)).expect("creates");
    let schema = TableSchema::new(columns(), "at").and_then(|schema| schema.with_key(&["text"]));
    let table = store.create_table("t", schema.expect("storable")).expect("fresh");
    searches::take();
    for number in 0..TIMES {
        append(&table, &[(5, 7 * number)]);
    }
    let each = searches::take() / TIMES.unsigned_abs();
    assert!(each < 40, "{each} searches for each row");
    assert_eq!(ids(table.range(..).expect("there")), [7 * (TIMES - 1)]);
}

/// Scans of any limit give what a model has, whatever is deleted, replaced or filtered out.
#[test]
fn limits_end_scans_between_any_two_rows() {
    for seed in 0..8 {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(seed);
        let store = open(&disk, options().head_bytes(8 << 20)).expect("creates");
        let is_keyed = seed % 2 == 0;
        let mut schema = TableSchema::new(columns(), "at").expect("storable");
        if is_keyed {
            schema = schema.with_key(&["text"]).expect("a column");
        }
        let table = store.create_table("t", schema).expect("fresh");
        // The ids of each time, in the order of arrival.
        let mut model: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        let mut next = 0;
        for step in 0..30 {
            let begin = rng.below(300).cast_signed();
            let count = 1 + rng.below(if step % 3 == 0 { 120 } else { 5 }).cast_signed();
            let rows: Vec<(i64, i64)> = (0..count).map(|row| (begin + row / 2, next + row)).collect();
            next += count;
            append(&table, &rows);
            for (time, id) in rows {
                let of_time = model.entry(time).or_default();
                if is_keyed {
                    of_time.retain(|other| other % 7 != id % 7);
                }
                of_time.push(id);
            }
            // Without deletions runs are read alone.
            if step % 5 == 4 && seed % 4 != 3 {
                let from = rng.below(300).cast_signed();
                table.delete_range(from..from + 20).expect("a sound disk");
                model.retain(|time, _| !(from..from + 20).contains(time));
            }
            if step % 11 == 10 {
                store.flush().expect("a sound disk");
            }
        }
        for least in [None, Some(next / 3), Some(next - 20), Some(next)] {
            let expected: Vec<i64> = model.values().flatten().copied().collect();
            let expected: Vec<i64> = expected
                .into_iter()
                .filter(|&id| least.is_none_or(|least| id >= least))
                .collect();
            for limit in (0..expected.len() + 2).step_by(23).chain([1, 1000]) {
                for reverse in [false, true] {
                    let mut scan = table.range(..).expect("there").limit(limit as u64);
                    if let Some(least) = least {
                        let late = Predicate::compare(Operator::GtEq, &Int64Array::from(vec![least]));
                        scan = scan.filter("id", late.expect("a number")).expect("a column");
                    }
                    let mut found = ids(if reverse { scan.rev() } else { scan });
                    let mut part = &expected[..limit.min(expected.len())];
                    if reverse {
                        found.reverse();
                        part = &expected[expected.len() - part.len()..];
                    }
                    assert_eq!(found, part, "seed {seed}, {limit} rows from {least:?}, {reverse}");
                }
            }
        }
    }
}

#[test]
fn a_scan_holds_no_runs_that_it_has_passed() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options().head_bytes(8 << 20)).expect("creates");
    let table = table(&store);
    // Some forty leaf intervals, and a row in memory after them.
    append(&table, &(0..10_000).map(|id| (id, id)).collect::<Vec<_>>());
    store.flush().expect("a sound disk");
    append(&table, &[(20_000, 10_000)]);
    let mut scan = table.range(..).expect("there");
    let mut rows = 0;
    while let Some(batch) = scan.next() {
        rows += batch.expect("a sound disk").num_rows();
        let (held, alone) = scan.sources();
        assert!(held <= 3, "{held} runs are held after {rows} rows");
        assert!(alone > 0 || rows > 10_000, "the row in memory comes later");
    }
    assert_eq!(rows, 10_001);
}
