//! The operations of writers, and the contents of their tables after each.
//!
//! Each writer has a table of its own and does one operation after another, so its table must hold
//! what its model says after some operation: none acknowledged may be missing, none not yet begun
//! may be there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload_testkit::Rng;

use crate::disk::sim::SimDisk;
use crate::engine::Engine;
use crate::error::Result;
use crate::mark::Mark;
use crate::options::Options;
use crate::rows::TableSchema;
use crate::scan::Scan;
use crate::store::{Snapshot, Store, Table};
use crate::table::{Grid, Layout};

pub(super) const WRITERS: usize = 6;
/// The writer whose table is sparse.
const SPARSE: usize = WRITERS - 1;
/// The writer whose rows are in order.
const IN_ORDER: usize = WRITERS - 2;
/// The writer whose table has a key: one row of each time and text.
pub(super) const KEYED: usize = WRITERS - 3;
/// The interval of the sparse table.
const INTERVAL: i64 = 1000;
pub(super) const STORE: &str = "/store";

/// Small pages, small heads, a small cache: everything happens often.
pub(super) fn options() -> Options {
    Options::new()
        .create(true)
        .page_bytes(4096)
        .head_bytes(64 << 10)
        .cache_bytes(1 << 20)
        .background(false)
}

pub(super) fn open(disk: &SimDisk, options: Options) -> Result<Store> {
    open_at(disk, Path::new(STORE), options)
}

pub(super) fn open_at(disk: &SimDisk, dir: &Path, options: Options) -> Result<Store> {
    Ok(Store::new(Engine::open(Arc::new(disk.clone()), dir, options)?))
}

pub(super) fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("id", DataType::Int64, false),
        Field::new("text", DataType::Utf8, true),
    ]))
}

/// Rows of some times and ids, whose texts follow from the ids.
pub(super) fn rows(rows: &[(i64, i64)], text: impl Fn(i64) -> Option<String>) -> RecordBatch {
    let times = rows.iter().map(|&(time, _)| time);
    let ids = rows.iter().map(|&(_, id)| id);
    let batch = RecordBatch::try_new(
        columns(),
        vec![
            Arc::new(TimestampMillisecondArray::from_iter_values(times)),
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            Arc::new(ids.map(text).collect::<StringArray>()),
        ],
    );
    batch.expect("columns of one length")
}

pub(super) fn table_name(writer: usize) -> String {
    format!("writer {writer}")
}

fn layout(writer: usize) -> Layout {
    if writer == SPARSE {
        Layout::Sparse(Grid::every(INTERVAL).expect("positive"))
    } else {
        Layout::Indexed
    }
}

pub(super) fn create_tables(store: &Store) -> Result<()> {
    for writer in 0..WRITERS {
        let mut schema = TableSchema::new(columns(), "at")?;
        if writer == KEYED {
            schema = schema.with_key(&["text"])?;
        }
        store.create_table_as(&table_name(writer), schema, layout(writer))?;
    }
    Ok(())
}

/// A row of the model: its time and its id, which ascends in the order of arrival.
type ModelRow = (i64, i64);

#[derive(Debug, Clone, Copy)]
enum Op {
    Append {
        rows: i64,
    },
    Delete {
        from: i64,
        to: i64,
    },
    /// Takes back what was appended since the operation before the last.
    Retract,
}

/// One writer: what it will do, and what its table holds after each operation.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    number: usize,
    ops: Vec<Op>,
    /// `states[n]`: the rows after the first `n` operations, by (time, id).
    states: Arc<[Vec<ModelRow>]>,
    next: usize,
    /// The first id given out by each operation.
    first_ids: Vec<i64>,
    /// Marks before each operation that was begun.
    marks: Vec<Mark>,
}

/// Times of rows of the sparse table, many of which were taken by earlier rows. Longer batches fill
/// blocks.
fn sparse_time_of(id: i64) -> i64 {
    INTERVAL * (id - 100 - if id / 150 % 2 == 1 { 60 } else { 0 })
}

/// Two rows share a time.
fn time_in_order_of(id: i64) -> i64 {
    id / 2
}

