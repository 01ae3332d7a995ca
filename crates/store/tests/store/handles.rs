//! Handles of tables whose columns change.

use std::path::Path;

use arrow_array::RecordBatch;
use bedload::{Error, Options, Store, Table, TableSchema, restore, salvage};

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

/// Closes the store `store` of a directory, whose handles are gone, and checks that it and its
/// copies there have a table `t` with this schema, and what `check` expects: a backup, what is
/// restored from that, and what is salvaged.
pub(crate) fn check_with_copies(store: Store, dir: &Path, schema: &TableSchema, check: impl Fn(&Table)) {
    let place = |name: &str| dir.join(name);
    store.backup(place("backup")).expect("copies");
    drop(store);
    restore(place("backup"), place("restored")).expect("copies");
    let report = salvage(place("store"), place("saved")).expect("saves");
    assert_eq!(report.problems, []);
    assert_eq!(report.tables[0].schema, *schema);
    for copy in ["store", "backup", "restored", "saved"] {
        let store = open(&place(copy));
        let table = store.table("t").expect("there");
        assert_eq!(table.schema(), schema, "{copy}");
        check(&table);
        assert_eq!(store.verify().expect("reads").problems, [], "{copy}");
    }
}
