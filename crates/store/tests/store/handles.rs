//! Handles of tables whose columns change.

use std::path::Path;

use arrow_array::RecordBatch;
use bedload::{Error, Options, Store, Table};

/// Opens a store, or creates it, that flushes when it is told to.
pub(crate) fn open(path: &Path) -> Store {
    Options::new()
        .create(true)
        .background(false)
        .open(path)
        .expect("opens")
}

/// The names of a handle's columns.
pub(crate) fn names(table: &Table) -> Vec<&str> {
    let fields = table.schema().arrow().fields();
    fields.iter().map(|field| field.name().as_str()).collect()
}

/// Checks that two handles with other columns refuse each other's rows.
pub(crate) fn refuse_rows_of_each_other(tables: [&Table; 2], rows_of: impl Fn(&Table) -> RecordBatch) {
    let [a, b] = tables;
    for refused in [a.append(&rows_of(b)), b.append(&rows_of(a))] {
        assert!(matches!(refused, Err(Error::Schema { .. })), "{refused:?}");
    }
}
