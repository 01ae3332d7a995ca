//! The paper's row: eight columns of 32 bytes, each of which follows from time and column, so that
//! it proves itself. And rows that are wider than a block is meant to be.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::{Grid, Layout, Options, Store, Table, TableSchema, Value};
use proptest::prelude::*;

/// Columns of so many bytes each.
fn columns(widths: &[i32]) -> SchemaRef {
    let time = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    let value = |(number, &width): (usize, &i32)| {
        Field::new(format!("c{number}"), DataType::FixedSizeBinary(width), false)
    };
    let values = widths.iter().enumerate().map(value);
    Arc::new(Schema::new(
        std::iter::once(time).chain(values).collect::<Vec<_>>(),
    ))
}

/// Bytes that follow from a time and a column.
fn proof(time: i64, column: usize, width: i32) -> Vec<u8> {
    let mut state = time.cast_unsigned() ^ (column as u64) << 56;
    let next = || {
        // SplitMix64 (Steele, Lea, Flood 2014).
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    };
    let mut bytes: Vec<u8> = std::iter::repeat_with(next)
        .take(width.unsigned_abs() as usize / 8 + 1)
        .flatten()
        .collect();
    bytes.truncate(width.unsigned_abs() as usize);
    bytes
}

fn batch(widths: &[i32], times: &[i64]) -> RecordBatch {
    let column = |(column, &width): (usize, &i32)| -> ArrayRef {
        let values = times.iter().map(|&time| proof(time, column, width));
        Arc::new(FixedSizeBinaryArray::try_from_iter(values).expect("of one width"))
    };
    let time: ArrayRef = Arc::new(TimestampSecondArray::from(times.to_vec()));
    let values = widths.iter().enumerate().map(column);
    RecordBatch::try_new(columns(widths), std::iter::once(time).chain(values).collect())
        .expect("of one length")
}

fn open(path: &std::path::Path) -> Store {
    Options::new()
        .create(true)
        .background(false)
        .head_bytes(256 << 10)
        .open(path)
        .expect("opens")
}

/// Times of the rows of a table, each of which proves itself.
fn times_of(table: &Table, widths: &[i32]) -> Vec<i64> {
    let mut times = Vec::new();
    for found in table.range(..).expect("there") {
        let found = found.expect("reads");
        let these = found.column(0).to_data().buffers()[0].typed_data::<i64>()[..found.num_rows()].to_vec();
        for (column, &width) in widths.iter().enumerate() {
            let values = found.column(column + 1).as_fixed_size_binary();
            for (row, &time) in these.iter().enumerate() {
                assert_eq!(
                    values.value(row),
                    proof(time, column, width),
                    "time {time}, column {column}"
                );
            }
        }
        times.extend(these);
    }
    times
}

fn round_trip(widths: &[i32], rows: i64) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let schema = || TableSchema::new(columns(widths), "at").expect("storable");
    let store = open(&path);
    let table = store
        .create_table_as("t", schema(), Layout::Sparse(Grid::every(1).expect("positive")))
        .expect("fresh");
    // Before 1970, over it, and again what was deleted.
    let all: Vec<i64> = (-rows / 2..rows / 2).collect();
    for part in all.chunks(40) {
        table.append(&batch(widths, part)).expect("appends");
    }
    table.delete_range(-5..5).expect("deletes");
    store.flush().expect("flushes");
    table.append(&batch(widths, &[3, -2])).expect("appends");
    drop((table, store));
    let expected: Vec<i64> = all
        .into_iter()
        .filter(|time| !(-5..5).contains(time) || [3, -2].contains(time))
        .collect();
    for _ in 0..2 {
        let store = open(&path);
        let table = store.table("t").expect("there");
        assert_eq!(times_of(&table, widths), expected);
        let row = table.get(3).expect("reads").expect("there");
        assert_eq!(row.value(1), Some(Value::Bytes(&proof(3, 0, widths[0]))));
        assert!(table.get(4).expect("reads").is_none());
        assert_eq!(store.verify().expect("reads").problems, []);
        store.close().expect("closes");
    }
}

