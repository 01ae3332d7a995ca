//! The store of this project, in both layouts.

use std::path::Path;

use arrow_array::RecordBatch;
use bedload::{Grid, Layout, Options, Store, Table, TableSchema, Value};

use super::rows::{COLUMNS, Rows, fold, schema};
use super::{CACHE_BYTES, RowStore};

struct Ours {
    store: Store,
    table: Table,
}

/// A row every second at its place.
pub(super) fn sparse(dir: &Path) -> Box<dyn RowStore> {
    make(dir, Layout::Sparse(Grid::every(1).expect("positive")))
}

/// Rows under an index.
pub(super) fn indexed(dir: &Path) -> Box<dyn RowStore> {
    make(dir, Layout::Indexed)
}

fn make(dir: &Path, layout: Layout) -> Box<dyn RowStore> {
    let options = Options::new().create(true).cache_bytes(CACHE_BYTES);
    let store = options.open(dir.join("store")).expect("a fresh directory");
    let schema = TableSchema::new(schema(), "at").expect("storable");
    let table = store.create_table_as("t", schema, layout).expect("fresh");
    Box::new(Ours { store, table })
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
