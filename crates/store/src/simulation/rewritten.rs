//! Blocks that a flush writes over: the disk is asked for the old ones before they are read, and
//! the new ones stay in memory.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use super::workload::{open, options};
use crate::disk::sim::SimDisk;
use crate::rows::TableSchema;
use crate::store::Store;
use crate::table::{Grid, Layout};

const ROWS: i64 = 4000;

/// Rows of some times, with another column that says when they were written.
pub(super) fn batch(times: impl Iterator<Item = i64>, written: i64) -> RecordBatch {
    let times: Vec<i64> = times.collect();
    let written = TimestampSecondArray::from(vec![written; times.len()]);
    let field = |name: &str| Field::new(name, DataType::Timestamp(TimeUnit::Second, None), false);
    let schema = Schema::new(vec![field("at"), field("written")]);
    let columns: Vec<ArrayRef> = vec![Arc::new(TimestampSecondArray::from(times)), Arc::new(written)];
    RecordBatch::try_new(Arc::new(schema), columns).expect("of one length")
}

/// A store that has just been opened, so that it has nothing in memory; its table has rows of all
/// times, in so many blocks.
fn reopened() -> (SimDisk, Store, u64) {
    let disk = SimDisk::new(1);
    let store = open(&disk, options()).expect("creates");
    let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
    let layout = Layout::Sparse(Grid::every(1).expect("positive"));
    let table = store.create_table_as("t", schema, layout).expect("fresh");
    table.append(&batch(0..ROWS, 0)).expect("a sound disk");
    drop(table);
    store.flush().expect("a sound disk");
    let density = store.info().expect("reads").tables[0].density;
    store.close().expect("a sound disk");
    let store = open(&disk, options()).expect("opens");
    (disk, store, density.expect("sparse").blocks)
}

/// Few times, of which at least one is in each block: a block has room for no fewer rows than there
/// are in one on average.
fn in_each(blocks: u64) -> impl Iterator<Item = i64> {
    (0..ROWS).step_by(usize::try_from(ROWS.unsigned_abs() / blocks).expect("few"))
}

/// Writes rows of some times over, each in a batch of its own, and flushes them. Returns the
/// requests to fetch ahead, and how often blocks were read, by the flush.
fn write_over(
    disk: &SimDisk,
    store: &Store,
    times: impl Iterator<Item = i64>,
    written: i64,
) -> (Vec<u64>, u64) {
    let table = store.table("t").expect("there");
    for time in times {
        let appended = table.append(&batch(time..time + 1, written));
        appended.expect("a sound disk");
    }
    disk.take_read_ahead();
    let before = store.metrics().block_reads;
    store.flush().expect("a sound disk");
    (disk.take_read_ahead(), store.metrics().block_reads - before)
}

#[test]
fn old_blocks_are_asked_for_ahead_neighbours_together() {
    let (disk, store, blocks) = reopened();
    let is_of_blocks = |name: &std::path::Path| name.extension().is_some_and(|found| found == "blocks");
    let files = disk.files().iter().filter(|(name, _)| is_of_blocks(name)).count();
    assert!(
        files > 2 && blocks > 2 * files as u64,
        "{blocks} blocks in {files} files"
    );
    let (ahead, reads) = write_over(&disk, &store, in_each(blocks), 1);
    assert_eq!(ahead.len(), files, "the blocks of a file stand side by side");
    assert_eq!(reads, blocks);
    let block_bytes = ahead.iter().sum::<u64>() / blocks;
    assert_eq!(ahead.iter().sum::<u64>(), blocks * block_bytes);
    drop(store);

    let (disk, store, _) = reopened();
    let apart = [0, ROWS / 4, ROWS / 2];
    let (ahead, reads) = write_over(&disk, &store, apart.into_iter(), 1);
    assert_eq!(ahead, [block_bytes; 3]);
    assert_eq!(reads, 3);
}

#[test]
fn new_blocks_stay_in_memory() {
    let (disk, store, blocks) = reopened();
    let times = || in_each(blocks);
    write_over(&disk, &store, times(), 1);
    let before = store.metrics().block_reads;
    let table = store.table("t").expect("there");
    let rows: usize = table
        .range(..)
        .expect("there")
        .map(|batch| batch.expect("reads").num_rows())
        .sum();
    assert_eq!(rows, usize::try_from(ROWS).expect("few"));
    assert_eq!(store.metrics().block_reads, before);
    assert_eq!(write_over(&disk, &store, times(), 2), (Vec::new(), 0));
}
