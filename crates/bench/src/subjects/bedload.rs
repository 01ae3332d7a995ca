//! This project's store, in both layouts.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bedload::{Grid, Layout, Options, Store, Table, TableSchema, Value};

use super::contract::{CACHE_BYTES, RowStore};
use super::row_batches::{COLUMNS, Rows, fold, schema};

struct Ours {
    store: Store,
    table: Table,
}

/// One row per second, located by its time.
pub(super) fn sparse(dir: &Path) -> Box<dyn RowStore> {
    make(dir, every_second())
}

/// Rows under an index.
pub(super) fn indexed(dir: &Path) -> Box<dyn RowStore> {
    make(dir, Layout::Indexed)
}

fn make(dir: &Path, layout: Layout) -> Box<dyn RowStore> {
    let (store, table) = table(dir, schema(), layout);
    Box::new(Ours { store, table })
}

/// Creates a store in a directory and an empty table, whose time is column `at`.
pub(crate) fn table(dir: &Path, columns: SchemaRef, layout: Layout) -> (Store, Table) {
    let options = Options::new().create(true).cache_bytes(CACHE_BYTES);
    let store = options.open(dir.join("store")).expect("a fresh directory");
    let schema = TableSchema::new(columns, "at").expect("storable");
    let table = store.create_table_as("t", schema, layout).expect("fresh");
    (store, table)
}

/// Returns the layout of one row per second.
pub(crate) fn every_second() -> Layout {
    Layout::Sparse(Grid::every(1).expect("positive"))
}

impl RowStore for Ours {
    fn append(&mut self, rows: &Rows) {
        self.table.append(&rows.batch).expect("appends");
    }

    fn settle(&mut self) {
        self.store.flush().expect("flushes");
    }

    fn writes_over(&self) -> bool {
        self.table.layout() != Layout::Indexed
    }

    fn get(&self, time: i64) -> Option<u64> {
        let row = self.table.get(time).expect("reads")?;
        let value = |column| match row.value(column) {
            Some(Value::Bytes(bytes)) => bytes,
            other => panic!("a column of bytes has {other:?}"),
        };
        Some(fold((1..=COLUMNS).map(value)))
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        for batch in self.table.range(from..to).expect("there") {
            show(&batch.expect("reads"));
        }
    }
}
