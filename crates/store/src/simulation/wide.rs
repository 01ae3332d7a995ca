//! Sparse tables whose rows are so wide that a block has one, or none.

use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::workload::{open, options};
use crate::disk::sim::SimDisk;
use crate::error::Error;
use crate::rows::TableSchema;
use crate::scan::Scan;
use crate::table::{Grid, Layout};

/// Times, and so many columns of so many bytes.
fn columns(count: usize, bytes: i32) -> SchemaRef {
    let mut fields = vec![Field::new(
        "at",
        DataType::Timestamp(TimeUnit::Second, None),
        false,
    )];
    fields.extend((0..count).map(|n| Field::new(n.to_string(), DataType::FixedSizeBinary(bytes), false)));
    Arc::new(Schema::new(fields))
}

fn batch(times: &[i64], (count, bytes): (usize, i32)) -> RecordBatch {
    let values = vec![7; usize::try_from(bytes).expect("positive")];
    let values = FixedSizeBinaryArray::try_from_iter(times.iter().map(|_| &values));
    let values: ArrayRef = Arc::new(values.expect("of one length"));
    let mut all: Vec<ArrayRef> = vec![Arc::new(TimestampSecondArray::from(times.to_vec()))];
    all.extend((0..count).map(|_| values.clone()));
    RecordBatch::try_new(columns(count, bytes), all).expect("of one length")
}

fn layout() -> Layout {
    Layout::Sparse(Grid::every(1).expect("positive"))
}

#[test]
fn rows_at_the_ends_of_all_times_are_found() {
    const WIDTH: (usize, i32) = (2, 2250);
    let disk = SimDisk::new(1);
    let store = open(&disk, options()).expect("creates");
    let schema = TableSchema::new(columns(WIDTH.0, WIDTH.1), "at").expect("storable");
    let table = store.create_table_as("t", schema, layout()).expect("fresh");
    let ends = (0..6).flat_map(|n| [i64::MIN + n, i64::MAX - n]);
    let mut times: Vec<i64> = ends.chain(-2..2).collect();
    times.sort_unstable();
    table.append(&batch(&times, WIDTH)).expect("a sound disk");
    store.flush().expect("a sound disk");
    assert_eq!(
        store.info().expect("reads").tables[0]
            .density
            .expect("sparse")
            .blocks,
        16
    );
    let found = |scan: Scan| -> Vec<i64> {
        let batches = scan.map(|batch| batch.expect("reads"));
        let times = batches.flat_map(|batch| {
            batch.column(0).to_data().buffers()[0]
                .typed_data::<i64>()
                .to_vec()
        });
        times.collect()
    };
    // Blocks that are in no cache are read several at a time.
    drop((table, store));
    let store = open(&disk, options()).expect("opens");
    let table = store.table("t").expect("there");
    assert_eq!(found(table.range(..).expect("reads")), times);
    drop((table, store));
    let store = open(&disk, options()).expect("opens");
    let table = store.table("t").expect("there");
    let mut back = found(table.range(..).expect("reads").rev());
    back.reverse();
    assert_eq!(back, times);
    for &time in &times {
        assert_eq!(found(table.range(time..=time).expect("reads")), [time]);
    }
    table.delete_range(..i64::MIN + 3).expect("a sound disk");
    store.flush().expect("a sound disk");
    assert_eq!(found(table.range(..).expect("reads")), times[3..]);
    assert_eq!(store.verify().expect("reads").problems, []);
}

#[test]
fn a_row_that_no_block_has_room_for_is_refused() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options()).expect("creates");
    let schema = || TableSchema::new(columns(8200, 4096), "at").expect("storable");
    let calls = disk.calls();
    let refused = store.create_table_as("t", schema(), layout());
    let Err(error @ Error::Schema { .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(error.to_string().contains("sparse table"), "{error}");
    assert_eq!(disk.calls(), calls, "nothing is flushed for it");
    let schema = TableSchema::new(columns(2, 8), "at").expect("storable");
    store.create_table_as("t", schema, layout()).expect("fresh");
}
