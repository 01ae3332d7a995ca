//! The memory that work takes on all threads together, by a count of every allocation. One test, as
//! another one beside it would count, too.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Durability, Options, TableSchema};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

#[test]
fn a_long_batch_takes_no_more_memory_than_there_is_for_rows() {
    const ROWS: i64 = 400_000;
    let columns = Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("number", DataType::Int64, false),
        Field::new("text", DataType::Utf8, true),
    ]));
    let options = Options::new()
        .create(true)
        .page_bytes(4096)
        .head_bytes(1 << 20)
        .cache_bytes(1 << 20)
        .background(false)
        .durability(Durability::Relaxed);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = options.open(dir.path().join("store")).expect("creates");
    let schema = TableSchema::new(columns.clone(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    let rows = RecordBatch::try_new(
        columns,
        vec![
            Arc::new(TimestampSecondArray::from_iter_values(0..ROWS)),
            Arc::new(Int64Array::from_iter_values(0..ROWS)),
            Arc::new(StringArray::from_iter_values(
                (0..ROWS).map(|row| format!("row {row}")),
            )),
        ],
    );
    let rows = rows.expect("columns of one length");
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    table.append(&rows).expect("appends");
    let most = ALLOCATED.peak_usage() - before;
    println!("{most} bytes at once");
    // As rows in memory, with their index, they take more than 30 MB; and again in the log.
    assert!(most < 8 << 20, "{most} bytes at once");
    let mut next = 0;
    for read in table.range(..).expect("there") {
        let read = read.expect("reads");
        assert_eq!(read, rows.slice(next, read.num_rows()));
        next += read.num_rows();
    }
    assert_eq!(next, rows.num_rows());
    assert_eq!(store.verify().expect("reads").problems, []);
}
