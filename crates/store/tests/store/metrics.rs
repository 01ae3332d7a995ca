//! The counts of a store.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Options, TableSchema};

fn batch(times: std::ops::Range<i64>) -> RecordBatch {
    let fields = vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("n", DataType::Int64, false),
    ];
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        vec![
            Arc::new(TimestampSecondArray::from_iter_values(times.clone())),
            Arc::new(Int64Array::from_iter_values(times)),
        ],
    )
    .expect("columns of one length")
}

#[test]
fn each_commit_flush_and_read_is_counted() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options::new().create(true).background(false);
    let store = options.open(dir.path().join("s")).expect("creates");
    let schema = TableSchema::new(batch(0..0).schema(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    let begun = store.metrics();
    assert_eq!((begun.commits, begun.rows, begun.head_bytes), (0, 0, 0));

    for part in 0..5 {
        table
            .append(&batch(part * 1000..(part + 1) * 1000))
            .expect("appends");
    }
    table.delete_range(..10).expect("deletes");
    let refused = batch(0..10).project(&[0]).expect("a column");
    table.append(&refused).expect_err("a column is missing");
    let appended = store.metrics();
    assert_eq!((appended.commits, appended.rows), (6, 5000));
    assert_eq!(
        appended.log_syncs - begun.log_syncs,
        6,
        "each commit waits for its own"
    );
    assert!(appended.log_bytes - begun.log_bytes > 5000 * 16);
    assert!(appended.head_bytes >= 5000 * 16);
    assert_eq!(appended.flushes, begun.flushes);

    store.flush().expect("flushes");
    let flushed = store.metrics();
    assert_eq!((flushed.flushes - begun.flushes, flushed.head_bytes), (1, 0));
    assert!(flushed.flush_time >= flushed.flush_longest && !flushed.flush_longest.is_zero());
    assert!(flushed.page_bytes_written > appended.page_bytes_written);

    let read = || {
        table
            .range(100..200)
            .expect("there")
            .for_each(|batch| drop(batch.expect("reads")))
    };
    read();
    let cold = store.metrics();
    read();
    let warm = store.metrics();
    assert!(cold.cache_bytes > 0);
    assert!(warm.cache_hits > cold.cache_hits);
    assert_eq!(
        (warm.cache_misses, warm.page_reads),
        (cold.cache_misses, cold.page_reads)
    );
}

/// Where rows go is decided by the order in which they arrive.
#[test]
fn each_row_is_counted_where_it_was_flushed_to() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options::new().create(true).background(false).head_bytes(1 << 20);
    let store = options.open(dir.path().join("s")).expect("creates");
    let schema = TableSchema::new(batch(0..0).schema(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    let append = |times| table.append(&batch(times)).expect("appends");
    let counted = || {
        let counts = store.metrics();
        (counts.rows_right_edge, counts.rows_root, counts.rows_held_back)
    };

    append(1000..2000);
    store.flush().expect("flushes");
    assert_eq!(counted(), (1000, 0, 0), "in order");
    append(500..700);
    append(2000..2300);
    store.flush().expect("flushes");
    assert_eq!(counted(), (1300, 200, 0), "some are below the last");

    let mut rows = 1500;
    while counted().2 == 0 {
        let next = 10_000 + i64::try_from(rows).expect("few");
        append(next..next + 1000);
        append(next - 100..next);
        rows += 1100;
        assert!(rows < 1_000_000, "no row was held back");
    }
    // Late among those.
    let latest = store.info().expect("reads").tables[0].last.expect("some");
    append(latest - 20..latest);
    rows += 20;
    store.flush().expect("flushes");
    let (right_edge, root, _) = counted();
    assert_eq!(
        right_edge + root,
        rows,
        "rows that were held back are flushed once"
    );
    let order = store.info().expect("reads").tables[0]
        .order
        .expect("of a table that is indexed");
    assert_eq!(
        (order.total.rows, order.total.overlapping),
        (rows, root),
        "and observed once, below the rows that were in pages then"
    );
}

/// A scan that ends early opens none of the runs behind the rows it gives.
#[test]
fn the_newest_rows_are_read_from_the_newest_run_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options::new().create(true).background(false);
    let store = options.open(dir.path().join("s")).expect("creates");
    let schema = TableSchema::new(batch(0..0).schema(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    let pages_of = |rows: u64, reverse: bool| {
        let before = store.metrics();
        let scan = table.range(..).expect("there").limit(rows);
        let scan = if reverse { scan.rev() } else { scan };
        let found: usize = scan.map(|batch| batch.expect("reads").num_rows()).sum();
        assert_eq!(found as u64, rows);
        let after = store.metrics();
        after.cache_hits + after.cache_misses - before.cache_hits - before.cache_misses
    };
    table.append(&batch(0..1000)).expect("appends");
    store.flush().expect("flushes");
    let of_one_run = pages_of(100, true);
    for part in 1..6 {
        let rows = part * 1000..(part + 1) * 1000;
        table.append(&batch(rows)).expect("appends");
        store.flush().expect("flushes");
    }
    assert_eq!(pages_of(100, true), of_one_run);
    assert_eq!(pages_of(100, false), of_one_run);
    assert!(
        pages_of(6000, true) > of_one_run,
        "the others are runs of their own"
    );
}
