//! Ranges of any length, from blocks that are full, have gaps or are missing, with and without what
//! is newer: each way a batch is put together gives the same rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampSecondType};
use arrow_array::{
    Array, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array, RecordBatch, TimestampSecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::{Grid, Layout, Options, Scan, Store, Table, TableSchema};
use bedload_testkit::Rng;

/// The values of a row, of a round of writing.
type Row = (Option<[u8; 200]>, Option<f64>, Option<bool>, i64, bool);

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("key", DataType::FixedSizeBinary(200), true),
        Field::new("x", DataType::Float64, true),
        Field::new("is_open", DataType::Boolean, true),
        Field::new("n", DataType::Int64, false),
        Field::new("is_new", DataType::Boolean, false),
    ]))
}

/// Stretches of a thousand seconds have nulls in all columns, or in none.
fn row(time: i64, round: i64) -> Row {
    let mut key = [round.to_le_bytes()[0]; 200];
    key[..8].copy_from_slice(&time.to_le_bytes());
    let is_null = |every: i64| time.div_euclid(1000) % 2 == 0 && time.rem_euclid(every) == 0;
    (
        (!is_null(7)).then_some(key),
        (!is_null(5)).then_some(time as f64 / 3.0),
        (!is_null(3)).then_some(time % 2 == 0),
        time * 10 + round,
        round > 0,
    )
}

fn batch(rows: &[(i64, Row)]) -> RecordBatch {
    let keys = rows.iter().map(|(_, row)| row.0);
    let keys = FixedSizeBinaryArray::try_from_sparse_iter_with_size(keys, 200).expect("of one width");
    let times = rows.iter().map(|(time, _)| *time);
    RecordBatch::try_new(
        columns(),
        vec![
            Arc::new(TimestampSecondArray::from_iter_values(times)),
            Arc::new(keys),
            Arc::new(rows.iter().map(|(_, row)| row.1).collect::<Float64Array>()),
            Arc::new(rows.iter().map(|(_, row)| row.2).collect::<BooleanArray>()),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, row)| row.3))),
            Arc::new(rows.iter().map(|(_, row)| Some(row.4)).collect::<BooleanArray>()),
        ],
    )
    .expect("of one length")
}

fn rows_of(batch: &RecordBatch) -> Vec<(i64, Row)> {
    let times = batch.column(0).as_primitive::<TimestampSecondType>();
    let keys = batch.column(1).as_fixed_size_binary();
    let xs = batch.column(2).as_primitive::<Float64Type>();
    let open = batch.column(3).as_boolean();
    let ns = batch.column(4).as_primitive::<Int64Type>();
    let new = batch.column(5).as_boolean();
    (0..batch.num_rows())
        .map(|n| {
            let key = keys
                .is_valid(n)
                .then(|| keys.value(n).try_into().expect("200 bytes"));
            let x = xs.is_valid(n).then(|| xs.value(n));
            let is_open = open.is_valid(n).then(|| open.value(n));
            (times.value(n), (key, x, is_open, ns.value(n), new.value(n)))
        })
        .collect()
}

fn read(scan: Scan) -> Vec<(i64, Row)> {
    let mut rows = Vec::new();
    for batch in scan {
        let batch = batch.expect("reads");
        for column in batch.columns() {
            column.to_data().validate_full().expect("a sound array");
        }
        rows.extend(rows_of(&batch));
    }
    rows
}

struct Case {
    store: Store,
    table: Table,
    model: BTreeMap<i64, Row>,
}

impl Case {
    fn open(path: &std::path::Path, cache_bytes: usize) -> (Store, Table) {
        let options = Options::new()
            .create(true)
            .background(false)
            .cache_bytes(cache_bytes);
        let store = options.open(path).expect("opens");
        let table = store.table("t").or_else(|_| {
            let layout = Layout::Sparse(Grid::every(1)?);
            store.create_table_as("t", TableSchema::new(columns(), "at")?, layout)
        });
        let table = table.expect("there or fresh");
        (store, table)
    }

