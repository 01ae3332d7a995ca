//! Counts the cost of one operation, however large the table is.

use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::{Grid, Layout, Metrics, Options, Store, Table, TableSchema, Value};

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("x", DataType::Float64, false),
    ]))
}

fn batch(times: impl Iterator<Item = i64>) -> RecordBatch {
    let times: Vec<i64> = times.collect();
    let values = times.iter().map(|&time| time as f64 / 7.0);
    let values = Float64Array::from_iter_values(values);
    RecordBatch::try_new(
        columns(),
        vec![Arc::new(TimestampSecondArray::from(times)), Arc::new(values)],
    )
    .expect("fits")
}

fn open(path: &std::path::Path) -> (Store, Table) {
    let store = Options::new()
        .create(true)
        .background(false)
        .open(path)
        .expect("opens");
    let table = store.table("t").or_else(|_| {
        let schema = TableSchema::new(columns(), "at")?;
        store.create_table_as("t", schema, Layout::Sparse(Grid::every(1)?))
    });
    let table = table.expect("there or fresh");
    (store, table)
}

fn since(store: &Store, before: Metrics) -> (u64, u64, u64) {
    let now = store.metrics();
    (
        now.page_reads - before.page_reads,
        now.block_reads - before.block_reads,
        now.block_writes - before.block_writes,
    )
}

/// A table over so many seconds, with a stretch of rows every now and then: its files, and so the
/// pages of their maps, are those of a table with as many rows.
fn fill(path: &std::path::Path, seconds: i64) -> i64 {
    const STRETCH: i64 = 100;
    let (store, table) = open(path);
    let step = (seconds / 400).max(STRETCH);
    for from in (0..seconds).step_by(usize::try_from(step).expect("positive")) {
        table.append(&batch(from..from + STRETCH)).expect("appends");
    }
    store.close().expect("closes");
    step
}

#[test]
fn an_operation_touches_one_block_and_one_page_of_metadata_in_tables_of_any_size() {
    let mut largest = Vec::new();
    for seconds in [100_000, 1_000_000, 10_000_000, 100_000_000] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("store");
        let step = fill(&path, seconds);
        let (mut reads, mut writes) = ((0, 0), (0, 0));
        let places = [0, seconds / step / 3, seconds / step - 1].map(|n| n * step);
        for time in places {
            // Nothing is in the cache of a store that was just opened, but which files there are.
            let (store, table) = open(&path);
            let before = store.metrics();
            let row = table.get(time + 7).expect("reads").expect("there");
            assert_eq!(row.value(1), Some(Value::Float((time + 7) as f64 / 7.0)));
            let (pages, blocks, _) = since(&store, before);
            reads = (reads.0.max(pages), reads.1.max(blocks));
            // Where there is no row, no block is read.
            let before = store.metrics();
            assert!(table.get(-time - 1).expect("reads").is_none());
            assert_eq!(since(&store, before).1, 0);

            // A new row, one written over, one that goes: each is one block written, once it is
            // flushed.
            for change in 0..3 {
                match change {
                    0 => drop(
                        table
                            .append(&batch(std::iter::once(time + 100 + 13)))
                            .expect("appends"),
                    ),
                    1 => drop(table.append(&batch(std::iter::once(time + 8))).expect("appends")),
                    _ => table.delete_range(time + 9..=time + 9).expect("deletes"),
                }
                let before = store.metrics();
                store.flush().expect("flushes");
                let (_, blocks, written) = since(&store, before);
                writes = (writes.0.max(blocks), writes.1.max(written));
            }
        }
        assert_eq!(reads, (1, 1), "with {seconds} rows");
        // The block that is read to be changed may be in the cache.
        assert!(writes.0 <= 1 && writes.1 == 1, "{writes:?} with {seconds} rows");
        let (store, _) = open(&path);
        let density = store.info().expect("reads").tables[0].density.expect("sparse");
        largest.push(density.blocks);
        assert_eq!(store.verify().expect("reads").problems, []);
    }
    assert!(largest.is_sorted(), "{largest:?}");
}

#[test]
fn threads_that_begin_a_file_together_share_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, table) = open(&dir.path().join("store"));
    for round in 0..40 {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = table.clone();
                let from = 3_000_000 * round + 5_000 * thread;
                scope.spawn(move || table.append(&batch(from..from + 5_000)).expect("appends"));
            }
        });
    }
    let rows = table.range(..).expect("there").count().expect("reads");
    assert_eq!(rows, 40 * 4 * 5_000);
    assert_eq!(store.verify().expect("reads").problems, []);
}