#[test]
fn rows_of_the_paper_are_read_as_written() {
    round_trip(&[32; 8], 1200);
}

#[test]
fn rows_wider_than_a_block_have_one_each() {
    // 40 KiB a row, in blocks that are meant to have 16.
    round_trip(&[4096; 10], 30);
}

#[test]
fn dense_rows_take_no_more_space_than_their_bytes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let schema = TableSchema::new(columns(&[32; 8]), "at").expect("storable");
    let grid = Grid::every(1).expect("positive");
    let table = store
        .create_table_as("t", schema, Layout::Sparse(grid))
        .expect("fresh");
    let times: Vec<i64> = (946_684_800..946_684_800 + 20_000).collect();
    for part in times.chunks(1000) {
        table.append(&batch(&[32; 8], part)).expect("appends");
    }
    store.flush().expect("flushes");
    let info = store.info().expect("reads");
    let density = info.tables[0].density.expect("sparse");
    assert_eq!(density.payload_bytes, 20_000 * 264);
    let ratio = density.disk_bytes as f64 / density.payload_bytes as f64;
    assert!(ratio <= 1.05, "{ratio}: {density:?}");
    assert!(!density.advises_indexed());
}

#[test]
fn a_batch_of_a_scan_has_as_many_bytes_whatever_the_width_of_its_rows() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let widths = [32; 8];
    let schema = TableSchema::new(columns(&widths), "at").expect("storable");
    let layout = Layout::Sparse(Grid::every(1).expect("positive"));
    let table = store.create_table_as("t", schema, layout).expect("fresh");
    let times: Vec<i64> = (0..20_000).collect();
    table.append(&batch(&widths, &times)).expect("appends");
    let lengths = |columns: &[&str]| -> Vec<usize> {
        let scan = table.range(..).expect("there").columns(columns);
        let batches = scan.expect("known columns");
        batches.map(|batch| batch.expect("reads").num_rows()).collect()
    };
    let all: Vec<String> = (0..8).map(|column| format!("c{column}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(lengths(&all)[..2], [2048, 2048]);
    assert_eq!(lengths(&all[..1])[..2], [8192, 8192]);
    for columns in [&all[..], &all[..4], &all[..1], &[]] {
        assert_eq!(lengths(columns).iter().sum::<usize>(), times.len());
    }
}

/// 4 MiB of blocks and more go past the system's cache; here they follow a batch that went through
/// it, into the same file.
#[test]
fn a_very_long_batch_is_read_back_beside_a_short_one() {
    const WIDTHS: [i32; 2] = [2048; 2];
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = open(&path);
    let schema = TableSchema::new(columns(&WIDTHS), "at").expect("storable");
    let layout = Layout::Sparse(Grid::every(1).expect("positive"));
    let table = store.create_table_as("t", schema, layout).expect("fresh");
    let times: Vec<i64> = (0..10_003).collect();
    for part in [&times[..500], &times[500..9600], &times[9600..]] {
        table.append(&batch(&WIDTHS, part)).expect("appends");
    }
    assert_eq!(times_of(&table, &WIDTHS), times);
    drop((table, store));
    let store = open(&path);
    assert_eq!(times_of(&store.table("t").expect("there"), &WIDTHS), times);
    assert_eq!(store.verify().expect("reads").problems, []);
}

/// An operation on a table of nullable columns.
#[derive(Debug, Clone)]
enum Change {
    /// Rows of some times from one on, each so many apart; every column is null in some.
    Write {
        from: i64,
        step: i64,
        rows: i64,
    },
    Delete {
        from: i64,
        len: i64,
    },
    Flush,
    Reopen,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (-400..400i64, 1..4i64, 1..120i64).prop_map(|(from, step, rows)| Change::Write { from, step, rows }),
        2 => (-400..700i64, 1..150i64).prop_map(|(from, len)| Change::Delete { from, len }),
        1 => Just(Change::Flush),
        1 => Just(Change::Reopen),
    ]
}