/// Four rows share a time, each with a text of its own, and come again after a while.
fn time_of_key_of(id: i64) -> i64 {
    id % 240 / 4
}

/// The function of a writer that tells the times of its rows.
fn times_of(writer: usize) -> fn(i64) -> i64 {
    match writer {
        SPARSE => sparse_time_of,
        IN_ORDER => time_in_order_of,
        KEYED => time_of_key_of,
        _ => time_of,
    }
}

fn time_of(id: i64) -> i64 {
    // A few rows are late by a little, some by much.
    id - if id % 17 == 0 { 300 } else { id * id % 13 }
}

fn text_of(id: i64) -> Option<&'static str> {
    const LONGEST: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    (id % 5 != 0).then(|| &LONGEST[..usize::try_from(id * 7 % 60).unwrap_or_default()])
}

impl Writer {
    pub(super) fn new(number: usize, operations: usize, seed: u64) -> Self {
        let mut rng = Rng::stream(seed, number as u64);
        let is_sparse = number == SPARSE;
        let is_keyed = number == KEYED;
        let time_of = times_of(number);
        let unit = if is_sparse { INTERVAL } else { 1 };
        let mut below = |bound: i64| i64::try_from(rng.below(bound.unsigned_abs())).unwrap_or_default();
        let mut ops = Vec::new();
        let mut states = vec![Vec::new()];
        let mut id = 0;
        let mut first_ids = Vec::new();
        for number in 0..operations {
            let op = match below(10) {
                0 => {
                    let from = below(id + 1) - if is_sparse { 150 } else { 50 };
                    Op::Delete {
                        from: from * unit,
                        to: (from + below(200)) * unit,
                    }
                }
                1 if number > 2 && !is_sparse && !is_keyed => Op::Retract,
                // More than there is memory for: in one checkpoint.
                2 if below(5) == 0 && !is_keyed => Op::Append { rows: 900 },
                2 => Op::Append {
                    rows: 100 + below(300),
                },
                3..=5 => Op::Append { rows: 1 },
                _ => Op::Append { rows: 1 + below(30) },
            };
            first_ids.push(id);
            let mut rows: Vec<ModelRow> = states[number].clone();
            match op {
                Op::Append { rows: count } => {
                    rows.extend((id..id + count).map(|id| (time_of(id), id)));
                    // Adaptive: most rows stand where they did.
                    rows.sort();
                    if is_sparse {
                        // The last of each time has taken the place of the others.
                        rows.reverse();
                        rows.dedup_by_key(|(time, _)| *time);
                        rows.reverse();
                    }
                    if is_keyed {
                        let mut newest = BTreeMap::new();
                        newest.extend(rows.iter().map(|&(time, id)| ((time, text_of(id)), id)));
                        rows.retain(|&(time, id)| newest[&(time, text_of(id))] == id);
                    }
                    id += count;
                }
                Op::Delete { from, to } => rows.retain(|(time, _)| !(from..=to).contains(time)),
                Op::Retract => rows.retain(|(_, id)| *id < first_ids[number - 1]),
            }
            ops.push(op);
            states.push(rows);
        }
        Self {
            number,
            ops,
            states: states.into(),
            next: 0,
            first_ids,
            marks: Vec::new(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.next == self.ops.len()
    }

    /// Does the next operation.
    pub(super) fn step(&mut self, store: &Store) -> Result<()> {
        let table = store.table(&table_name(self.number))?;
        let number = self.next;
        self.next += 1;
        self.marks.truncate(number);
        self.marks.push(table.mark());
        match self.ops[number] {
            Op::Append { rows } => {
                let first = self.first_ids[number];
                append(&table, first..first + rows, times_of(self.number))
            }
            Op::Delete { from, to } => table.delete_range(from..=to),
            Op::Retract => table.retract_since(self.marks[number - 1]),
        }
    }

    /// Goes on from what the store holds after its process died; returns the number of operations
    /// in it.
    pub(super) fn resume(&mut self, store: &Store) -> Result<usize> {
        let operations = self.operations_in(store)?;
        self.next = operations
            .into_iter()
            .filter(|&n| n <= self.next)
            .max()
            .expect("a state of the table");
        Ok(self.next)
    }

    /// How many operations were begun.
    pub(super) fn begun(&self) -> usize {
        self.next
    }

    /// How many operations lead to what the store's table holds; several numbers if some changed
    /// nothing.
    pub(super) fn operations_in(&self, store: &Store) -> Result<Vec<usize>> {
        let found = read(&store.table(&table_name(self.number))?)?;
        let states = self.states.iter().enumerate();
        Ok(states
            .filter(|(_, state)| **state == found)
            .map(|(n, _)| n)
            .collect())
    }

    /// How many rows of the present state the store's table lacks. Fails on a row that no state
    /// has.
    pub(super) fn missing_in(&self, store: &Store) -> Result<usize> {
        let found = read(&store.table(&table_name(self.number))?)?;
        let present = &self.states[self.next];
        for row in &found {
            let known = self.states.iter().any(|state| state.binary_search(row).is_ok());
            assert!(known, "the row {row:?} never was");
        }
        Ok(present
            .iter()
            .filter(|row| found.binary_search(row).is_err())
            .count())
    }

    /// Fails unless the table holds what it may after at least `acknowledged` and at most `begun`
    /// operations; returns after how many.
    pub(super) fn check(&self, store: &Store, acknowledged: usize, begun: usize) -> Result<usize, String> {
        let table = store
            .table(&table_name(self.number))
            .map_err(|error| error.to_string())?;
        let found = read(&table).map_err(|error| error.to_string())?;
        (acknowledged..=begun).rev().find(|&n| self.states[n] == found).ok_or_else(|| {
            let after = self.states.iter().position(|state| *state == found);
            format!(
                "the table of writer {} has {} rows; after {acknowledged} acknowledged operations of {begun} it should \
                 have {}; what it has is its state after {after:?}",
                self.number,
                found.len(),
                self.states[acknowledged].len(),
            )
        })
    }
}

impl Writer {
    /// Fails unless a snapshot has the table as it was after so many operations.
    pub(super) fn check_snapshot(&self, snapshot: &Snapshot, operations: usize) -> Result<(), String> {
        let found = snapshot
            .range(&table_name(self.number), ..)
            .and_then(read_scan)
            .map_err(|error| error.to_string())?;
        if found == self.states[operations] {
            return Ok(());
        }
        let has = found.len();
        Err(format!(
            "the snapshot after {operations} operations of writer {} has {has} other rows",
            self.number
        ))
    }
}

fn append(table: &Table, ids: std::ops::Range<i64>, time_of: fn(i64) -> i64) -> Result<()> {
    let texts: StringArray = ids.clone().map(text_of).collect();
    let batch = RecordBatch::try_new(
        columns(),
        vec![
            Arc::new(TimestampMillisecondArray::from_iter_values(
                ids.clone().map(time_of),
            )),
            Arc::new(Int64Array::from_iter_values(ids)),
            Arc::new(texts),
        ],
    );
    table.append(&batch.expect("columns of one length")).map(drop)
}

/// The rows of a table, whose text must be the one of their id.
fn read(table: &Table) -> Result<Vec<ModelRow>> {
    read_scan(table.range(..)?)
}

fn read_scan(scan: Scan) -> Result<Vec<ModelRow>> {
    let mut rows = Vec::new();
    for batch in scan {
        let batch = batch?;
        let times = batch.column(0).to_data();
        let times = times.buffers()[0].typed_data::<i64>();
        let ids = batch.column(1).as_primitive::<Int64Type>();
        let texts = batch.column(2).as_string::<i32>();
        for (row, (&time, text)) in times.iter().zip(texts).enumerate() {
            let id = ids.value(row);
            assert_eq!(text, text_of(id), "a wrong row");
            rows.push((time, id));
        }
    }
    // Rows of one time stand in the order of arrival, as ids do.
    assert!(rows.is_sorted());
    Ok(rows)
}
