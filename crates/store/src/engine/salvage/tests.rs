//! Logs that no store has written, and tables with a key of which older rows are found.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use super::*;
use crate::disk::sim::SimDisk;
use crate::engine::Engine;
use crate::rows::{BlockRef, EncodedRows, TableSchema};
use crate::store::Store;
use crate::table::{Grid, Layout};

fn batch(times: std::ops::Range<i64>) -> RecordBatch {
    let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    let times: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(times));
    RecordBatch::try_new(Arc::new(Schema::new(vec![at])), vec![times]).expect("of one length")
}

#[test]
fn numbers_that_no_store_gets_to_are_a_problem_and_no_more() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    let (from, to) = (Path::new("/from"), Path::new("/to"));
    let options = || Options::new().create(true).background(false);
    let store = Store::new(Engine::open(disk.clone(), from, options()).expect("creates"));
    let schema = TableSchema::new(batch(0..1).schema(), "at").expect("storable");
    let layout = Layout::Sparse(Grid::every(1).expect("positive"));
    let table = store.create_table_as("t", schema, layout).expect("fresh");
    table.append(&batch(0..10)).expect("a sound disk");
    let id = table.id();
    drop((store, table));
    let engine = Engine::open(disk.clone(), from, options()).expect("opens");
    let entry = engine.view().catalogue.named("t").expect("there").entry.clone();
    assert_eq!(entry.id.0, id);
    let block = BlockRef {
        crc: 0,
        rows: 1,
        units: 1,
        layer: 0,
        born: 0,
    };
    let head = Record::blocks_head(entry.id, COUNTER_MAX, [(0, block)].into_iter());
    let rest = EncodedRows::of_columns(&entry.schema, batch(0..0).columns());
    let end = engine.log.append_naming(&[&head, rest.bytes()], None);
    engine
        .log
        .sync_to(end.expect("a sound disk"))
        .expect("a sound disk");
    drop(engine);

    let report = salvage(disk.clone(), from, to).expect("it can be written");
    let told = report
        .problems
        .iter()
        .filter(|problem| problem.reason == OUT_OF_NUMBERS);
    assert_eq!(told.count(), 1, "{:?}", report.problems);
    for rows in [10, 11] {
        let store = Store::new(Engine::open(disk.clone(), to, options()).expect("opens"));
        let table = store.table("t").expect("was saved");
        assert_eq!(
            table.range(..).and_then(|scan| scan.count()).expect("reads"),
            rows
        );
        table.append(&batch(10..11)).expect("a store like any other");
    }
}

/// Rows of a table with a key: four sensors at each time, which all have the same value.
fn readings(times: std::ops::Range<i64>, value: i64) -> RecordBatch {
    let rows = times.flat_map(|time| (0..4).map(move |sensor| (time, sensor)));
    let (times, sensors): (Vec<i64>, Vec<i64>) = rows.unzip();
    let at: ArrayRef = Arc::new(TimestampSecondArray::from(times));
    let values: ArrayRef = Arc::new(Int64Array::from(vec![value; sensors.len()]));
    let sensors: ArrayRef = Arc::new(Int64Array::from(sensors));
    let columns = [
        ("at", at, false),
        ("sensor", sensors, false),
        ("value", values, true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("of one length")
}

#[test]
fn a_row_that_was_replaced_does_not_come_back_beside_the_one_with_its_key() {
    let disk = SimDisk::new(1);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (from, to) = (Path::new("/from"), Path::new("/to"));
    let options = || Options::new().create(true).background(false);
    let store = Store::new(Engine::open(shared.clone(), from, options()).expect("creates"));
    let schema = TableSchema::new(readings(0..1, 0).schema(), "at").expect("storable");
    let schema = schema.with_key(&["sensor"]).expect("a column");
    let table = store.create_table("t", schema).expect("fresh");
    for (times, value) in [(0..3000, 1), (0..3000, 2), (1000..1500, 3)] {
        table.append(&readings(times, value)).expect("a sound disk");
        store.flush().expect("a sound disk");
    }
    // This one is in the log and nowhere else.
    table.append(&readings(2000..2100, 4)).expect("a sound disk");
    let sound = disk.copy();
    drop((store, table));
    for offset in Superblock::offsets() {
        let at = usize::try_from(offset).expect("small");
        sound.change(&from.join(DATA_FILE), at + 20, 0x10);
    }

    let sound: Arc<dyn Disk> = Arc::new(sound);
    let report = salvage(sound.clone(), from, to).expect("it can be written");
    // Without a superblock it cannot tell which rows were deleted, and says so.
    let told = |problem: &Problem| problem.place == "the page map" && problem.reason.contains("deleted");
    assert!(report.problems.iter().any(told), "{:?}", report.problems);
    let store = Store::new(Engine::open(sound, to, options()).expect("opens"));
    let rows = store.table("t").and_then(|table| table.range(..)).expect("reads");
    let mut found = Vec::new();
    for batch in rows {
        let batch = batch.expect("reads");
        found.extend_from_slice(batch.column(2).as_primitive::<Int64Type>().values());
    }
    let newest = |time: i64| match time {
        1000..1500 => 3,
        2000..2100 => 4,
        _ => 2,
    };
    let expected: Vec<i64> = (0..3000).flat_map(|time| [newest(time); 4]).collect();
    assert!(found == expected, "{} rows", found.len());
    assert_eq!(store.verify().expect("reads").problems, []);
}