/// The value of a column in the `round`th writing of a time; some have none.
fn value(time: i64, column: usize, width: i32, round: i64) -> Option<Vec<u8>> {
    let is_null = (time + round + i64::try_from(column).expect("few")).rem_euclid(5) == 0;
    (!is_null).then(|| proof(time ^ round << 32, column, width))
}

/// Does the changes to a table and to a map, and compares the two after each that reads.
fn like_the_model(widths: &[i32], changes: &[Change]) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let fields = columns(widths).fields().clone();
    let nullable = |field: &Arc<Field>| Field::clone(field).with_nullable(field.name() != "at");
    let arrow = Arc::new(Schema::new(fields.iter().map(nullable).collect::<Vec<_>>()));
    let schema = TableSchema::new(arrow.clone(), "at").expect("storable");
    let layout = Layout::Sparse(Grid::every(1).expect("positive"));
    let mut store = open(&path);
    store.create_table_as("t", schema, layout).expect("fresh");
    // The round in which the row of a time was written last.
    let mut model: BTreeMap<i64, i64> = BTreeMap::new();
    for (round, change) in (0..).zip(changes) {
        let table = store.table("t").expect("there");
        match *change {
            Change::Write { from, step, rows } => {
                let times: Vec<i64> = (0..rows).map(|row| from + row * step).collect();
                let column = |(column, &width): (usize, &i32)| -> ArrayRef {
                    let values = times.iter().map(|&time| value(time, column, width, round));
                    Arc::new(
                        FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, width)
                            .expect("of one width"),
                    )
                };
                let at: ArrayRef = Arc::new(TimestampSecondArray::from(times.clone()));
                let arrays = std::iter::once(at).chain(widths.iter().enumerate().map(column));
                let batch = RecordBatch::try_new(arrow.clone(), arrays.collect()).expect("of one length");
                table.append(&batch).expect("appends");
                model.extend(times.iter().map(|&time| (time, round)));
            }
            Change::Delete { from, len } => {
                table.delete_range(from..from + len).expect("deletes");
                model.retain(|time, _| !(from..from + len).contains(time));
            }
            Change::Flush => store.flush().expect("flushes"),
            Change::Reopen => {
                drop((table, store));
                store = open(&path);
            }
        }
        let table = store.table("t").expect("there");
        let mut expected = model.iter();
        for found in table.range(..).expect("there") {
            let found = found.expect("reads");
            let times = found.column(0).to_data();
            for (row, &time) in times.buffers()[0].typed_data::<i64>()[..found.num_rows()]
                .iter()
                .enumerate()
            {
                let next = expected.next();
                prop_assert_eq!(next.map(|(time, _)| *time), Some(time));
                let round = next.map_or(0, |(_, round)| *round);
                for (column, &width) in widths.iter().enumerate() {
                    let values = found.column(column + 1).as_fixed_size_binary();
                    let value_there = (!values.is_null(row)).then(|| values.value(row).to_vec());
                    prop_assert_eq!(
                        value_there,
                        value(time, column, width, round),
                        "time {}, column {}",
                        time,
                        column
                    );
                }
            }
        }
        prop_assert_eq!(expected.next(), None);
        for time in [-400, -1, 0, 1, 399] {
            let row = table.get(time).expect("reads");
            let there = row
                .as_ref()
                .map(|row| row.value(1).map(|value| format!("{value:?}")));
            let wanted = model.get(&time).map(|&round| {
                value(time, 0, widths[0], round).map(|bytes| format!("{:?}", Value::Bytes(&bytes)))
            });
            prop_assert_eq!(there, wanted, "the row of {}", time);
        }
    }
    prop_assert_eq!(store.verify().expect("reads").problems, []);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn rows_of_the_paper_answer_like_the_model(changes in prop::collection::vec(change(), 1..24)) {
        like_the_model(&[32; 8], &changes)?;
    }

    #[test]
    fn rows_wider_than_a_block_answer_like_the_model(changes in prop::collection::vec(change(), 1..6)) {
        like_the_model(&[4096; 5], &changes)?;
    }
}
