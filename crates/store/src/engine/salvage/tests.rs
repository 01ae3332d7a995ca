//! Logs that no store has written.

use arrow_array::{ArrayRef, RecordBatch, TimestampSecondArray};
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