#[test]
fn ranges_are_read_in_long_requests_and_holes_are_not_read() {
    const ROWS: i64 = 400_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    {
        let (store, table) = open(&path);
        for from in (0..ROWS).step_by(50_000) {
            table.append(&batch(from..from + 50_000)).expect("appends");
        }
        // Far away, with nothing in between.
        table
            .append(&batch(4_000_000_000..4_000_000_100))
            .expect("appends");
        store.close().expect("closes");
    }
    let (store, table) = open(&path);
    let density = store.info().expect("reads").tables[0].density.expect("sparse");
    let before = store.metrics();
    let mut rows = 0;
    for batch in table.range(0..).expect("there") {
        rows += batch.expect("reads").num_rows();
    }
    assert_eq!(rows, 400_100);
    let (pages, calls, _) = since(&store, before);
    assert!(density.blocks > 150, "{density:?}");
    // A batch of 8,192 rows reads ahead to its own end at most, and never what is not there.
    assert!(calls < 110, "{calls} calls for {} blocks", density.blocks);
    assert!(pages <= 3, "{pages} pages of the map");
    let before = store.metrics();
    assert_eq!(
        table
            .range(410_000..3_999_990_000)
            .expect("there")
            .count()
            .expect("reads"),
        0
    );
    assert_eq!(since(&store, before).1, 0, "a hole is not read");
}

#[test]
fn a_range_of_one_row_takes_a_piece_of_memory_for_each_array_and_three_more() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, table) = open(&dir.path().join("store"));
    table.append(&batch(0..20_000)).expect("appends");
    store.flush().expect("flushes");
    let read = || {
        let mut scan = table.range(12_345..12_346).expect("there");
        scan.next().expect("a row").expect("reads")
    };
    assert_eq!(read(), batch(12_345..12_346), "now it is in the cache");
    let read = allocation_counter::measure(|| drop(read()));
    // The values of all columns, who shares them, and the list of the arrays.
    assert_eq!(read.count_total, 2 + 3, "{read:?}");
}

#[test]
fn what_was_read_ahead_serves_all_batches_of_a_scan() {
    const ROWS: i64 = 100_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    {
        let (store, table) = open(&path);
        table.append(&batch(0..ROWS)).expect("appends");
        store.close().expect("closes");
    }
    // Nothing that is read stays in a cache of this length.
    let store = Options::new().cache_bytes(0).background(false).open(&path);
    let store = store.expect("opens");
    let table = store.table("t").expect("there");
    let blocks = store.info().expect("reads").tables[0]
        .density
        .expect("sparse")
        .blocks;
    for reverse in [false, true] {
        let before = store.metrics();
        let scan = table.range(..).expect("there");
        let scan = if reverse { scan.rev() } else { scan };
        let batches: Vec<RecordBatch> = scan.collect::<Result<_, _>>().expect("reads");
        let (_, calls, _) = since(&store, before);
        assert!(batches.len() > 12, "{} batches", batches.len());
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 100_000);
        assert!(calls <= 4, "{calls} calls for {blocks} blocks");
    }
}

#[test]
fn rows_that_a_batch_did_not_expect_join_those_of_a_block() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, table) = open(&dir.path().join("store"));
    table.append(&batch(0..3)).expect("appends");
    store.flush().expect("flushes");
    // As many rows as the table had at the last flush are expected.
    for end in 3..9 {
        let found: Vec<RecordBatch> = table
            .range(0..end)
            .expect("there")
            .collect::<Result<_, _>>()
            .expect("reads");
        assert_eq!(found, [batch(0..end)]);
        let last = table.range(end - 1..end).expect("there").next().expect("a batch");
        assert_eq!(last.expect("reads"), batch(end - 1..end));
        table.append(&batch(std::iter::once(end))).expect("appends");
    }
}

#[test]
fn blocks_left_empty_give_their_space_back() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let (store, table) = open(&path);
    table.append(&batch(0..500_000)).expect("appends");
    store.flush().expect("flushes");
    let bytes = |store: &Store| {
        store.info().expect("reads").tables[0]
            .density
            .expect("sparse")
            .disk_bytes
    };
    let full = bytes(&store);
    // Deleted rows are still there for older snapshots.
    let snapshot = store.snapshot();
    table.delete_range(0..400_000).expect("deletes");
    let before = store.metrics();
    store.flush().expect("flushes");
    let (_, reads, written) = since(&store, before);
    assert!(
        reads <= 1 && written <= 1,
        "blocks that go as a whole are not looked at: {reads}, {written}"
    );
    assert_eq!(
        snapshot.range("t", ..).expect("there").count().expect("reads"),
        500_000
    );
    let held = bytes(&store);
    assert!(
        // The file system may take a block for itself.
        held >= full && held - full <= 24 << 10,
        "one block is written anew: {held}, {full}"
    );
    drop(snapshot);
    table.append(&batch(600_000..600_001)).expect("appends");
    store.flush().expect("flushes");
    assert!(
        bytes(&store) < full / 3,
        "{} of {full} bytes are left",
        bytes(&store)
    );
    // The last rows of all: the files go, too.
    table.delete_range(..).expect("deletes");
    store.flush().expect("flushes");
    assert_eq!(bytes(&store), 0);
    assert_eq!(table.range(..).expect("there").count().expect("reads"), 0);
    assert_eq!(store.verify().expect("reads").problems, []);
    store.drop_table("t").expect("drops");
}