    fn write(&mut self, times: impl Iterator<Item = i64>, round: i64) {
        let rows: Vec<(i64, Row)> = times.map(|time| (time, row(time, round))).collect();
        self.table.append(&batch(&rows)).expect("appends");
        self.model.extend(rows);
    }

    /// Ranges of `len` seconds here and there, in both directions, answer like the model.
    fn check(&self, rng: &mut Rng, len: i64, count: usize, what: &str) {
        for number in 0..count {
            let from = i64::try_from(rng.index(14_000)).expect("small") - 3_000;
            let to = from + len;
            let expected = || self.model.range(from..to).map(|(&time, &row)| (time, row));
            let forwards: Vec<(i64, Row)> = expected().collect();
            let scan = || self.table.range(from..to).expect("there");
            assert!(read(scan()) == forwards, "{what}: from {from}, {len} seconds");
            let backwards: Vec<(i64, Row)> = expected().rev().collect();
            assert!(
                read(scan().rev()) == backwards,
                "{what}: from {from}, {len} seconds, in reverse"
            );
            assert_eq!(scan().count().expect("reads"), forwards.len() as u64, "{what}");
            let limit = 1 + usize::try_from(len / 3).expect("small");
            let few: Vec<(i64, Row)> = backwards.iter().take(limit).copied().collect();
            assert!(
                read(scan().rev().limit(limit as u64)) == few,
                "{what}: from {from}, {limit} of {len} seconds"
            );
            // Two columns, in another order than they stand in blocks.
            let some = scan().columns(&["n", "key"]).expect("there");
            let ns: Vec<i64> = some
                .flat_map(|batch| {
                    let batch = batch.expect("reads");
                    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
                })
                .collect();
            assert!(
                ns.iter().copied().eq(forwards.iter().map(|(_, row)| row.3)),
                "{what}: {number}"
            );
        }
    }
}

#[test]
fn ranges_of_any_length_answer_like_the_model() {
    const LENGTHS: [(i64, usize); 9] = [
        (1, 40),
        (2, 20),
        (8, 40),
        (40, 20),
        (64, 40),
        (200, 20),
        (512, 20),
        (3000, 6),
        (12_000, 3),
    ];
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let (store, table) = Case::open(&path, 64 << 20);
    let mut case = Case {
        store,
        table,
        model: BTreeMap::new(),
    };
    let mut rng = Rng::new(9);
    let mut check = |case: &Case, what: &str| {
        for (len, count) in LENGTHS {
            case.check(&mut rng, len, count, what);
        }
    };
    // Full blocks, then every other second, then a few rows far apart; blocks are missing in
    // between.
    case.write(-2000..4000, 0);
    case.write((4500..7000).step_by(2), 0);
    case.write((7000..11_000).step_by(97), 0);
    case.store.flush().expect("flushes");
    check(&case, "from blocks");
    // Rows and blocks that are newer than the last checkpoint.
    case.write((-100..9000).step_by(371), 1);
    case.write(1000..1700, 2);
    case.write(std::iter::once(1500), 3);
    check(&case, "with rows of heads");
    case.table.delete_range(1200..1250).expect("deletes");
    case.table.delete_range(4600..4900).expect("deletes");
    for time in (1200..1250).chain(4600..4900) {
        case.model.remove(&time);
    }
    check(&case, "with deletions");
    case.store.flush().expect("flushes");
    check(&case, "after a flush");
    // Nothing is in memory, and hardly anything stays there.
    for cache_bytes in [1 << 20, 64 << 20] {
        let Case { store, table, model } = case;
        drop(table);
        store.close().expect("closes");
        let (store, table) = Case::open(&path, cache_bytes);
        case = Case { store, table, model };
        check(&case, "after opening");
    }
    assert_eq!(case.store.verify().expect("reads").problems, []);
}
