//! The paper's row: eight columns of 32 bytes, each of which follows from time and column, so that it proves itself.
//! And rows that are wider than a block is meant to be.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::{Grid, Layout, Options, Store, Table, TableSchema, Value};

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
fn rows_of_the_paper_prove_themselves() {
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
