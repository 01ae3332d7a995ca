//! This project's table, in the indexed layout.

use std::path::Path;

use arrow_array::{Float64Array, RecordBatch};
use bedload::{Durability, Operator, Options, Predicate, Store, Table, TableSchema, Value};

use super::readings::{Reading, Readings, RowId, schema};
use super::{TableOptions, TableStore};

const TABLE: &str = "readings";

struct Ours {
    store: Store,
    table: Table,
}

pub(super) fn open(dir: &Path, options: &TableOptions) -> Box<dyn TableStore> {
    let durability = if options.is_durable {
        Durability::Always
    } else {
        Durability::Relaxed
    };
    let store = Options::new()
        .create(true)
        .cache_bytes(options.cache_bytes)
        .head_bytes(options.buffer_bytes)
        .durability(durability)
        .open(dir.join("store"))
        .expect("opens");
    let table = if store.tables().is_empty() {
        let mut schema = TableSchema::new(schema(), "at").expect("storable");
        if options.has_key {
            schema = schema.with_key(&["sensor"]).expect("a column");
        }
        store.create_table(TABLE, schema)
    } else {
        store.table(TABLE)
    };
    let table = table.expect("creates");
    Box::new(Ours { store, table })
}

impl TableStore for Ours {
    fn append(&self, rows: &Readings) {
        self.table.append(rows.batch()).expect("appends");
    }

    fn flush(&self) {
        self.store.flush().expect("flushes");
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        for batch in self.table.range(from..to).expect("there") {
            show(&batch.expect("reads"));
        }
    }

    fn point(&self, row: RowId) -> Option<u64> {
        let row = self.table.get(row.time).expect("reads")?;
        let number = |column| match row.value(column) {
            Some(Value::Float(number)) => number,
            other => panic!("a column of numbers has {other:?}"),
        };
        let (Some(Value::Int(sensor)), Some(Value::Text(state))) = (row.value(1), row.value(5)) else {
            panic!("a row without a sensor or state");
        };
        let reading = Reading {
            time: row.time(),
            sensor: i32::try_from(sensor).expect("of 32 bits"),
            numbers: [number(2), number(3), number(4)],
            state,
        };
        Some(reading.checksum())
    }

    fn newest(&self, rows: usize, show: &mut dyn FnMut(&RecordBatch)) {
        for batch in self.table.range(..).expect("there").rev().limit(rows as u64) {
            show(&batch.expect("reads"));
        }
    }

    fn count(&self, times: Option<(i64, i64)>) -> u64 {
        let rows = match times {
            None => self.table.range(..),
            Some((from, to)) => self.table.range(from..to),
        };
        rows.and_then(bedload::Scan::count).expect("counts")
    }

    fn cold(&self, celsius: f64, show: &mut dyn FnMut(&RecordBatch)) {
        let at_most = Predicate::compare(Operator::LtEq, &Float64Array::from(vec![celsius]));
        let rows = self.table.range(..).expect("there");
        let rows = rows.filter("celsius", at_most.expect("a number"));
        for batch in rows.expect("a column of numbers") {
            show(&batch.expect("reads"));
        }
    }

    fn delete(&self, from: i64, to: i64) {
        self.table.delete_range(from..to).expect("deletes");
    }

    fn reclaim(&self) {
        self.store.flush().expect("flushes");
    }
}
