//! Stores and tables that are created where there are none, and scans as readers.

use std::sync::Arc;
use std::thread;

use arrow_array::{Float64Array, RecordBatch, RecordBatchReader, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Error, Grid, Layout, Options, Store, TableSchema};
use tempfile::TempDir;

fn columns(names: &[&str], x: &DataType, time: &str) -> TableSchema {
    let times = DataType::Timestamp(TimeUnit::Second, None);
    let field = |name: &&str| match *name {
        "x" => Field::new("x", x.clone(), true),
        other => Field::new(other, times.clone(), true),
    };
    let fields: Vec<Field> = names.iter().map(field).collect();
    TableSchema::new(Arc::new(Schema::new(fields)), time).expect("columns that can be stored")
}

#[test]
fn a_store_is_created_once() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("s");
    let store = Store::open_or_create(&path).unwrap();
    store
        .create_table("t", columns(&["at", "x"], &DataType::Float64, "at"))
        .unwrap();
    store.close().unwrap();
    assert_eq!(Store::open_or_create(&path).unwrap().tables(), ["t"]);
}

#[test]
fn one_of_several_creates_a_new_store() {
    let dir = TempDir::new().unwrap();
    let options = Options::new().create_new(true).background(false);
    for round in 0..20 {
        let path = dir.path().join(format!("s{round}"));
        let open = || options.open(&path).map(drop);
        let opened = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            let ends = threads.into_iter().map(|thread| thread.join().unwrap());
            ends.collect::<Vec<_>>()
        });
        let is_refused = |error: &Error| matches!(error, Error::Locked { .. } | Error::AlreadyExists { .. });
        let errors: Vec<_> = opened.iter().filter_map(|end| end.as_ref().err()).collect();
        assert!(
            errors.len() == 3 && errors.iter().all(|error| is_refused(error)),
            "{errors:?}"
        );
        assert!(matches!(open(), Err(Error::AlreadyExists { .. })));
        // Without its data file, this is a creation that was cut short, which is begun again.
        std::fs::rename(path.join("data"), path.join("data.begun")).unwrap();
        open().unwrap();
    }
}

#[test]
fn a_table_is_created_once_and_must_have_the_columns() {
    let dir = TempDir::new().unwrap();
    let store = Store::create(dir.path().join("s")).unwrap();
    let float = DataType::Float64;
    let own = || columns(&["at", "x", "seen"], &float, "at");
    store.table_or_create("t", own()).unwrap();
    let grid = |interval| Layout::Sparse(Grid::every(interval).unwrap());
    store.table_or_create_as("u", own(), grid(10)).unwrap();
    store.table_or_create("t", own()).unwrap();
    let other_order = columns(&["x", "seen", "at"], &float, "at");
    store.table_or_create("t", other_order).unwrap();
    store.table_or_create("u", own()).unwrap();
    store.table_or_create_as("u", own(), grid(10)).unwrap();
    for (name, schema, layout, message) in [
        (
            "t",
            columns(&["at", "x"], &float, "at"),
            Layout::Indexed,
            r#"has a column "seen""#,
        ),
        (
            "t",
            columns(&["at", "x", "seen", "late"], &float, "at"),
            Layout::Indexed,
            r#"has no column "late""#,
        ),
        (
            "t",
            columns(&["at", "x", "seen"], &DataType::Int64, "at"),
            Layout::Indexed,
            "is Float64, not Int64",
        ),
        (
            "t",
            columns(&["at", "x", "seen"], &float, "seen"),
            Layout::Indexed,
            r#"ordered by "at""#,
        ),
        ("t", own(), grid(10), "has the layout"),
        ("u", own(), grid(20), "has the layout"),
    ] {
        match store.table_or_create_as(name, schema, layout) {
            Err(error @ Error::Schema { .. }) => assert!(error.to_string().contains(message), "{error}"),
            other => panic!("{message}: {other:?}"),
        }
    }
    assert_eq!(store.tables(), ["t", "u"]);
}

#[test]
fn threads_that_create_one_table_all_get_it() {
    let dir = TempDir::new().unwrap();
    let store = Store::create(dir.path().join("s")).unwrap();
    for round in 0..20 {
        let name = format!("t{round}");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    store
                        .table_or_create(&name, columns(&["at", "x"], &DataType::Float64, "at"))
                        .unwrap()
                });
            }
        });
    }
    assert_eq!(store.tables().len(), 20);
}

#[test]
fn a_reader_gives_what_its_scan_gives() {
    let dir = TempDir::new().unwrap();
    let store = Store::create(dir.path().join("s")).unwrap();
    let schema = columns(&["at", "x"], &DataType::Float64, "at");
    let table = store.create_table("t", schema.clone()).unwrap();
    let times: Vec<i64> = (0..20_000).rev().collect();
    let rows = RecordBatch::try_new(
        schema.arrow().clone(),
        vec![
            Arc::new(TimestampSecondArray::from(times.clone())),
            Arc::new(Float64Array::from_iter_values(
                times.iter().map(|&time| time as f64),
            )),
        ],
    );
    table.append(&rows.unwrap()).unwrap();
    let scan = || table.range(100..15_000).unwrap().columns(&["x"]).unwrap().rev();
    let reader = scan().into_reader();
    assert_eq!(&reader.schema(), scan().schema());
    let given: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    assert_eq!(given, scan().map(Result::unwrap).collect::<Vec<_>>());
    assert!(given.len() > 1);
}
